package coordinator

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// tasksPerTrainer is how many tasks a trainer has per pass where the job does not say how large a task is.
const tasksPerTrainer = 16

// maxTasks bounds the tasks of a dataset.
const maxTasks = 1 << 22

// Partition groups the chunks of a dataset, in their order, into tasks of about recordsPerTask records each; 0 chooses a size that gives every trainer
// 16 tasks a pass. A chunk that is larger than a task is split by record ranges.
func Partition(dataset string, chunks []*rpc.DataFile, recordsPerTask int64, trainers int) ([]*rpc.Task, error) {
	var total int64
	for i, c := range chunks {
		if c.Records < 0 || c.Records > math.MaxInt64-total || c.FirstRecord != total {
			return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: fmt.Sprintf("dataset %s, chunk %d", fault.Quote(dataset), i),
				Got: fmt.Sprintf("%d records from %d", c.Records, c.FirstRecord), Want: fmt.Sprintf("records from %d on", total)}
		}
		total += c.Records
	}
	if total == 0 {
		return nil, &fault.Fault{Kind: fault.NotFound, Where: "dataset " + fault.Quote(dataset), Got: "no records", Want: "at least one"}
	}
	if recordsPerTask <= 0 {
		recordsPerTask = max(1, total/int64(trainers*tasksPerTrainer))
	}
	if n := (total-1)/recordsPerTask + 1; n > maxTasks {
		return nil, &fault.Fault{Kind: fault.TooLarge, Where: "dataset " + fault.Quote(dataset), Got: fmt.Sprintf("%d tasks", n), Want: fmt.Sprintf("at most %d", maxTasks), Hint: "raise records_per_task"}
	}
	var tasks []*rpc.Task
	for from := int64(0); from < total; {
		to := from + min(recordsPerTask, total-from)
		tasks = append(tasks, &rpc.Task{Dataset: dataset, Records: []*rpc.RecordRange{{From: from, To: to}}})
		from = to
	}
	return tasks, nil
}
