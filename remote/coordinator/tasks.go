package coordinator

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// tasksPerTrainer is how many tasks a trainer has per pass where the job does not say how large a task is.
const tasksPerTrainer = 16

// Partition groups the chunks of a dataset, in their order, into tasks of about recordsPerTask records each; 0 chooses a size that gives every trainer
// 16 tasks a pass. A chunk that is larger than a task is split by record ranges.
func Partition(dataset string, chunks []*rpc.Chunk, recordsPerTask int64, trainers int) ([]*rpc.Task, error) {
	var total int64
	for i, c := range chunks {
		if c.Records < 0 || c.FirstRecord != total {
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
	var tasks []*rpc.Task
	first := 0
	for from := int64(0); from < total; from += recordsPerTask {
		to := min(from+recordsPerTask, total)
		for chunks[first].FirstRecord+chunks[first].Records <= from {
			first++
		}
		last := first
		for chunks[last].FirstRecord+chunks[last].Records < to {
			last++
		}
		tasks = append(tasks, &rpc.Task{Dataset: dataset, Chunks: chunks[first : last+1], Records: &rpc.RecordRange{From: from, To: to}})
	}
	return tasks, nil
}
