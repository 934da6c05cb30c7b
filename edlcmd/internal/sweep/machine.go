package sweep

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
)

// A Rung is a stage of all trials that have come so far: Trials of them train until they have had Passes passes.
type Rung struct {
	Trials int
	Passes int32 // 0: each trial says itself
}

// Rungs returns the stages of a sweep of n trials. Without halving it is one. The last one has all passes; where a single trial is left, it is the next.
func (s *Spec) Rungs(n int) []Rung {
	if s.Halving == nil {
		return []Rung{{n, s.Passes}}
	}
	rungs := []Rung{{n, s.Halving.Start}}
	for last := rungs[0]; last.Passes < s.Passes; last = rungs[len(rungs)-1] {
		next := Rung{max(1, last.Trials/int(s.Halving.Factor)), int32(min(int64(last.Passes)*int64(s.Halving.Factor), int64(s.Passes)))}
		if next.Trials == 1 {
			next.Passes = s.Passes
		}
		rungs = append(rungs, next)
	}
	return rungs
}

// A Run is a trial on a rung.
type Run struct{ Trial, Rung int }

// An Outcome is what a run came to. A failed one is worse than any other.
type Outcome struct {
	Score  float64
	Failed bool
}

// A Machine decides which runs begin. It is pure: the same events give the same effects. Time plays no part, so its events have none. Which trials go on does not
// depend on the order in which runs end. New makes one.
type Machine struct {
	rungs    []Rung
	better   func(value, than float64) bool
	parallel int

	rung    int
	waiting []int // trials of the rung that have not begun, in order
	running map[int]bool
	ended   map[int]Outcome // of the rung, by trial
}

// An Event is what a machine is told: Begin, once, and Ended.
type Event interface{ event() }

// Begin says that the sweep begins.
type Begin struct{}

// Ended is the outcome of a run that an effect has begun.
type Ended struct {
	Run     Run
	Outcome Outcome
}

func (Begin) event() {}
func (Ended) event() {}

// Effects are what the caller carries out.
type Effects struct {
	Runs []Run // begin now
	Done bool  // no run is left, and none runs
}

// New returns the machine of a sweep whose rungs are not empty. better compares scores. At most parallel runs, 1 or more, go on at a time.
func New(rungs []Rung, parallel int, better func(value, than float64) bool) *Machine {
	m := &Machine{rungs: rungs, parallel: parallel, better: better, running: map[int]bool{}, ended: map[int]Outcome{}}
	for t := range rungs[0].Trials {
		m.waiting = append(m.waiting, t)
	}
	return m
}

// Step takes an event. It refuses the end of what does not run, and changes nothing then.
func (m *Machine) Step(e Event) (Effects, error) {
	if e, ok := e.(Ended); ok {
		if e.Run.Rung != m.rung || !m.running[e.Run.Trial] {
			return Effects{}, fault.E(fault.Internal, fault.Gotf("the end of trial %d on rung %d, which does not run", e.Run.Trial, e.Run.Rung))
		}
		delete(m.running, e.Run.Trial)
		m.ended[e.Run.Trial] = e.Outcome
		if len(m.running)+len(m.waiting) == 0 && m.rung+1 < len(m.rungs) {
			m.climb()
		}
	}
	var f Effects
	for len(m.waiting) > 0 && len(m.running) < m.parallel {
		t := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.running[t] = true
		f.Runs = append(f.Runs, Run{t, m.rung})
	}
	f.Done = len(m.running) == 0
	return f, nil
}

// climb lets the best trials of a rung on to the next one.
func (m *Machine) climb() {
	m.rung++
	best := m.ranked(m.ended)
	for _, t := range best[:min(m.rungs[m.rung].Trials, len(best))] {
		if !m.ended[t].Failed {
			m.waiting = append(m.waiting, t)
		}
	}
	slices.Sort(m.waiting)
	m.ended = map[int]Outcome{}
}

// ranked returns trials, the best first. Of equal ones the one with the smaller number counts as better.
func (m *Machine) ranked(of map[int]Outcome) []int {
	var all []int
	for t := range of {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(Compare(of[a], of[b], m.better), cmp.Compare(a, b)) })
	return all
}

// Compare orders outcomes, the better one first; 0 where none is better.
func Compare(a, b Outcome, better func(value, than float64) bool) int {
	switch {
	case a.Failed != b.Failed:
		if b.Failed {
			return -1
		}
		return 1
	case a.Failed:
		return 0
	case better(a.Score, b.Score):
		return -1
	case better(b.Score, a.Score):
		return 1
	}
	return 0
}
