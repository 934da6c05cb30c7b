package queue_test

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// expect says what an event has to do to the counters and to the account of records when it becomes durable.
func (s *sim) expect(e queue.Event) func([]queue.Change) {
	d, ok := s.durable()
	if !ok {
		return nil
	}
	again := func(id int64) {
		for r := range d.left(id) {
			if !s.ledger[d.head.Pass][r] {
				s.excuse[d.head.Pass][r]++
			}
		}
	}
	return func(changes []queue.Change) {
		happened := func(id int64) bool {
			return slices.ContainsFunc(changes, func(c queue.Change) bool { return c.Key == fmt.Sprintf("task/%d", id) })
		}
		switch e := e.(type) {
		case queue.Fail:
			s.failures[e.Task.Id]++
		case queue.Timeout:
			s.note("timed out")
			s.failures[e.Task]++
			again(e.Task)
		case queue.Lost:
			for id, t := range d.tasks {
				if t.Place != state.Task_PENDING || int(t.Rank) != e.Rank || t.Incarnation > e.Incarnation || !happened(id) {
					continue
				}
				progress := false
				for r := range d.left(id) {
					progress = progress || s.ledger[d.head.Pass][r]
				}
				if !progress && !e.Drained {
					s.failures[id]++
				}
			}
		}
	}
}

// mayGrant checks that a coordinator that gives a task holds the lock, and that the task is that trainer's.
func (s *sim) mayGrant(l *leader, m message) {
	d, _ := s.durable()
	t := d.tasks[m.grant.Task.Id]
	if l.fence != s.fence || m.to.gone || t == nil || t.Place != state.Task_PENDING || t.Epoch != m.grant.Task.Epoch || int(t.Rank) != m.to.rank ||
		t.Incarnation != m.to.incarnation {
		s.fail("coordinator %d of %d gives trainer %d.%d task %v, which is %v", l.fence, s.fence, m.to.rank, m.to.incarnation, m.grant.Task, t)
	}
}

// revived checks that a pending task whose time passed while there was no coordinator is given a little more, once.
func (s *sim) revived(changes []queue.Change) {
	for _, c := range changes {
		t := &state.Task{}
		if err := proto.Unmarshal(c.Value, t); err != nil {
			s.fail("%s: %v", c.Key, err)
		}
		if !strings.HasPrefix(c.Key, "task/") || c.Value == nil {
			continue // cleared away
		}
		s.note("grace")
		name := fmt.Sprintf("%s of pass %d, dispatch %d", c.Key, s.pass, t.Epoch)
		if s.graces[name]++; s.graces[name] > 1 || t.DeadlineMs != s.policy.Epoch.Add(s.now+s.policy.MinTimeout).UnixMilli() {
			s.fail("%s is given more time the %dth time at %v: %v", name, s.graces[name], s.now, t)
		}
	}
}
