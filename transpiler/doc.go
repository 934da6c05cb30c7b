// Package transpiler says where: from one program that trains on one machine it makes the programs of the roles that train the
// same model on many.
//
//   - The trainer program is the user's without its update. Each gradient is sent as soon as it exists, cut into slices where
//     its parameter is sliced; at the end of the step new parameters are received. All trainers run one program, in which
//     neither their number nor their rank stands.
//   - A pserver program holds slices of parameters with their accumulators and runs their updates: one listen_and_serv op
//     and the blocks that it runs in every round.
//   - The save program collects what servers hold and writes the files that a local run would write.
//
// Every role program has a startup program. Servers are named by index, as in "pserver:0"; who they are is the job's business.
//
// Transpile is a table of passes. Each reads and writes one state, the order is checked against what each pass says it needs, and the
// role programs are verified against the table of stages after every pass that changed them. The plan (what belongs together,
// how it is sliced, who holds it) is made before any program is written:
//
//	verify input ─> classify ─> global part ─> groups ─> contributions ─> slice ─> place ─> hold ─> fetch
//	             ─> trainer ─> trainer startup ─> pservers ─> pserver startup ─> save
//
// The law that everything here serves: in sync mode the role programs compute, bit for bit, what the user's program computes in
// the reference executor. So a group of ops is cut by rows only when every op in it is known to be RowSliced, norms are exchanged as exact
// sums, slices of random initial values are slices of the whole, and whatever does not fit stays whole on one server.
// What cannot be spread at all is refused with the op, the variable and the user's line.
package transpiler
