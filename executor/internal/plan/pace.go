package plan

import (
	"slices"
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
)

// A pace is how much work one core does in a nanosecond. It decides where threads pay. It has no effect on results.
type pace struct{ flops, bytes float64 }

// These are slightly below what was measured on one core of 117 GFLOP/s. With a higher pace, some plans that could gain from several workers run on
// one. With a lower pace, some plans run on several workers and lose.
var (
	cachedPace = pace{flops: 90, bytes: 80}
	memoryPace = pace{flops: 90, bytes: 10}
	scalarPace = pace{flops: 4, bytes: 5} // without vector instructions
)

// nearBytes bounds the variables of a plan that are expected to stay in a cache from step to step.
const nearBytes = 16 << 20

// dispatchTime is how many nanoseconds a piece needs in addition to its work.
const dispatchTime = 50

func (r pace) nanoseconds(cost ops.Cost) float64 {
	return dispatchTime + max(float64(cost.Flops)/r.flops, float64(cost.Bytes)/r.bytes)
}

// smallestPlan times Request.Grain is the time on one core, by estimate, from which on a plan runs on several workers. What one worker writes and
// another reads moves between their caches: half of the weights in each step. So a smaller plan would lose more than it gains.
const smallestPlan = 50

// paceOf estimates the pace of a plan as a whole, and how long the plan takes one core, in nanoseconds.
func paceOf(variables *variables, nodes []node) (pace pace, nanos float64) {
	bytes := int64(0)
	for _, v := range variables.order {
		bytes += v.bytes()
	}
	switch {
	case !kernel.Vectorized():
		pace = scalarPace
	case bytes > nearBytes:
		pace = memoryPace
	default:
		pace = cachedPace
	}
	for i := range nodes {
		nanos += pace.nanoseconds(nodes[i].cost)
	}
	return pace, nanos
}

// A trial compares two ways to run a plan: on the workers of a pool, and on the goroutine of the caller alone. Both ways give the same bits. For a
// short plan nobody can tell in advance which way is faster: the second core may be busy with other work, and may need long to read what the first
// wrote.
//
// After a stretch of runs in the way that was faster last, some runs go the other way, and the trial compares both. As long as the same way wins, the
// stretches grow, so that less than one run in 400 goes the slower way.
type trial struct {
	alone   bool // the way that was faster last
	stretch int  // runs from one comparison to the next
	run     int  // since the last comparison
	took    [2][triedRuns]time.Duration
}

const (
	firstStretch = 16
	longStretch  = 4096
	warmRuns     = 2 // of the other way before its time counts
	triedRuns    = 7 // of each way, whose medians are compared
	// clearGain: the plan changes over if the usual way takes more than this many times as long as the other.
	clearGain = 1.03
	// largestTrial times Request.Grain is the time on one core, by estimate, up to which a plan is tried. A longer plan surely gains from workers, and
	// would lose too much in runs without them.
	largestTrial = 1000
)

// otherWay reports whether the next run goes the other way.
func (t *trial) otherWay() bool { return t.run >= t.stretch }

// runsAlone reports whether the next run is to do without the pool.
func (t *trial) runsAlone() bool { return t.alone != t.otherWay() }

// add records how long a run took.
func (t *trial) add(took time.Duration) {
	switch i := t.run - t.stretch; {
	case i < -triedRuns:
	case i < 0:
		t.took[0][i+triedRuns] = took
	case i >= warmRuns:
		t.took[1][i-warmRuns] = took
	}
	if t.run++; t.run == t.stretch+warmRuns+triedRuns {
		t.decide()
	}
}

// decide ends a comparison.
func (t *trial) decide() {
	t.run, t.stretch = 0, min(2*t.stretch, longStretch)
	slices.Sort(t.took[0][:])
	slices.Sort(t.took[1][:])
	if usual, other := t.took[0][triedRuns/2], t.took[1][triedRuns/2]; float64(usual) > clearGain*float64(other) {
		t.alone, t.stretch = !t.alone, firstStretch
	}
}

// newTrial returns the trial of a plan. It returns nil for a plan that always runs on the pool: a long one, one that waits for other machines, and
// one that is divided wherever possible (grain 0).
func newTrial(p *Plan, grain time.Duration) *trial {
	nanos := 0.0
	for i := range p.steps {
		nanos += p.steps[i].nanos
	}
	if nanos >= largestTrial*float64(grain) || slices.ContainsFunc(p.pieces, (*piece).goesOutside) {
		return nil
	}
	return &trial{stretch: firstStretch}
}
