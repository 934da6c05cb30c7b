// Package pserver is the role of a parameter server: it holds slices of the model, merges what trainers contribute to them, runs the update ops of
// its program, and serves the new values until every trainer has completed.
//
// It owns the rules by which contributions count (the machines Rounds and Updates), the gRPC service ParameterServer, and the Ledger of the records
// that updates were computed from, which server 0 keeps. It does not own the membership of a job: a coordinator decides that, and tells the server by
// Freeze and Resume. The arithmetic of a merge is in internal/merge, which the reference executor shares.
//
// # Files in reading order
//
//	machine.go   events, effects, and what both machines know of coordinators and generations
//	rounds.go    the machine of a sync job
//	members.go   what it knows of the members of a generation, and which groups and commits it refuses
//	backup.go    rounds that count without late trainers
//	updates.go   the machine of an async job
//	core.go      the state under the one lock of a server; tells the machine events and carries out effects
//	service.go   the calls of trainers
//	data.go      the same over connections of the data plane
//	asyncdata.go what differs on these connections in an async job
//	control.go   the calls of coordinators, and Status and Ledger
//	cut.go       the server's parts of checkpoints; freezing.go: what changes slices while a cut is written; frozen.go: a slice as it was at the cut;
//	             changed.go: what has changed since a whole one; restore.go: the way back to one
//	mirror.go    keeps the standby of a server equal to it; standby.go: the end of the standby; standing.go: what their machines tell each other
//	portions.go  in which order a standby gets the slices
//	asyncmirror.go  the same in an async job, update by update; asyncstanding.go: what the machines tell each other there
//	pace.go      how far a trainer of an async job may be ahead of the others
//	hold.go      how an async job is cut between the steps of its trainers
//	move.go      the state moves to the servers of another placement; ahead.go: most of it is copied before, while rounds go on;
//	             blocksums.go: which blocks rounds have changed since
//	lent.go      contributions that stay in shared memory
//	inbox.go     where contributions arrive
//	stepper.go   applies a sync round to the inbox
//	updater.go   applies the contributions of an async job
//	exchange.go  partial sums that servers give each other in the middle of a round
//	ledger.go    which records were trained, and the encoding of that
//	tables.go    how much a server has of tables, for Status
//	waits.go     what is waited for, and the deadlines that end it
//	server.go    Config, and Serve, which puts the parts together
//
// A sync round is in service.go, core.go, machine.go, rounds.go and stepper.go.
//
// # A sync round
//
// Round r makes version r+1 of the parameters out of version r. Every member of the generation sends its contribution to every server, and when all
// servers have acknowledged it, its barrier. So a barrier at one server proves that the contribution is at all of them.
//
//	receive ------> declared by all -----> merge ----> prepare, exchange ---> LR block ---> optimize blocks ---> publish
//	SendVariable    SendBarrier            in rank     only with a global     once          one a slice          Applied:
//	(Offered,       (Declared);            order       norm                                                      round = r+1
//	Received)       the last: Apply
//
// In a job with merge_hosts the trainers of one host form a group. Its leader sends one contribution, which is the merge, and one declaration, which
// names every member of the group with its rows and records. Members of a group are declared together or not at all. State and Resume speak of ranks;
// a contribution belongs to the leader of its rank in the generation in which it was sent.
//
// Over a connection of the data plane (package dataplane) the same events come in frames, and the parameters are sent when the round is applied, without
// being asked for. The machine does not see the difference.
//
// What holds in each phase:
//
//	receive           Served values are version r. A contribution is taken once; a second one of the same rank, round and name is acknowledged and
//	                  dropped. No tensor of another generation is in the inbox.
//	declared by all   Every member has declared round r or completed. All contributions are at all servers, so round r counts on every server:
//	                  Freeze tells it as applied from here on.
//	merge             Nothing is added to the inbox, because messages of round r+1 are held. Contributions merge in rank order with the weight of
//	                  their rows, so the result depends neither on arrival nor on the number of servers.
//	exchange          Every server that applies round r publishes its partial sums of it. A server finishes r only when it has those of all, so no
//	                  server is more than one round ahead of another, and the sums of two rounds are enough to keep.
//	LR block          It runs once a round, before every block that reads the learning rate.
//	optimize blocks   They write different variables, so several run at once. Nobody reads: GetVariable of version r+1 is held, and ReadAny copies
//	                  values under the lock that the blocks hold shared.
//	publish           The inbox is empty, the ledger has the records of round r, and the machine is in phase receive of round r+1.
//
// # Freeze and Resume
//
// A coordinator ends generation g with Freeze and begins the next one with Resume. Its fence tells it from coordinators before it: a server refuses a
// coordinator whose fence is lower than any that a message has named.
//
//	generation g --Freeze(g)--> frozen --Resume(g+1, round, members, commit)--> generation g+1
//	                              |
//	                              round = version           drop the open round; the new members train it again
//	                              round = version + 1       apply the open round, made of commit; then the new members go on
//	                              members empty             the end of the job
//
//	frozen   Messages of generation g are superseded, and those of later generations are held. What has arrived stays in the inbox. A round that is
//	         being applied goes on and counts as applied. State, which answers Freeze, does not change but for that.
//	Resume   All servers get the same round and commit, because the coordinator makes its decision durable before it tells anybody. So all end up with
//	         the same version, made of the same contributions.
//
// A server without parameters may be a round behind the others, because trainers read nothing from it. When Resume commits the round after the one that
// such a server is still applying, the server holds that Resume until the earlier round has ended.
//
// In async mode Freeze stops nobody, and Resume only replaces the list of members.
//
// # Restore
//
// When another server is lost, a coordinator puts the state of the last checkpoint in the place of what each server has, the new one, too. The round that is
// being applied is given up, because it may wait for partial sums of the server that is lost.
//
//	generation g --Restore(g, round, history)--> frozen, version = round --Resume(g+1, round)--> generation g+1
//
// In async mode a server drops what it has received and not applied, and the trainers have to join the next generation.
//
// Freeze tells which history the state of a server belongs to. A coordinator goes on only with servers of its own history.
//
// # A standby
//
// A standby has the program of its server, and applies the same rounds. A round is a function of the merges of contributions, so these are sent to it, once,
// and it has the same bits. The server publishes a round when the standby has its merges. So when the server is lost, the standby has every round that
// anybody may have seen. It takes over in the same generation:
//
//	server 0, round 7          standby of 0               server 1               trainers
//	merges 7, sends it ------> has 7                      applies 7
//	publishes 8                applies 7                  publishes 8            receive 8, send round 8 to both, declare it
//	dies                       TakeOver: server 0,        declared by all:       get 9 of server 1; their connection to server 0 ends
//	                           round 8, nothing of it     applies 8
//	                           receives round 8 again <------------------------- send it again to the process that has not acknowledged it
//	                           applies 8                                         get 9
//
// So nobody begins another generation for it. Where one begins meanwhile, Freeze says that contributions may be missing (Lacks): the coordinator drops the
// open round, unless another server has applied it. Then, if a contributor is lost, too, only a checkpoint helps.
//
// # An example: a trainer dies
//
// Two trainers, 0 and 1, train round 7 on two servers, A and B, in generation 3. Each has 16 rows of the batch. Trainer 1 dies after its barrier has
// reached A and before it reaches B.
//
//	                            A                                     B
//	trainer 0 sends, declares   declared by 0                         declared by 0
//	trainer 1 sends             all contributions are here            all contributions are here
//	trainer 1 declares, dies    declared by 0 and 1: applies 7        declared by 0; waits for trainer 1
//	trainer 0 asks for 8        gets version 8                        is held: "round 7: trainer 1"
//	Freeze(3)                   tells version 8, made of {0:16,1:16}  tells version 7, declared {0:16}
//	trainer 0 is told           -                                     superseded: join generation 4
//
// A has applied round 7, so it counts. The coordinator decides: generation 4 has member 0 and starts with round 8, and round 7 is made of {0:16,
// 1:16}.
//
//	Resume(4, 8, {0}, commit)   has version 8: nothing to apply       has both contributions: applies 7
//	trainer 0 asks for 8        gets version 8                        is held until 7 is applied; gets version 8
//	trainer 0 trains round 8    on all 32 rows of the batch           -
//
// If trainer 1 dies before its barrier reaches any server, both servers answer Freeze with version 7, declared {0:16}. Nobody knows whether trainer 1
// has sent all of its rows, so the coordinator decides to start with round 7: Resume(4, 7, {0}). Both servers drop what has arrived, and trainer 0
// trains round 7 alone, on all 32 rows. In both cases every record of the batch counts once.
//
// The exchange of partial sums may make A wait for B in the middle of round 7. Freeze does not wait for that, because B applies round 7 only after
// the Resume that follows this Freeze.
//
// # Async mode
//
// Each contribution is an update of its own, without rounds: it waits in the queue of the block that reads it, and is applied in the order of
// arrival. The learning-rate block runs once for each step of each trainer, before anything of that step is applied. A trainer that reads gets a
// value to which all of its own contributions are applied. A trainer that is started again begins when all earlier contributions of its rank are applied.
// A queue has room for some contributions. A trainer that is further ahead waits in its SendVariable, or its connection is not read.
//
// # Waits
//
// Status lists every call that waits, and what it waits for. What the server itself waits for has a deadline, whether or not a call is blocked: the
// start of a generation, the end of a round that somebody has begun, partial sums. When the deadline passes, the server fails and names who was
// missing.
package pserver
