package queue_test

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/state"
)

// durable is what the store holds, read without the queue's own code.
type durable struct {
	head  *state.Head
	tasks map[int64]*state.Task
	cut   [][2]int64 // records of each task
}

func (s *sim) durable() (d durable, ok bool) {
	d = durable{head: &state.Head{}, tasks: map[int64]*state.Task{}}
	if b, ok := s.store["head"]; !ok || proto.Unmarshal(b, d.head) != nil {
		return d, false
	}
	if d.cut, ok = cutOf(s.store); !ok {
		return d, false
	}
	for k, v := range s.store {
		if id, found := strings.CutPrefix(k, "task/"); found {
			t, n := &state.Task{}, int64(0)
			if _, err := fmt.Sscan(id, &n); err != nil || proto.Unmarshal(v, t) != nil {
				return d, false
			}
			d.tasks[n] = t
		}
	}
	return d, true
}

// cutOf reads the records of each task from the entries of files.
func cutOf(s store) (cut [][2]int64, ok bool) {
	h, size := &state.Head{}, int64(0)
	if proto.Unmarshal(s["head"], h) != nil {
		return nil, false
	}
	for i := range h.Files {
		f := &state.File{}
		if proto.Unmarshal(s[fmt.Sprintf("file/%d", i)], f) != nil {
			return nil, false
		}
		from, to := f.File.FirstRecord, f.File.FirstRecord+f.File.Records
		if n := len(cut); f.TaskRecords == 0 && n > 0 { // the last task goes on in this file
			from = cut[n-1][0]
			cut = cut[:n-1]
		}
		for size = max(size, f.TaskRecords); from < to; from += size {
			cut = append(cut, [2]int64{from, min(from+size, to)})
		}
	}
	return cut, true
}

// left returns the records that a task's entry says are to be trained.
func (d durable) left(id int64) map[int64]bool {
	out, runs := map[int64]bool{}, []int64{d.cut[id][0], d.cut[id][1] - d.cut[id][0]}
	if t := d.tasks[id]; t != nil && len(t.Runs) > 0 {
		runs = t.Runs
	}
	for i, at := 0, int64(0); i < len(runs); i += 2 {
		for r := at + runs[i]; r < at+runs[i]+runs[i+1]; r++ {
			out[r] = true
		}
		at += runs[i] + runs[i+1]
	}
	return out
}
