package coordinator

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// commits applies requests in groups until the job ends. All that wait when a transaction begins are in it, as far as they fit.
func (s *Server) commits() {
	for {
		select {
		case first := <-s.ops:
			s.commit(first)
		case <-s.done:
			return
		}
	}
}

func (s *Server) commit(first *op) {
	if err := s.readAgain(); err != nil {
		first.done <- err
		return
	}
	s.mu.Lock()
	t := &txn{server: s, queues: map[string]*queue.Queue{}, keys: map[string]bool{}}
	for name, q := range s.queues {
		t.queues[name] = q
	}
	s.mu.Unlock()
	group := []*op{first}
	t.apply(first)
	for more := true; more && len(t.keys) < maxGroup; {
		select {
		case o := <-s.ops:
			group = append(group, o)
			t.apply(o)
		default:
			more = false
		}
	}
	var err error
	if len(t.changes) > 0 {
		t.count()
		err = s.lead.State.Commit(s.ctx, distinct(t.changes))
	}
	s.mu.Lock()
	if err == nil {
		t.take()
	} else if errors.Is(err, fault.Fenced) {
		s.finish(err)
	}
	s.reread = err != nil
	s.mu.Unlock()
	for _, o := range group {
		if o.err == nil {
			o.err = passing(err)
		}
		o.done <- o.err
	}
}

// apply lets a request happen to the copy, wholly or not at all.
func (t *txn) apply(o *op) {
	changes, notes, after, saver := len(t.changes), len(t.notes), len(t.after), t.saver
	before := make(map[string]*queue.Queue, len(t.queues))
	for name, q := range t.queues {
		before[name] = q
	}
	if o.err = o.apply(t); o.err != nil {
		t.queues, t.changes, t.notes, t.after, t.saver = before, t.changes[:changes], t.notes[:notes], t.after[:after], saver
	}
	for _, c := range t.changes[changes:] {
		t.keys[c.Key] = true
	}
}

// take makes the copy what there is. Server.mu is held.
func (t *txn) take() {
	t.server.queues = t.queues
	for _, f := range t.after {
		f()
	}
	for _, n := range t.notes {
		t.server.say(n)
	}
	if len(t.changes) > 0 {
		t.server.broadcast()
	}
}

// distinct leaves the last change of each key where all of them fit into one transaction then, which is atomic. Most requests of a group change the
// same head. Where they do not fit the order of all changes counts: what is durable of them must be a beginning.
func distinct(changes []cluster.Change) []cluster.Change {
	last, bytes := make([]cluster.Change, 0, len(changes)), 0
	seen := make(map[string]bool, len(changes))
	for _, c := range slices.Backward(changes) {
		if !seen[c.Key] {
			seen[c.Key] = true
			last, bytes = append(last, c), bytes+len(c.Key)+len(c.Value)
		}
	}
	if len(last) > cluster.MaxChanges || bytes > cluster.MaxBytes/2 { // the other half is for what stands before keys
		return changes
	}
	return last
}
