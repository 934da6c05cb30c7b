package queue

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
)

// Queue is the task queue of one dataset. It is not for concurrent use.
type Queue struct {
	policy Policy
	name   string
	head
	cut       cut
	pending   tree[*pending] // by task
	held      tree[int64]    // tasks, by rank and task
	deadlines tree[int64]    // tasks, by deadline and task
	returned  tree[*work]    // by order of return
	discarded tree[*work]    // by task
	ranks     tree[*rank]
	failed    tree[*work] // sync, by task: failures of this pass
	segments  []segment   // sync: at most two, the second of which begins a pass
}

// head is what changes with most events; the fields are those of state.Head.
type head struct {
	pass      int32
	given     int64
	done      int64
	following bool
	closed    bool
	ended     bool
	average   time.Duration
	returns   int64
	retried   int64
	regroup   bool
	opened    int64 // segments so far
	files     int
}

// work is a task of which something is to be remembered. It is never changed in place, like all that a tree holds.
type work struct {
	id       int64
	pass     int32  // of the failures
	epoch    uint32 // of the last dispatch
	failures uint32
	reason   string
	left     spans // nil: all of it
	returned int64
}

// pending is a task that a trainer has.
type pending struct {
	work
	rank        int
	incarnation uint64
	dispatched  int64 // milliseconds since 1970
	deadline    int64
	grace       bool
}

// rank is what is remembered of a trainer.
type rank struct {
	incarnation uint64
	gone        bool
	request     uint64
	granted     dispatch
	finished    []dispatch
}

type dispatch struct {
	pass  int32
	task  int64
	epoch uint32
}

type segment struct {
	number     int64
	pass       int32
	firstRound uint64
	skip       spans
}

// New makes a queue with all tasks to be done, and the changes that make it durable.
func New(p Policy, d Dataset) (*Queue, Effects, error) {
	q := &Queue{policy: p, name: d.Name, head: head{following: d.Following}}
	s := &step{Queue: *q}
	if err := s.add(d.Files); err != nil {
		return nil, Effects{}, err
	}
	if s.cut.records == 0 && !d.Following {
		return nil, Effects{}, s.fault(fault.NotFound, "no records", "at least one")
	}
	if d.Following && p.Passes > 1 {
		return nil, Effects{}, s.fault(fault.InvalidArgument, fmt.Sprintf("%d passes over files that follow each other", p.Passes), "one")
	}
	if p.Sync {
		s.begin(segment{})
	}
	s.putHead()
	*q = s.Queue
	return q, s.effects, nil
}

// Clone returns a copy, whose steps leave q as it is.
func (q *Queue) Clone() *Queue {
	c := *q
	return &c
}

// Next returns when the next deadline of a task passes, and what is to be said then. ok is false when no task has a deadline.
func (q *Queue) Next() (at time.Duration, e Timeout, ok bool) {
	k, id, ok := q.deadlines.first()
	if !ok {
		return 0, Timeout{}, false
	}
	p, _ := q.pending.get(key{id})
	return time.Duration(k[0]-q.policy.Epoch.UnixMilli()) * time.Millisecond, Timeout{Pass: q.pass, Task: id, Epoch: p.epoch}, true
}
