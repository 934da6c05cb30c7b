// Package coordinator is the coordinator of a job. It hands data or feeds out to trainers, decides with package generation who trains together, and makes
// one log of steps of what they report.
//
// # Files, in reading order
//
//   - server.go: the Server, a gRPC shell. It checks who calls and asks a part; config.go has what it is told about its job
//   - core.go: what the parts share: the monitor, the waits for it, the end of the job
//   - store.go: what is durable, and the one way to change it; ahead.go: what may be told before it is
//   - members.go, changes.go: who trains. members tells the generation machine what happens; changes carries out what the machine wants
//   - dispatch.go, follow.go: data. Tasks for trainers; files of datasets that grow. owed.go: what backup trainers have dropped
//   - feeds.go, share.go: the source of a fed job; the parts of a batch
//   - collector.go, steps.go, fetch.go: reports become steps, in order; values that only servers know
//   - ending.go: which rounds may begin, when the job ends, who saves its model and where a later job goes on
//   - cutplan.go, cuts.go: checkpoints; cutupdates.go: those of async jobs; cutidle.go: those of jobs that wait for files; goback.go: the way back to one, when a pserver is lost; move.go: another
//     number of pservers
//   - heldback.go, evaluate.go: evaluation on held-back data while the job trains
//   - read.go: the variables of a job that waits for its user
//   - overview.go: what people ask
//
// # State and locks
//
// One monitor (core.monitor) guards the state of all parts, because a question that one part answers often concerns another: a task goes to a member, a
// feed to a generation. The monitor is held for short looks and changes only. Nobody holds it while the store, a server or the merge of values is waited
// for. So there are two more turns: one goroutine commits (store.commits), and one at a time merges and writes steps (stepWriter.turn).
//
// Entries of the job in the cluster's store outlive a coordinator: the queues, the last generation, who has left, who saves, and how many steps were
// written. They change under the lock that the coordinator holds. A coordinator that has lost the lock can change nothing there, and is refused by
// servers that have heard of a later one; it ends with fault.Fenced. Its callers are told fault.Unavailable, and ask the next one.
//
// # A step of a sync job through the parts
//
//	trainer                  coordinator                                            invariant
//	  |-- GetTask ------------> dispatch -> store: a txn                              an answer is durable before it is sent
//	  |-- Permit (max_ahead) -> ending: acknowledged enough?                          no round begins that finish has ruled out
//	  |   trains the round with the pservers, which commit it when all have declared it
//	  |-- ReportSteps --------> steps -> collector: rows of all reports = batch?      a step is complete, or its generation has ended
//	  |                            `--> stepWriter: merges -> log                     steps are written in order, each once
//	                                           `--> Watch                             a watcher is told every step from its position on
//
// A fed job has NextFeed in place of GetTask and Permit. Its user's call of Feed enters an item, and is answered when the step is written.
//
// # An example: a trainer is lost in a fed step
//
// Trainers 0 and 1 are generation 3, which began with round 40. The user feeds 8 rows as step 1 of the session, so round 41 trains them.
//
//  1. Feed: accept enters item 1 and adds it to the lists of both members. Each asks NextFeed for its share: rows 0-3 and 4-7.
//  2. Trainer 1 dies after it has sent a part of its gradient. Its lease ends; Lost tells the machine.
//  3. The machine freezes the pservers. Round 41 was not declared by all, so the servers answer 41 rounds, and the next generation begins with round 41.
//     Trainer 0 is told fault.Superseded, reports what it knows (Pending), and joins.
//  4. Generation 4 begins with trainer 0 alone. steps.reopen drops its report of round 41: the round has not committed. feeds.begun finds that round 41 is
//     that of item 1, and hands it out again: all 8 rows to trainer 0.
//  5. The round commits, trainer 0 reports 8 of 8 rows, the step is written, and Feed returns it: the values are those of an undisturbed step.
//
// Had both declared round 41 before trainer 1 died, generation 4 would begin with round 42. The report of trainer 0 counts then, and nobody will send the
// other one. When all members have asked for an item of generation 4, the step is closed with 4 of its 8 rows reported, and Feed fails with
// fault.Duplicate: the step is trained, and what it fetched is not known.
package coordinator
