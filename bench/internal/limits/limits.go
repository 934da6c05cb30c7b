// Package limits measures the limits of this machine: multiplying and adding numbers in registers, and reading memory. Reports show workloads as a
// share of these, because a ratio to another program does not show what is possible.
package limits

import (
	"runtime"
	"sync"
	"time"

	"github.com/edl-go/edl/ops/kernel/peak"
)

// trial is the least duration of one trial of a limit.
const trial = 20 * time.Millisecond

// Peak returns the highest rate of float32 operations a second, fused multiply-adds in registers on a number of threads, over some trials, and the
// instructions that reached it. It is 0 if package peak has no such loop.
func Peak(threads, trials int) (flopsPerSecond float64, instructions string) {
	for _, l := range peak.Loops() {
		best := bestRate(threads, trials, func(int) func(int) int64 {
			return func(rounds int) int64 {
				l.Run(rounds)
				return int64(rounds) * l.Flops
			}
		})
		if best > flopsPerSecond {
			flopsPerSecond, instructions = best, l.Level
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

// buffer is the memory that one thread reads. It is larger than caches.
const buffer = 256 << 20

// Bandwidth returns the highest rate of bytes a second that a number of threads read from memory, each from its own buffer, over some trials.
func Bandwidth(threads, trials int) (bytesPerSecond float64) {
	return bestRate(threads, trials, func(int) func(int) int64 {
		words := make([]uint64, buffer/8)
		for i := range words {
			words[i] = uint64(i) // or all pages would be the same page of zeros
		}
		return func(rounds int) int64 {
			for range rounds {
				runtime.KeepAlive(sum(words))
			}
			return int64(rounds) * buffer
		}
	})
}

// sum adds up words, whose number is a multiple of 8, in lanes that do not wait for each other.
func sum(words []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(words) >= 8; words = words[8:] {
		a += words[0] + words[4]
		b += words[1] + words[5]
		c += words[2] + words[6]
		d += words[3] + words[7]
	}
	return a + b + c + d
}
