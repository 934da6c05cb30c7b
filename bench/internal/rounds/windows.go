package rounds

import (
	"slices"
	"time"

	"github.com/edl-go/edl/bench/internal/measure"
)

// Bounds of a measurement.
const (
	// window is the least length of a window. It is much longer than the time for which a cluster may hold back the reports of steps.
	window = 200 * time.Millisecond
	// fewestWarm is the least number of steps before the first window, which also takes a quarter of the measurement.
	fewestWarm = 3
)

// Windows divides the steps of a job into windows by the times at which they were reported. It counts from the first report. Several steps may be
// reported together: a window begins and ends with the first of them, so it holds all steps between.
type Windows struct {
	length time.Duration // of the measurement

	began   bool // a step was reported
	first   time.Duration
	warm    uint64 // steps before the first window
	open    bool   // the first window has begun
	start   time.Duration
	begin   time.Duration // of this window
	steps   uint64        // in this window, without the one that ends it
	total   uint64
	end     time.Duration
	windows []float64 // microseconds of a step
}

// A Phase says what a step is to a measurement.
type Phase int

// The phases of a measurement.
const (
	Warming   Phase = iota
	Beginning       // the first window begins with this step
	Measuring
	Done // the last window has ended
)

// NewWindows returns the windows of a measurement that takes so long after the warm-up.
func NewWindows(length time.Duration) *Windows { return &Windows{length: length} }

// Step takes the report of a step.
func (w *Windows) Step(now time.Duration) Phase {
	if !w.began {
		w.began, w.first = true, now
	}
	if !w.open {
		if w.warm++; w.warm <= fewestWarm || now-w.first < w.length/4 {
			return Warming
		}
		w.open, w.start, w.begin = true, now, now
		return Beginning
	}
	w.steps++
	if now-w.begin < window {
		return Measuring
	}
	w.windows = append(w.windows, float64((now-w.begin).Nanoseconds())/1e3/float64(w.steps))
	w.total, w.end = w.total+w.steps, now
	w.begin, w.steps = now, 0
	if len(w.windows) < measure.Fewest || now-w.start < w.length {
		return Measuring
	}
	return Done
}

// Steps returns the number of steps in all windows that have ended.
func (w *Windows) Steps() uint64 { return w.total }

// Result returns the median and the fastest window. There must be one.
func (w *Windows) Result() measure.Result {
	sorted := slices.Sorted(slices.Values(w.windows))
	return measure.Result{Median: measure.Median(sorted), Fastest: sorted[0], Windows: len(sorted)}
}
