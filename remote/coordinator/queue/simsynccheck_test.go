package queue_test

import (
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// final compares the ledger with the discarded tasks.
func (s *rounds) final(q *queue.Queue) {
	status := q.Status()
	gone := int64(0)
	for pass := range q.Pass() + 1 {
		out := map[int64]bool{}
		for _, t := range status.DiscardedTasks {
			ranges := t.Records
			if t.Pass < pass {
				ranges = []*rpc.RecordRange{s.task(t.Id)}
			}
			for _, r := range ranges {
				for i := r.From; i < r.To && t.Pass <= pass; i++ {
					out[i] = true
				}
			}
		}
		gone += int64(len(out))
		if q.Exhausted() && pass == q.Pass() {
			continue
		}
		for r := range status.Records {
			if s.ledger[pass][r] == out[r] {
				s.fail("record %d of pass %d: trained: %v, discarded: %v", r, pass, s.ledger[pass][r], out[r])
			}
		}
	}
	if status.DiscardedRecords != gone {
		s.fail("%d records discarded, and %d counted", gone, status.DiscardedRecords)
	}
	if q.Exhausted() {
		s.note("exhausted")
	} else if int(q.Pass())+1 != s.policy.Passes || status.Done+status.Discarded == 0 || status.Todo+status.Pending > 0 {
		s.fail("ends with %v", status)
	}
}

func (s *rounds) task(id int64) *rpc.RecordRange {
	c, _ := cutOf(s.store)
	return &rpc.RecordRange{From: c[id][0], To: c[id][1]}
}

// count keeps the failures of tasks, and checks that those and no others are discarded that have too many.
func (s *rounds) count(e queue.Event, before, after *queue.Queue) {
	switch e := e.(type) {
	case queue.Fail:
		if !before.Regrouping() {
			s.failures[e.Task.Id]++
		}
	case queue.Regroup:
		for _, t := range after.Status().DiscardedTasks {
			n, most := s.failures[t.Id], s.policy.MaxFailures+1
			if s.seen["crash between commits"] > 0 {
				most = n // a failure of which it was not durable that the generation must change is counted again
			}
			if t.Pass == after.Pass() && (n <= s.policy.MaxFailures || n > most || int(t.Failures) != n) {
				s.fail("discarded after %d failures: %v", n, t)
			}
		}
	}
	if before.Pass() != after.Pass() {
		clear(s.failures)
	}
}

// check holds after each event: a coordinator that starts now has the same queue, and what counts as done is in the ledger or discarded.
func (l *regent) check() {
	if l.fence != l.s.fence || l.s.random.IntN(8) > 0 {
		return
	}
	again, _, err := queue.Restore(l.s.policy, "d", l.s.store, l.s.now)
	if err != nil || again.Fingerprint() != l.queue.Fingerprint() {
		l.s.fail("%v\n%s\n%s\nwant\n%s", err, lines(l.s.store), again.Fingerprint(), l.queue.Fingerprint())
		return
	}
	r := again.Status()
	cut, _ := cutOf(l.s.store)
	if r.Todo+r.Pending+r.Done+r.Discarded != int64(len(cut)) || min(r.Todo, r.Pending, r.Done, r.Discarded) < 0 {
		l.s.fail("%v of %d tasks", r, len(cut))
	}
	done, gone := int64(0), map[int64]bool{}
	for _, t := range r.DiscardedTasks {
		gone[t.Id] = true
	}
	for id, records := range cut {
		missing := gone[int64(id)]
		for i := records[0]; i < records[1] && !missing; i++ {
			missing = !l.s.ledger[r.Pass][i]
		}
		if !missing {
			done++
		}
	}
	if r.Done > done {
		l.s.fail("%v, and %d of the tasks are done", r, done)
	}
}
