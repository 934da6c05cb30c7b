package queue

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
)

// Restore makes a queue of its entries, whose keys are those of its changes. It returns nil without an error where there is no dataset: New was never
// made durable.
//
// A task whose deadline has passed, so that nobody can say whether its trainer was late or could not report, is given MinTimeout from now on, once. A
// deadline further away than a task may take, by a clock that was set back, is moved to MaxTimeout from now on. The effects are what has
// to be made durable of that.
func Restore(p Policy, name string, entries map[string][]byte, now time.Duration) (*Queue, Effects, error) {
	r := &restore{step: step{Queue: Queue{policy: p, name: name}, now: p.Epoch.UnixMilli() + now.Milliseconds()}, numbered: map[string][]entry{}}
	if _, ok := entries[headKey]; !ok {
		return nil, Effects{}, nil
	}
	for k, v := range entries {
		m, err := decode(k, v)
		if err != nil {
			return nil, Effects{}, r.in(err)
		}
		prefix, n := split(k)
		r.numbered[prefix] = append(r.numbered[prefix], entry{k, n, m})
	}
	for _, e := range r.numbered {
		slices.SortFunc(e, func(a, b entry) int { return int(min(1, max(-1, a.number-b.number))) })
	}
	for _, read := range []func() error{r.readHead, r.readFiles, r.readTasks, r.readRanks, r.readSegments} {
		if err := read(); err != nil {
			return nil, Effects{}, r.in(err)
		}
	}
	r.settle() // where the head of the last event is missing
	if r.head != r.durable {
		r.putHead()
	}
	return &r.Queue, r.effects, nil
}

type restore struct {
	step
	durable  head
	numbered map[string][]entry // by prefix, in order
}

type entry struct {
	key    string
	number int64
	value  proto.Message
}

// in names the dataset.
func (r *restore) in(err error) error {
	return fault.Wrap(fault.KindOf(err), "dataset "+fault.Quote(r.name), err)
}

func (r *restore) readHead() error {
	h := r.numbered[headKey][0].value.(*state.Head)
	if h.Sync != r.policy.Sync {
		return fault.E(fault.InvalidArgument, fault.At("entry head"), fault.Gotf("a queue in sync mode: %v", h.Sync),
			fault.Want(fmt.Sprint(r.policy.Sync)))
	}
	if h.Pass < 0 || h.Given < 0 || h.Done < 0 || h.Files < 0 || h.AverageNs < 0 || h.Returns < 0 || h.Retried < 0 || h.Segments < 0 {
		return corrupt(headKey, "a number below 0")
	}
	r.head = head{pass: h.Pass, given: h.Given, done: h.Done, following: h.Following, closed: h.Closed, ended: h.Ended,
		average: time.Duration(h.AverageNs), returns: h.Returns, retried: h.Retried, regroup: h.Regroup, opened: h.Segments}
	r.files = int(min(h.Files, maxFiles+1))
	r.durable = r.head
	return nil
}

// readFiles lists the files that count, and cuts the tasks.
func (r *restore) readFiles() error {
	entries := r.numbered[filePrefix]
	for i := 0; i < r.files; {
		var files []*rpc.DataFile
		size, first := int64(0), i
		for ; i < r.files; i++ {
			if i >= len(entries) || entries[i].number != int64(i) {
				return corrupt(numbered(filePrefix, int64(i)), "nothing")
			}
			f := entries[i].value.(*state.File)
			if f.TaskRecords > 0 && i > first {
				break // a task begins here
			}
			if f.TaskRecords < 0 {
				return corrupt(entries[i].key, fmt.Sprintf("tasks of %d records", f.TaskRecords))
			}
			size = max(size, f.TaskRecords)
			files = append(files, f.File)
		}
		before := r.cut.records
		if _, err := r.cut.add(Policy{RecordsPerTask: size}, files); err != nil {
			return fault.Wrap(fault.Corrupt, "entry "+fault.Quote(entries[first].key), err)
		}
		if size == 0 && r.cut.records > before {
			return corrupt(entries[first].key, "records in no task")
		}
	}
	if r.given > r.cut.tasks || r.done > r.given {
		return corrupt(headKey, fmt.Sprintf("%d tasks given and %d done of %d", r.given, r.done, r.cut.tasks))
	}
	return nil
}
