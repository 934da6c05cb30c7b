package kernel

import "github.com/edl-go/edl/tensor"

// Repeat writes each place of x, of the form [pre, len(counts), post], as often as counts says, the copies one after the other. out has the form [pre, sum of counts, post].
func Repeat[T any](out, x []T, counts []int64, pre, post int) {
	from, at := 0, 0
	for range pre {
		for _, n := range counts {
			for range n {
				copy(out[at:at+post], x[from:from+post])
				at += post
			}
			from += post
		}
	}
}

// RepeatGrad sums, for each place of dx, dout of its copies, in their order.
func RepeatGrad[T tensor.Float](dx, dout []T, counts []int64, pre, post int) {
	to, at := 0, 0
	for range pre {
		for _, n := range counts {
			sums := dx[to : to+post]
			clear(sums)
			for range n {
				for i, v := range dout[at : at+post] {
					sums[i] += v
				}
				at += post
			}
			to += post
		}
	}
}
