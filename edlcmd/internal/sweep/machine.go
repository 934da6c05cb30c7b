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

// A Machine decides which runs follow from the outcomes so far. It is pure: the same events give the same runs, and which trials go on does not depend on the
// order in which runs end. New makes one.
type Machine struct {
	rungs  []Rung
	better func(value, than float64) bool

	rung    int
	waiting []int // trials of the rung that have not begun, in order
	running map[int]bool
	ended   map[int]Outcome // of the rung, by trial
}

// New returns the machine of a sweep whose rungs are not empty. better compares scores.
func New(rungs []Rung, better func(value, than float64) bool) *Machine {
	m := &Machine{rungs: rungs, better: better, running: map[int]bool{}, ended: map[int]Outcome{}}
	for t := range rungs[0].Trials {
		m.waiting = append(m.waiting, t)
	}
	return m
}

// Next returns the run that begins now, and false while there is none: since all that can begin runs, or since the sweep is at its end.
func (m *Machine) Next() (Run, bool) {
	if len(m.waiting) == 0 {
		return Run{}, false
	}
	t := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.running[t] = true
	return Run{t, m.rung}, true
}

// Ended takes the outcome of a run that Next has returned. When it was the last one of its rung, the best trials go on.
func (m *Machine) Ended(r Run, o Outcome) error {
	if r.Rung != m.rung || !m.running[r.Trial] {
		return fault.E(fault.Internal, fault.Gotf("the end of trial %d on rung %d, which does not run", r.Trial, r.Rung))
	}
	delete(m.running, r.Trial)
	m.ended[r.Trial] = o
	if len(m.running)+len(m.waiting) > 0 || m.rung+1 == len(m.rungs) {
		return nil
	}
	m.rung++
	best := m.ranked(m.ended)
	for _, t := range best[:min(m.rungs[m.rung].Trials, len(best))] {
		if !m.ended[t].Failed {
			m.waiting = append(m.waiting, t)
		}
	}
	slices.Sort(m.waiting)
	m.ended = map[int]Outcome{}
	return nil
}

// Done reports whether no run is left and none runs.
func (m *Machine) Done() bool { return len(m.waiting)+len(m.running) == 0 }

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
