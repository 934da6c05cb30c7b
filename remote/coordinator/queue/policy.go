package queue

import (
	"time"

	"github.com/edl-go/edl/proto/rpc"
)

// Policy says how a queue treats tasks. It is the same at every start of a job's coordinator, except for Epoch.
type Policy struct {
	Sync           bool
	Passes         int           // at least 1; a dataset that follows has one
	RecordsPerTask int64         // 0: 16 tasks a pass for each of Trainers
	Trainers       int           // that the job asks for
	MaxFailures    int           // a task that failed or timed out more often in one pass is discarded
	MinTimeout     time.Duration // async: bounds of the time that a task may take, which is otherwise
	MaxTimeout     time.Duration // TimeoutFactor times the moving average of task times
	Epoch          time.Time     // to which now is relative; durable times are wall-clock
}

// Dataset is what a queue is made of.
type Dataset struct {
	Name      string
	Files     []*rpc.DataFile // in order; each begins with the record after the last one of the file before
	Following bool            // more files come, until EndOfFiles
}

const (
	// TimeoutFactor is how many average task times a task may take.
	TimeoutFactor = 8
	// MaxStepChanges bounds the changes of an event, except AddFiles, where there is one more for each file, and Lost, where there is one more for each
	// task that the trainer held.
	MaxStepChanges = 4

	tasksPerTrainer = 16      // of a pass, where the job does not say how large a task is
	averageWeight   = 8       // the moving average moves by an eighth of the difference
	rememberedTasks = 32      // finished by a rank, to know a repeated message by
	maxRank         = 1 << 16 // beyond which ranks are not believed
	maxFiles        = 1 << 22
	maxPath         = 4096
	maxReason       = 256     // bytes of a failure's reason
	maxRuns         = 1 << 15 // parts in which what is left of a task is kept
	maxEntry        = 1 << 19 // bytes of a durable entry
	maxGrant        = 1 << 16 // bytes of a grant that another task may be added to
)
