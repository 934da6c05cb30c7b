package bind

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Cut returns what iterations [from, to) of n own of t (see ops.Loop), nil for a tensor that nobody wants.
func Cut[T tensor.Element](t *tensor.Tensor, from, to, n int) []T {
	if t == nil {
		return nil
	}
	all := tensor.Data[T](t)
	if len(all) != n {
		from, to = len(all)/n*from, len(all)/n*to
	}
	return all[from:to]
}

// Each is the result of Bind for a loop over n elements, where from one input to the next everything lies in step.
func Each(b *ops.Binding, n int, run func(from, to int)) (ops.Kernel, error) {
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		run(from, to)
		return nil
	}})
}
