package schedule

import (
	"math"
	"time"
)

// foresight is for how long a job is taken to run that has just started. Without it one owner could have all cores before any time has passed.
const foresight = time.Minute

// least is the use in core seconds that is forgotten.
const least = 0.001

// A use is what an owner has used: core seconds, each of which counts half as much after a HalfLife.
type use struct{ seconds float64 }

// advance lets time pass: owners use what their jobs have.
func (m *Machine) advance(now time.Duration) {
	passed := (now - m.now).Seconds()
	m.now = now
	if passed <= 0 {
		return
	}
	half := m.policy.HalfLife.Seconds()
	decay := math.Exp2(-passed / half)
	average := half / math.Ln2 * (1 - decay) // the integral of the decay over the time that has passed
	for owner, cores := range m.cores() {
		u := m.uses[owner]
		if u == nil {
			u = &use{}
			m.uses[owner] = u
		}
		u.seconds += cores * average / decay // what follows makes it smaller with the rest
	}
	for owner, u := range m.uses {
		if u.seconds *= decay; u.seconds < least {
			delete(m.uses, owner)
		}
	}
}

// cores is how many cores the jobs of each owner have.
func (m *Machine) cores() map[string]float64 {
	sum := map[string]int64{}
	for _, x := range m.jobs {
		if x.runs {
			sum[x.Owner] += x.takes().Cores
		}
	}
	cores := make(map[string]float64, len(sum))
	for owner, n := range sum {
		cores[owner] = float64(n) / 1000
	}
	return cores
}

// shares is what the line is ordered by: what owners have used, and will have soon.
func (m *Machine) shares() map[string]float64 {
	shares := map[string]float64{}
	for owner, cores := range m.cores() {
		shares[owner] = cores * foresight.Seconds()
	}
	for owner, u := range m.uses {
		shares[owner] += u.seconds
	}
	return shares
}

// Uses returns what owners have used of late, in core seconds: what SetUses gives the machine of the next listener.
func Uses(m *Machine) map[string]float64 {
	uses := map[string]float64{}
	for owner, u := range m.uses {
		uses[owner] = u.seconds
	}
	return uses
}

// SetUses says what owners have used before a machine was made, and how long ago that was known. What is no such number counts nothing.
func SetUses(m *Machine, uses map[string]float64, ago time.Duration) {
	decay := math.Exp2(-max(0, ago.Seconds()) / m.policy.HalfLife.Seconds())
	for owner, seconds := range uses {
		if seconds *= decay; seconds >= least && !math.IsInf(seconds, 0) && !math.IsNaN(seconds) {
			m.uses[owner] = &use{seconds}
		}
	}
}
