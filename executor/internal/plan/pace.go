package plan

import (
	"slices"
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
)

// A pace is how much one core does in a nanosecond. It decides where threads pay, never what is computed.
type pace struct{ flops, bytes float64 }

// What was measured on one core of 117 GFLOP/s, with little to spare: at a pace that is too high fewer plans run on several workers than could
// gain, at one that is too low some lose.
var (
	cachedPace = pace{flops: 90, bytes: 80}
	memoryPace = pace{flops: 90, bytes: 10}
	scalarPace = pace{flops: 4, bytes: 5} // without vector instructions
)

// nearBytes is up to how many bytes of variables are expected to stay in a cache from step to step.
const nearBytes = 16 << 20

// dispatchTime is how many nanoseconds a piece takes beside its work.
const dispatchTime = 50

func (r pace) nanoseconds(cost ops.Cost) float64 {
	return dispatchTime + max(float64(cost.Flops)/r.flops, float64(cost.Bytes)/r.bytes)
}

// smallestPlan is how many times Request.Grain a plan must take one core, by estimate, to run on several workers. What one of them writes and
// another reads moves between their caches: half of the weights in each step. So a smaller plan would lose more by sharing its work than it could
// gain.
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
	for _, n := range nodes {
		nanos += pace.nanoseconds(n.cost)
	}
	return pace, nanos
}

// A trial compares two ways to run a plan: shared by the workers of a pool, and on the caller's goroutine alone. Which is faster does not follow from
// the plan where it takes little time: the second core may be busy with other work, and may take long to read what the first wrote. Both ways give
// the same bits. After a stretch of runs in the way that was faster last, some runs go the other way; as long as the comparison ends as before, the
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
	// clearGain is how many times longer the usual way must take than the other, for the plan to change over.
	clearGain = 1.03
	// largestTrial is how many times Request.Grain a plan may take one core, by estimate, to be tried: a larger one gains from workers for sure, and
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

// newTrial returns the trial of a plan, nil for one that always runs on the pool: that is large, that waits for other machines, or that
// is to be divided wherever it can be.
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
