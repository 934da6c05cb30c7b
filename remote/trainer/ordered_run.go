package trainer

import (
	"sort"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// A run is the consecutive tasks of one answer. It is read as if it were one task, so that a chunk that holds several of them is read once.
type run struct {
	tasks  []*rpc.Task
	ends   []int64 // of each task: how many records of the run lie before its end
	whole  *rpc.Task
	ranges []dataset.Range // of whole
	to     int64           // the record behind the last one
}

// runOf takes the tasks from a position on, without the records that the segment leaves out.
func runOf(r *rpc.GetTaskResponse, position int64, skip skips) (*run, error) {
	n := &run{whole: &rpc.Task{Id: r.Task.GetId()}, to: position}
	for _, t := range append([]*rpc.Task{r.Task}, r.Next...) {
		if len(t.GetRecords()) == 0 || t.Records[len(t.Records)-1].GetTo() <= n.to {
			return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("task %d without record %d", t.GetId(), n.to))
		}
		n.add(t, skip.cut(t.Records))
	}
	return n, nil
}

func (n *run) add(t *rpc.Task, ranges []dataset.Range) {
	end := count(ranges)
	if last := len(n.ends) - 1; last >= 0 {
		end += n.ends[last]
	}
	n.tasks, n.ends, n.to = append(n.tasks, t), append(n.ends, end), t.Records[len(t.Records)-1].To
	for _, r := range ranges {
		if last := len(n.ranges) - 1; last >= 0 && n.ranges[last].To == r.From {
			n.ranges[last].To = r.To
		} else {
			n.ranges = append(n.ranges, r)
		}
	}
	for _, f := range t.Files {
		if files := n.whole.Files; len(files) == 0 || files[len(files)-1].GetFirstRecord() < f.GetFirstRecord() {
			n.whole.Files = append(n.whole.Files, f)
		}
	}
}

// records returns how many records of the run are those of task i.
func (n *run) records(i int) int64 {
	if i == 0 {
		return n.ends[0]
	}
	return n.ends[i] - n.ends[i-1]
}

// holding returns the task of the record that follows the first read records of the run.
func (n *run) holding(read int64) *rpc.Task {
	i := sort.Search(len(n.ends), func(i int) bool { return n.ends[i] > read })
	return n.tasks[min(i, len(n.tasks)-1)]
}
