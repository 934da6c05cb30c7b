package plan

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/ops"
)

// A StepInfo describes one step of a plan.
type StepInfo struct {
	Name   string   // of its ops: joined by + if they run range by range, with counts if they are independent
	Shapes []string // of the variables that the step writes
	Memory []string // where these lie: "arena 0-1024" in elements, own, scope, or fed
	Cost   ops.Cost
	Parts  int           // ranges that may run at a time
	Update bool          // belongs to the update
	Runs   int           // of the whole step that a trace has recorded
	Took   time.Duration // in these runs, the sum over all workers
}

// Steps describes the steps in the order in which one worker runs them. Times are those of the trace that the plan was given.
func (p *Plan) Steps() []StepInfo {
	if p.trace != nil {
		p.trace.mu.Lock()
		defer p.trace.mu.Unlock()
	}
	infos := make([]StepInfo, len(p.steps))
	for i := range p.steps {
		s := &p.steps[i]
		parts := max(1, len(s.parts))
		info := StepInfo{Name: s.name(), Cost: s.cost(), Parts: parts, Update: i >= p.update, Runs: s.timing.runs / parts, Took: s.timing.took}
		for _, q := range s.pieces {
			for _, v := range q.writes {
				if shape, memory := v.meta.String(), v.lies(); memory != "" {
					info.Shapes, info.Memory = append(info.Shapes, shape), append(info.Memory, memory)
				}
			}
		}
		infos[i] = info
	}
	return infos
}

// lies says where the elements of a variable are; "" if it is not a tensor.
func (v *variable) lies() string {
	switch v.place {
	case temporary:
		return fmt.Sprintf("arena %d-%d", v.span.from, v.span.to)
	case own:
		return "own"
	case fed:
		return "fed"
	case scoped:
		return "scope"
	}
	return ""
}

// name names the ops of a step.
func (s *step) name() string {
	if len(s.chains) > 1 {
		return s.counted()
	}
	var types []string
	for _, p := range s.pieces {
		types = append(append(types, p.op.Type), p.also...)
	}
	return strings.Join(slices.Compact(types), "+")
}

// counted names how many loops there are of each op.
func (s *step) counted() string {
	counts := map[string]int{}
	var types []string
	for _, p := range s.pieces {
		if counts[p.op.Type]++; counts[p.op.Type] == 1 {
			types = append(types, p.op.Type)
		}
	}
	for i, t := range types {
		if counts[t] > 1 {
			types[i] = fmt.Sprintf("%d %s", counts[t], t)
		}
	}
	return strings.Join(types, ", ")
}

// A Trace records when the steps of plans run; see Plan.SetTrace. It may be read while plans run.
type Trace struct {
	Before uint64 // rounds of this number and later ones are left out; 0: none is. It is set before the first step

	mu     sync.Mutex
	begin  time.Time
	events []Event
	lost   int
}

// An Event is one step of a plan, or one part of it, that a worker ran.
type Event struct {
	Name  string
	Line  string // line of the program, "" when unknown
	Lane  int    // worker, from 0
	Round uint64
	Start time.Duration // since Trace.Begin
	Took  time.Duration
	Cost  ops.Cost // of the whole step
}

// maxEvents bounds the memory of a trace. It counts further events but does not keep them.
const maxEvents = 1 << 18

// timing adds up the runs of a step, guarded by the lock of the trace.
type timing struct {
	runs int // of parts
	took time.Duration
}

// SetTrace makes the plan record its steps; nil ends that. The plan must not be running.
func (p *Plan) SetTrace(t *Trace) { p.trace = t }

// add records that a worker ran some parts of a step from start until now.
func (t *Trace) add(s *step, parts, lane int, start time.Time, round uint64) {
	took := time.Since(start)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.begin.IsZero():
		t.begin = start
	case start.Before(t.begin): // a worker that began earlier and ended later
		earlier := t.begin.Sub(start)
		for i := range t.events {
			t.events[i].Start += earlier
		}
		t.begin = start
	}
	s.timing.runs += parts
	s.timing.took += took
	if t.Before > 0 && round >= t.Before {
		return
	}
	if len(t.events) == maxEvents {
		t.lost++
		return
	}
	t.events = append(t.events, Event{Name: s.name(), Line: s.pieces[0].op.Line(), Lane: lane, Round: round, Start: start.Sub(t.begin), Took: took,
		Cost: s.cost()})
}

// Events returns what was recorded so far, and how many events did not fit. The caller must not change them.
func (t *Trace) Events() (events []Event, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events, t.lost
}

// Begin is when the first event began. The Start of each event counts from then.
func (t *Trace) Begin() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begin
}
