package queue

import (
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// An Event is what happens to a queue: one of the types below.
type Event interface{ apply(s *step) error }

// Get asks for the next task of a pass. Effects.Grant is the answer. In sync mode it hands nothing out and may be repeated at will: it tells the
// first records from Position on that the segment of the pass does not skip, as far as the tasks go that they are in.
type TaskWanted struct {
	Rank        int
	Incarnation uint64 // async: tells the processes of a rank apart, and only rises: the generation in which it joined
	// Request is async: the number of the request among those of this process, higher with each new one. A repeated request is given the same task
	// again, also by the next coordinator; a request below the last that was granted is fault.Stale.
	Request  uint64
	Pass     int32
	Position int64  // sync: the first record that is wanted
	Records  int64  // sync: how many are wanted: as many tasks are granted as hold them, at least one, and none once they weigh maxGrant
	Round    uint64 // sync: of the first to ask for a new pass, its first round: all rounds before it have been trained
}

// Finish says that every record of a task has been trained, in rounds or updates that count; in sync mode those of all tasks before it have been,
// too. A repeated one is acknowledged and changes nothing.
type TaskFinished struct {
	Rank        int
	Incarnation uint64 // async
	Task        *rpc.Task
}

// Fail says that a trainer cannot do a task. It raises the task's counter.
//
// In async mode the task goes back without what is committed of it. In sync mode Effects.Regroup tells that the generation must change, and that
// Regroup is to follow; until then further failures are the same one, as all trainers read the same records.
type TaskFailed struct {
	Rank        int
	Incarnation uint64 // async
	Task        *rpc.Task
	Reason      string
	Committed   ranges.Set // async: of Task.Pass, from the ledger
}

// Timeout says that the time of a dispatch is over: see Queue.Next. It raises the task's counter.
type TaskTimedOut struct {
	Pass      int32
	Task      int64
	Epoch     uint32
	Committed ranges.Set // of Pass, from the ledger
}

// Lost says that a process of a rank sends nothing that counts any more. What the ledger does not have of its tasks goes back. The counter of a task
// is raised when the process was lost before anything of the task was committed: the task may be why. Drained processes raise none.
//
// The ledger must have been asked after the parameter servers have been told; when a new pass has begun since, Lost is fault.Stale: ask the ledger
// again. It may be repeated. In sync mode it changes nothing.
type TrainerLost struct {
	Rank        int
	Incarnation uint64 // and all before it
	Drained     bool
	Pass        int32      // of Committed
	Committed   ranges.Set // of all trainers, or of this one
	Reason      string
}

// AddFiles appends files to a dataset that follows; their FirstRecord is set here. Files whose paths are known already are left out, so that it may
// be repeated.
type FilesAdded struct{ Files []*rpc.DataFile }

// EndOfFiles says that no more files come.
type FilesEnded struct{}

// Regroup begins a segment in sync mode, after failures: from Round on, which is the first round of the next generation, the data are what is left of
// Pass. It is to be sent also by a coordinator that finds Queue.Regrouping after its start.
type Regrouped struct {
	Round     uint64
	Pass      int32      // where Round lies: Segment(Round).Pass
	Committed ranges.Set // of Pass, from the ledger, after round Round-1 has been applied
}

// Effects are what an event leads to.
type Effects struct {
	Grant Grant // of Get
	// Changes are to be made durable, in order, before anybody hears of the event. When there are none nothing has changed; a task that is granted in
	// async mode is always a change. Where only the first of them become durable, because they are too many for one transaction, Restore makes a queue
	// of them in which no task is lost, as of before the event or after it.
	Changes   []Change
	Notes     []Note // for the log
	Regroup   bool   // sync: change the generation, then send Regroup
	Exhausted bool   // with this event, every task is discarded: the job cannot go on
}

// A Grant is the answer to Get: a task, or one of the others.
type Grant struct {
	Task      *rpc.Task
	Next      []*rpc.Task // sync: that follow Task
	EndOfPass bool
	EndOfData bool // and of the pass
	Wait      bool // ask again when something has changed: tasks may come back, files may come
}

// A Change sets an entry below the dataset's, or deletes it when Value is nil.
type Change struct {
	Key   string
	Value []byte
}

// A Note is something that somebody may want to read.
type Note struct {
	What     string // "task came back", "task discarded", "task failed", "pass ended", "data ended"
	Pass     int32
	Task     int64 // -1 for none
	Rank     int   // of who had it, -1 for none
	Failures uint32
	Reason   string
}
