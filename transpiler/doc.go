// Package transpiler says where: from one program that trains on one machine, it makes the programs of the roles that train the same model on many
// machines.
//
//   - The trainer program is the user's program without the update. It sends each gradient as soon as it exists, in slices if the parameter is
//     sliced. At the end of the step it receives the new parameters. All trainers run the same program. It contains neither their number nor their
//     rank.
//   - A pserver program keeps slices of parameters with their accumulators, and updates them. It is one listen_and_serv op and the blocks that this
//     op runs in every round.
//   - The save program collects the variables of the servers and writes the files that a local run would write.
//
// Every role program has a startup program. Programs name servers by index, such as "pserver:0". The job knows their addresses.
//
// Transpile is a table of passes. Each pass reads and writes one state. An init function checks the order of the passes against what each needs.
// After each pass that changes role programs, the state verifies them against the table of stages. The first passes make a plan, and the later ones
// write programs:
//
//	verify input ─> classify ─> global part ─> groups ─> contributions ─> slice ─> forms ─> place ─> server variables ─> fetch
//	             ─> trainer ─> trainer startup ─> pservers ─> pserver startup ─> save
//
// All passes keep one law: in sync mode the role programs compute, bit for bit, what the user's program computes in the reference executor. So the
// transpiler divides a group of ops by rows only if every op is RowSliced, servers exchange norms as exact sums, slices of random initial values
// are slices of the whole, and everything else stays whole on one server. If a program cannot be spread at all, the error names the op, the
// variable and the user's line.
//
// Files in reading order: transpile.go (the table of passes), config.go, state.go; the plan: classify.go, groups.go, place.go (slices, and where they
// go), compress.go (what travels in fewer bits), server_vars.go, fetch.go; the programs: trainer.go, pserver.go, norm.go (norms over all servers), role_ops.go.
package transpiler
