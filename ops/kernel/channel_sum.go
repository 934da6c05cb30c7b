package kernel

import "github.com/edl-go/edl/tensor"

// AddGradChannels is the dy of AddGrad for elements [from, to) of it, with the same bits: it overwrites these with the
// sum of dout, which is seen as [pre, n, post], over pre and post, and leaves the rest of dy.
func AddGradChannels[T tensor.Float](dy, dout []T, pre, n, post, from, to int) {
	clear(dy[from:to])
	for p := range pre {
		if post == 1 {
			Accumulate(dy[from:to], dout[p*n+from:][:to-from])
			continue
		}
		for i := from; i < to; i++ {
			dy[i] += T(sum(dout[(p*n+i)*post:][:post]))
		}
	}
}
