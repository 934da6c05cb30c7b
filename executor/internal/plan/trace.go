package plan

import (
	"sync"
	"time"

	"github.com/edl-go/edl/ops"
)

// A Trace records when the steps of the plans that it was given to run. It may be read while they do.
type Trace struct {
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
	Start time.Duration // since the first event of the trace
	Took  time.Duration
	Cost  ops.Cost // of the whole step
}

// maxEvents bounds the memory of a trace; steps beyond it are counted and not kept.
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
	if t.begin.IsZero() {
		t.begin = start
	}
	s.timing.runs += parts
	s.timing.took += took
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
