package queue_test

import (
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// check holds after every commit: every task is in one queue, with what is not in the ledger of it, and the counters are right.
func (s *sim) check() {
	d, ok := s.durable()
	if !ok {
		if _, exists := s.store["head"]; exists {
			s.fail("cannot be read:\n%s", lines(s.store))
		}
		return
	}
	if d.head.Pass != s.pass {
		s.pass = d.head.Pass
		clear(s.failures)
	}
	var pending, returned, discarded, done int64
	for i := range d.cut {
		id := int64(i)
		t := d.tasks[id]
		left := map[int64]bool{}
		switch place := t.GetPlace(); {
		case place == state.Task_DISCARDED:
			if discarded++; t.Pass != d.head.Pass {
				continue
			}
			left = d.left(id)
		case id >= d.head.Given && t == nil:
			continue
		case id >= d.head.Given:
			s.fail("task %d was not given and is %v", id, t)
		case place == state.Task_PENDING:
			pending++
			left = d.left(id)
		case place == state.Task_RETURNED:
			returned++
			left = d.left(id)
		default:
			done++
		}
		if t != nil && t.Failures != s.failures[id] {
			s.fail("task %d has %d failures, and the entry %v", id, s.failures[id], t)
		}
		if over := s.failures[id] > uint32(s.policy.MaxFailures); t != nil && over != (t.Place == state.Task_DISCARDED) {
			s.fail("task %d has %d failures, and is %v", id, s.failures[id], t)
		}
		for r := d.cut[id][0]; r < d.cut[id][1]; r++ {
			if !left[r] && !s.ledger[d.head.Pass][r] {
				s.fail("record %d of task %d is lost: in no queue, and not in the ledger:\n%s", r, id, lines(s.store))
			}
		}
	}
	if left := int64(len(d.cut)) - done - discarded; left == 0 && !d.head.Ended && (!d.head.Following || d.head.Closed) {
		s.fail("nothing is left of pass %d, and it has not ended:\n%s", d.head.Pass, lines(s.store))
	}
	q, _, err := queue.Restore(s.policy, "d", s.store, s.now)
	if err != nil {
		s.fail("%v\n%s", err, lines(s.store))
		return
	}
	if r := q.Status(); r.Pending != pending || r.Discarded != discarded || r.Done != done || r.Todo != int64(len(d.cut))-pending-discarded-done {
		s.fail("%v, and the store has %d pending, %d returned, %d discarded, %d done of %d:\n%s", r, pending, returned, discarded, done, len(d.cut),
			lines(s.store))
	}
}

// final counts how often each record was trained.
func (s *sim) final() {
	q := s.leaders[len(s.leaders)-1].queue
	d, _ := s.durable()
	if s.follow == 0 && s.marked && len(s.files) != int(d.head.Files) {
		s.fail("%d of %d files", d.head.Files, len(s.files))
	}
	exact := true
	discarded := int64(0)
	for pass := range q.Pass() + 1 {
		out := map[int64]bool{}
		for _, t := range q.Status().DiscardedTasks {
			switch {
			case t.Pass > pass:
			case t.Pass < pass:
				for r := d.cut[t.Id][0]; r < d.cut[t.Id][1]; r++ {
					out[r] = true
				}
			default:
				for r := range d.left(t.Id) {
					out[r] = true
				}
			}
		}
		discarded += int64(len(out))
		for r := range d.cut[len(d.cut)-1][1] {
			n, most := s.applied[pass][r], 1+s.excuse[pass][r]
			least := 1
			if out[r] {
				least, most = 0, most-1
			}
			if n < least || n > most {
				s.fail("record %d was trained %d times in pass %d, want %d to %d", r, n, pass, least, most)
			}
			exact = exact && s.excuse[pass][r] == 0
		}
	}
	if n := q.Status().DiscardedRecords; n != discarded {
		s.fail("%d records discarded, and %d counted", discarded, n)
	}
	if exact {
		s.note("exact history")
	}
	if !q.Exhausted() && int(q.Pass())+1 != s.policy.Passes {
		s.fail("ends in pass %d of %d", q.Pass(), s.policy.Passes)
	}
}

// committed is what the ledger knows of a pass.
func (s *sim) committed(pass int32) (out []*rpc.RecordRange) {
	for r, ok := range s.ledger[pass] {
		if ok {
			out = append(out, &rpc.RecordRange{From: r, To: r + 1})
		}
	}
	return out
}
