package queue

import (
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// An Event is what happens to a queue: one of the types below.
type Event interface{ apply(s *step) error }

// TaskWanted says that a trainer asks for the next task of a pass. Effects.Grant is the answer.
//
// In sync mode the queue does not hand tasks out: all trainers read the same records. The answer names the records from Position on that the
// segment of the pass does not skip, up to the ends of the tasks that they are in. The request may be repeated at will.
type TaskWanted struct {
	Rank id.Rank
	// Since is async: the generation in which the process joined. It tells the processes of a rank apart, and only rises.
	Since id.Generation
	// Request is async: the number of the request among those of this process, higher with each new one. A repeated request is given the same task
	// again, also by the next coordinator. A request below the last one that was granted is fault.Stale.
	Request  uint64
	Pass     int32
	Position int64 // sync: the first record that is wanted
	// Records is sync: how many records are wanted. The queue grants as many tasks as hold them, at least one, and adds none once they weigh maxGrant.
	Records int64
	Round   id.Round // sync: in the first request for a new pass, the first round of that pass. All rounds before it have been trained
	// Committed is, with Policy.Backup in a request for the pass after the current one, what the ledger has of the current one after the round before Round.
	// Where records are left, the pass does not end: Effects.Regroup asks for a generation that trains them.
	Committed ranges.Set
}

// RecordsOwed says, with Policy.Backup, that so much was dropped that what is left of the pass is to be divided anew: Effects.Regroup asks for a new
// generation, and Regrouped follows.
type RecordsOwed struct{}

// TaskFinished says that every record of a task has been trained, in rounds or updates that count. In sync mode the same holds for all tasks before it.
// A repeated event changes nothing.
type TaskFinished struct {
	Rank  id.Rank
	Since id.Generation // async
	Task  *rpc.Task
}

// TaskFailed says that a trainer cannot do a task. It raises the failure counter of the task.
//
// In async mode the task goes back, without the records of it that are committed. In sync mode Effects.Regroup asks for a new generation, and
// Regrouped follows. Failures before that are the same failure, because all trainers read the same records.
type TaskFailed struct {
	Rank      id.Rank
	Since     id.Generation // async
	Task      *rpc.Task
	Reason    string
	Committed ranges.Set // async: of Task.Pass, from the ledger
}

// TaskTimedOut says that the time of a dispatch is over; Queue.Next makes it. It raises the failure counter of the task.
type TaskTimedOut struct {
	Pass      int32
	Task      int64
	Epoch     uint32
	Committed ranges.Set // of Pass, from the ledger
}

// TrainerLost says that nothing counts any more that a process of a rank sends. Its tasks go back, without the records that the ledger has. The failure
// counter of a task is raised when nothing of it was committed: the task may be the reason of the loss. A drained process raises no counter.
//
// The caller asks the ledger after it has told the parameter servers. When a new pass has begun since, the event is fault.Stale: ask the ledger again.
// The event may be repeated. In sync mode it changes nothing.
type TrainerLost struct {
	Rank      id.Rank
	Since     id.Generation // the process that joined in this generation, and all before it
	Drained   bool
	Pass      int32      // of Committed
	Committed ranges.Set // of all trainers, or of this one
	Reason    string
}

// FilesAdded appends files to a dataset that follows a folder. The queue sets their FirstRecord. It leaves out files whose paths it knows, so the event
// may be repeated.
type FilesAdded struct{ Files []*rpc.DataFile }

// FilesEnded says that no more files come.
type FilesEnded struct{}

// Regrouped says that a generation has begun after a failure, in sync mode: from Round on, its first round, the data are what is left of Pass. A
// coordinator that finds Queue.Regrouping after its start sends it, too.
type Regrouped struct {
	Round     id.Round
	Pass      int32      // in which Round lies: Segment(Round).Pass
	Committed ranges.Set // of Pass, from the ledger, after round Round-1 has been applied
}

// Stopped says that the job ends before the end of its data. It may be repeated; the lowest End counts.
//
// In sync mode trainers must not train End or a later round. The queue says so in every answer from now on. The caller makes sure that no trainer trains
// beyond: either no trainer may begin a round on its own, or End is Queue.Covered or later. In async mode no task is given any more, and the data
// ends when no trainer has a task.
type Stopped struct {
	End id.Round // sync: the first round that is not trained
}

// WentBack says that a job goes on from an earlier position, as if it had begun there: a pserver was lost, and all have the state of a checkpoint. Nobody has
// a task any more, and the failures of tasks are forgotten, because the tasks are read again. What Stopped has said stays. All changes fit into one
// transaction or the event is refused, because a part of them would make no queue.
type WentBack struct {
	To      Position
	Trained ranges.Set // Policy.Trained of To
}

// Effects are what the caller does after an event, in this order.
type Effects struct {
	// Changes are made durable, in order, before anybody hears of the event. When there are none nothing has changed; a task that is granted in
	// async mode is always a change. When only the first of them become durable, because they are too many for one transaction, Restore makes a queue
	// of them in which no task is lost, in the state before the event or after it.
	Changes   []Change
	Notes     []Note // to log
	Regroup   bool   // sync: change the generation, then send Regrouped
	Exhausted bool   // with this event every task is discarded: the job cannot go on
	Grant     Grant  // of TaskWanted: the answer
}

// A Grant is the answer to TaskWanted: a task, or one of the conditions.
type Grant struct {
	Task      *rpc.Task
	Next      []*rpc.Task // sync: the tasks that follow Task
	EndOfPass bool
	EndOfData bool      // and of the pass
	Wait      bool      // ask again when something has changed: tasks may come back, files may come
	EndRound  *id.Round // sync: after Stopped, the first round that is not trained
}

// A Change sets an entry below the dataset's, or deletes it when Value is nil.
type Change struct {
	Key   string
	Value []byte
}

// A Note is something that somebody may want to read in the log.
type Note struct {
	What     string // "task came back", "task discarded", "task failed", "pass ended", "data ended", "data stopped"
	Pass     int32
	Task     int64 // -1 for none
	Rank     int   // of who had it, -1 for none
	Failures uint32
	Reason   string
}
