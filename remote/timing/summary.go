package timing

import (
	"slices"
	"time"

	"github.com/edl-go/edl/proto/job"
)

// Times summarizes the last rounds, at most Kept of them, and has the last ones that the listener traces; nil before the first has ended.
func (r *Recorder) Times() *job.RoundTimes {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	ring, n, over := r.ring, int(min(r.count, Kept)), r.over
	oldest := int(r.count) - n
	sampled := r.sampledRounds()
	r.mu.Unlock()
	switch {
	case n == 0 && sampled == nil:
		return nil
	case n == 0:
		return &job.RoundTimes{Sampled: sampled}
	}
	rounds := make([]round, n)
	for i := range rounds {
		rounds[i] = ring[(oldest+i)%Kept]
	}
	m := &job.RoundTimes{First: rounds[0].number, Last: rounds[n-1].number, Rounds: uint32(n), Transports: over, Sampled: sampled}
	m.Median, m.Worst, _ = spread(rounds, (*round).total)
	for i, name := range r.phases {
		p := &job.PhaseTime{Name: name}
		p.Median, p.Worst, p.Total = spread(rounds, func(r *round) time.Duration { return r.took[i] })
		m.Phases = append(m.Phases, p)
	}
	for _, one := range rounds {
		if one.last < 0 {
			continue
		}
		if m.LastDeclared == nil {
			m.LastDeclared = map[uint32]uint32{}
		}
		m.LastDeclared[uint32(one.last)]++
	}
	return m
}

// spread returns the median, the greatest and the sum of a time of rounds, in nanoseconds. There is at least one round.
func spread(rounds []round, of func(*round) time.Duration) (median, worst, total int64) {
	all := make([]int64, len(rounds))
	for i := range rounds {
		all[i] = int64(of(&rounds[i]))
		total += all[i]
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1], total
}

// Limits of a RoundTimes that a role reports.
const maxName = 32

// Check refuses times that no Recorder makes: they come from another process.
func Check(m *job.RoundTimes) bool {
	if m == nil {
		return true
	}
	if !checkSampled(m.Sampled) {
		return false
	}
	if m.Rounds == 0 { // a coordinator tells nothing else
		return m.Sampled != nil && len(m.Phases)+len(m.LastDeclared)+len(m.Transports) == 0
	}
	ok := m.Rounds <= Kept && m.Median >= 0 && m.Worst >= m.Median && len(m.Phases) <= maxPhases && len(m.LastDeclared) <= Kept
	for _, p := range m.Phases {
		ok = ok && p != nil && len(p.Name) <= maxName && p.Median >= 0 && p.Worst >= p.Median && p.Total >= 0
	}
	for name := range m.Transports {
		ok = ok && len(name) <= maxName
	}
	return ok && len(m.Transports) <= maxPhases
}
