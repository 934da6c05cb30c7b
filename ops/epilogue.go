package ops

import "github.com/edl-go/edl/tensor"

// An Epilogue is the work of a loop that does something to each element by itself: it adds a bias, or applies a function. A loop before it that
// makes these elements may take it over (Loop.TakeOver), and do it as soon as they are complete.
type Epilogue struct {
	Of   string         // the input slot that the elements come from
	Out  *tensor.Tensor // where they go
	Bias *tensor.Tensor // what is added, nil for a function
	// Pre, N and Post say over which elements each number of the bias lies: over [p, i, q] of the elements seen as [Pre, N, Post] lies number i.
	Pre, N, Post int
	// Function is what is applied, nil for a bias: a func(out, x []T) for the elements' type T, which may be given one slice for both.
	Function any
}

// Finishing is what a loop has taken over from the loops behind it. Its kernel looks at it when it runs, so it may change between Bind and
// the first run.
type Finishing[T tensor.Float] struct {
	Out      *tensor.Tensor // where the result goes
	Bias     *tensor.Tensor // nil for none
	Function func(out, x []T)
	Term     *tensor.Tensor // added last, nil for none
}

// Accumulate is a Loop.Accumulate.
func (f *Finishing[T]) Accumulate(out, term *tensor.Tensor) { f.Out, f.Term = out, term }

// TakeOver makes a Loop.TakeOver of a kernel whose result, seen as [pre, n, post], it can add a bias of n to.
func (f *Finishing[T]) TakeOver(pre, n, post int) func(Epilogue) bool {
	return func(e Epilogue) bool {
		if f.Function != nil || e.Out.DType() != f.Out.DType() || e.Out.Len() != f.Out.Len() {
			return false
		}
		function, applies := e.Function.(func(out, x []T))
		switch {
		case applies:
			f.Function = function
		case e.Bias == nil || f.Bias != nil || e.Pre != pre || e.N != n || e.Post != post:
			return false
		default:
			f.Bias = e.Bias
		}
		f.Out = e.Out
		return true
	}
}
