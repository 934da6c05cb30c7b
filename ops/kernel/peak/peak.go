// Package peak has loops that do as many floating-point operations as a core can, since nothing else holds them up. They are the limit that
// benchmarks are measured by.
package peak

import "time"

// A Loop multiplies and adds float32 numbers in registers. Within a round, none depends on another.
type Loop struct {
	Level string           // of vector instructions
	Flops int64            // of one round; a multiplication fused with an addition counts as two
	Run   func(rounds int) // rounds is at least 1
}

// Flops returns the float32 operations a second of one core at a level, the best of several short runs. It is 0 if Loops has no loop of that level.
func Flops(level string) float64 {
	const rounds = 200_000
	best := 0.0
	for _, l := range Loops() {
		if l.Level != level {
			continue
		}
		for range 20 {
			start := time.Now()
			l.Run(rounds)
			best = max(best, float64(rounds*l.Flops)/time.Since(start).Seconds())
		}
	}
	return best
}
