package limits

import (
	"runtime"
	"sync"
	"time"
)

// trial is how long one trial of a limit lasts at least.
const trial = 20 * time.Millisecond

// A loop is a loop of fused multiply-adds that touch no memory.
type loop struct {
	name  string
	flops int64 // operations of one round
	run   func(rounds int)
}

// Peak returns the most float32 operations a second that fused multiply-adds in registers reached on a number of threads together, over
// some trials, and the instructions that reached it. It is 0 where this package has no such loop: on machines that are not amd64
// with FMA.
func Peak(threads, trials int) (flopsPerSecond float64, instructions string) {
	for _, l := range loops() {
		best := bestRate(threads, trials, func(int) func(int) int64 {
			return func(rounds int) int64 {
				l.run(rounds)
				return int64(rounds) * l.flops
			}
		})
		if best > flopsPerSecond {
			flopsPerSecond, instructions = best, l.name
		}
	}
	return flopsPerSecond, instructions
}

// bestRate returns the highest rate of units a second over some trials. Each thread calls what setup returns for it, which does the
// given number of rounds and returns the units that these were.
func bestRate(threads, trials int, setup func(thread int) func(rounds int) (units int64)) float64 {
	work := make([]func(int) int64, threads)
	for i := range work {
		work[i] = setup(i)
	}
	rounds := 1
	for took := time.Duration(0); took < trial; {
		rounds *= 2
		start := time.Now()
		work[0](rounds)
		took = time.Since(start)
	}
	best := 0.0
	for range trials {
		units := make([]int64, threads)
		start := time.Now()
		var all sync.WaitGroup
		for i := range work {
			all.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				units[i] = work[i](rounds)
			})
		}
		all.Wait()
		elapsed, total := time.Since(start).Seconds(), int64(0)
		for _, n := range units {
			total += n
		}
		best = max(best, float64(total)/elapsed)
	}
	return best
}
