package limits

import "runtime"

// buffer is what one thread reads: more than caches hold.
const buffer = 256 << 20

// Bandwidth returns the most bytes a second that a number of threads together read from memory, each from a buffer of its own, over some
// trials.
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
