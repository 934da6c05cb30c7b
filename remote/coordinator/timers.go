package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

// keepTasks returns tasks whose time is over to their queues, until the job ends.
func (s *Server) keepTasks() {
	for {
		s.mu.Lock()
		changed := s.changed
		var names []string
		next := time.Duration(-1)
		for name, q := range s.queues {
			if at, _, ok := q.Next(); ok && (next < 0 || at < next) {
				next = at
			}
			names = append(names, name)
		}
		now := s.now()
		s.mu.Unlock()
		if next >= 0 && next <= now {
			slices.Sort(names)
			for _, name := range names {
				if !s.expire(name) {
					return
				}
			}
			continue
		}
		if !s.sleep(next-now, next >= 0, changed) {
			return
		}
	}
}

// expire returns the tasks of a queue whose time is over. It returns false when the job has ended.
func (s *Server) expire(name string) bool {
	q := s.copyQueues()[name]
	ctx, cancel := context.WithTimeout(s.ctx, ledgerTime)
	defer cancel()
	committed, err := s.committed(ctx, q.Pass(), 0)
	if err == nil {
		pass := q.Pass()
		err = s.transact(ctx, func(t *txn) error {
			for {
				q, err := t.queue(name)
				if err != nil {
					return err
				}
				at, e, ok := q.Next()
				if !ok || at > s.now() || q.Pass() != pass {
					return nil
				}
				e.Committed = committed
				if _, err := t.step(name, e); err != nil {
					return err
				}
			}
		})
	}
	if err == nil {
		return true
	}
	if s.ctx.Err() == nil {
		s.cfg.Log.Warn("tasks whose time is over stay where they are", "dataset", name, "reason", err.Error())
	}
	return s.sleep(time.Second, true, nil)
}

// keepTime tells the membership of deadlines, until the job ends.
func (s *Server) keepTime() {
	for {
		s.mu.Lock()
		changed := s.changed
		at, ok := s.machine.Deadline()
		if ok && !time.Now().Before(at) {
			_ = s.step(generation.Tick{})
			at, ok = s.machine.Deadline()
		}
		s.mu.Unlock()
		if !s.sleep(time.Until(at), ok, changed) {
			return
		}
	}
}

// sleep waits for a time, if it is limited, or a change. It returns false when the job has ended.
func (s *Server) sleep(d time.Duration, limited bool, changed <-chan struct{}) bool {
	var passed <-chan time.Time
	if limited {
		timer := time.NewTimer(max(d, 0))
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
	case <-changed:
	case <-s.done:
		return false
	}
	return true
}
