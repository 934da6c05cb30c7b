// Package trainer runs the trainer role: it trains a trainer program, step after step, on batches that the coordinator assigns, until the data ends.
//
// The package owns the life of one trainer process: its generations, its steps, what it reports, and how it saves and leaves. It owns no parameter: those
// live on the pservers, and every generation receives them anew.
//
// Files in reading order. For one step: generation.go (the loop), one of the sources, comm.go, report.go.
//
//	trainer.go      Run: join one generation after the other, and leave
//	generation.go   what a trainer does in one generation: start, train, report
//	save.go         the election of who saves, and the directories of the state
//	syncsource.go   batches of a sync job that reads data: the trainer's rows of every batch
//	asyncsource.go  batches of an async job that reads data: whole batches of the trainer's tasks
//	fedsource.go    batches of a fed job: the trainer's share of what the user feeds
//	tasks.go        what both sources of data share: tasks, and which of them are finished
//	records.go      the records of tasks, read by their numbers
//	evaluate.go     evaluation of held-back data before some rounds, divided among the trainers
//	comm.go         what send, recv and barrier ops do
//	tablerows.go    how rows of tables that only servers hold are fetched
//	ahead.go        how they are asked for before a step wants them
//	links.go        the same over connections of the data plane: all links of a generation, and how a step waits for all of them
//	link.go         one link: slices in and out, and an exchange that goes on over another connection when one breaks
//	connect.go      how a link opens a connection, and what ends with one
//	contribution.go what a step sends to one server
//	synclink.go     what a link does in a step of a sync job
//	asynclink.go    what it does in an async job, and before the first step; the ledger of async steps
//	counted.go      which contributions count, with backup trainers
//	pace.go         how far an async trainer may be ahead of others
//	group.go        the leader of the trainers of one host: it merges what they contribute
//	grouprounds.go  the machine of a group's rounds
//	groupline.go    the connection of a led trainer, at its leader
//	groupled.go     how a trainer begins to lead or to be led
//	groupprobe.go   how a trainer that waits for its group hears that the generation has ended
//	leader.go       where a trainer answers those whom it leads
//	report.go       what the trainer fetched goes to the coordinator, while the next step trains
//	call.go         how a trainer calls others, and lists that it waits for them
//	callgroup.go    calls that run at the same time, and end together
//
// # Generations
//
// A generation is a set of trainers that train together. A job has one kind of generation, whether it reads data or is fed.
//
//	          Join                     parameters received            data ended: EOF
//	joining ---------> starting --------------------------> training -------------------> finishing --> leave
//	   ^                   |                                    |                             |
//	   |                   |      fault.Superseded: the generation has ended                  |
//	   +-------------------+------------------------------------+-----------------------------+
//	        flush the reports, give up everything else
//
//	joining    The trainer has reported everything of the generation before. It holds no parameter and no batch.
//	starting   Its scope is new. Parameters are received as they are before round g of JoinResponse.
//	training   The parameters are those before the round that is trained. Steps follow each other without a gap.
//	finishing  Everything is reported. One trainer is elected; it receives the final values when all others have completed, and saves them.
//
// A trainer that is to end early (drain) finishes its step, hands in the tasks that are finished, flushes its reports and leaves. One that is killed and
// started again joins like any other.
//
// # A step
//
//	source.Next          forward, backward          SendBarrier            FetchBarrier           report
//	     |                       |                       |                      |                   |
//	batch of round r ---> Send each gradient ---> declared at every ---> parameters of ---> queued for the
//	(BeginStep)           slice as it is there    server: r may commit   round r+1 are here  next message (report.go)
//	     |                       |                       |                      |
//	     `------ given up when the generation ends ------'                      |
//	             it counts nowhere                       `--- superseded: the step ends well, and is reported as pending;
//	                                                          the coordinator knows whether r has committed
//
// The call of Next for the batch after says that the step has ended well: only then do its records count as trained. In async mode they count when the
// step is in the ledger of the pservers, which is one step later.
//
// An async step has no SendBarrier: the trainer asks for the parameters behind its gradients. When all are here, FetchBarrier declares the step at server
// 0, which keeps the ledger. The answer comes while the next step computes, and the first Send of that step waits for it.
//
// # Groups
//
// In a job with merge_hosts the trainers of one host are a group, whose first is the leader. A round of a group of three and two servers:
//
//	led: 1, 2                         leader 0                                        servers A, B
//	Data, Declare  ------------->     keeps both contributions
//	               <------------- Ack
//	                                  its own step ends: waits for 1 and 2
//	                                  merges 0, 1, 2 in rank order
//	                                  Data -----------------------------------------> one contribution
//	                                  <---------------------------------------------- Ack of A and of B
//	                                  Declare: rows, records and pass of 0, 1, 2 ---> the group has declared
//	               <------------- Params <------------------------------------------- Params
//
// What holds:
//
//   - The leader declares nothing before every member has declared to it, and every server has the merge. So a server never knows of a part of a
//     group.
//   - A led trainer has declared when it has told its leader. If the generation ends before the parameters are here, its report is pending.
//   - Who waits for another trainer of the group asks a server now and then. So a leader or led trainer that is gone or hangs holds up nobody longer
//     than the coordinator needs to notice.
//   - A leader ends a generation for its led trainers with fault.Superseded, whatever its own reason is.
//
// # One trainer through a regroup
//
// Trainers 0 and 1 train generation 3, with a batch of 10 rows. Trainer 0 has rows 0 to 4 of each. Trainer 1 is lost in round 7.
//
//  1. Trainer 0 has sent its gradients of round 7, declared the round at pservers 0 and 1, and waits for the parameters of round 8.
//  2. The coordinator freezes generation 3. The waiting calls fail with fault.Superseded. Comm notes that, the step ends without new parameters, and the
//     loop reports round 7 as pending, without the values that were still to be received.
//  3. The loop returns fault.Superseded. Run flushes the reports and calls Join; its scope and its source are gone.
//  4. Trainer 1 had not declared round 7 anywhere, so the round cannot commit: generation 4 begins with round 7 again. The coordinator drops the pending
//     report. (Had trainer 1 declared it before it was lost, generation 4 would begin with round 8, and the report would count.)
//  5. Join answers: generation 4, one member, round 7, and the segment that says which batch that is. Trainer 0 receives the parameters before round 7
//     and trains all 10 rows of the same batch.
//
// In a fed job the last part differs only in where the batch comes from: trainer 0 asks for item 0 of generation 4, which is the batch of round 7.
package trainer
