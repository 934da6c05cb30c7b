package ops

import (
	"context"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Binding is the view of an op that Bind gets: attributes with defaults, the tensors of every slot, scratch memory, and the environment. A kernel
// keeps the *tensor.Tensor and asks for its elements on every run (tensor.Data), because a feed replaces them. Dims never change under a bound
// kernel, but for ops of class Control (control.go): an executor that gives tensors other dims calls Bind again, and drops the kernel that it had.
type Binding struct {
	attrs
	Env     *Env
	in, out map[string][]*tensor.Tensor
	scratch func(tensor.DType, int) *tensor.Tensor
	loops   []Loop
	around  Surroundings // nil for ops that need none
}

// NewBinding is for executors. scratch allocates memory that no other kernel uses while this one runs.
func NewBinding(op *program.Op, def *Def, env *Env, in, out map[string][]*tensor.Tensor, scratch func(tensor.DType, int) *tensor.Tensor) *Binding {
	return &Binding{attrs: attrs{op, def}, Env: env, in: in, out: out, scratch: scratch}
}

// In returns the first tensor of an input slot, nil if the slot is empty.
func (b *Binding) In(slot string) *tensor.Tensor { return firstTensor(b.in[slot]) }

// Ins returns the tensors of an input slot, nil in place of program.Empty.
func (b *Binding) Ins(slot string) []*tensor.Tensor { return b.in[slot] }

// Out returns the first tensor of an output slot, nil if nobody wants it.
func (b *Binding) Out(slot string) *tensor.Tensor { return firstTensor(b.out[slot]) }

// Outs returns the tensors of an output slot. A tensor that nobody wants is nil.
func (b *Binding) Outs(slot string) []*tensor.Tensor { return b.out[slot] }

// Scratch returns n elements of memory. No other kernel uses them while this one runs. They hold arbitrary values.
func (b *Binding) Scratch(dtype tensor.DType, n int) *tensor.Tensor { return b.scratch(dtype, n) }

func firstTensor(ts []*tensor.Tensor) *tensor.Tensor {
	if len(ts) == 0 {
		return nil
	}
	return ts[0]
}

// A Loop is a kernel, or a part of a kernel, that an executor may divide into ranges of iterations. The executor may run ranges on several
// goroutines, or run the loops of several ops range by range while the data is in the cache.
//
// The law of a Loop: the outputs have the same bits, however the executor divides [0, N) and in whatever order it runs the ranges. So a sum may not
// run over iterations, only within one.
//
// Iteration i owns the elements [i*len/N, (i+1)*len/N) of every tensor that the loop touches. N divides the length of each of these tensors. An
// iteration writes only elements that it owns. It reads only elements that it owns, except in the slots of Whole. A loop of no iterations does not
// run.
type Loop struct {
	N     int      // iterations, at least 0
	Least int      // the shortest range worth a run of its own, because each range has a fixed cost; 0 counts as 1
	Reads []string // input slots that the loop reads; nil: all
	Whole []string // input slots that every iteration may read as a whole
	// Writes are output slots that the loop writes; nil: all. An executor leaves a loop out that writes nothing which anybody reads, and does not know of scratch memory:
	// a loop that fills some for a later one of the op writes nil.
	Writes []string
	// Apart says that iterations own disjoint parts of the tensors, but not equal shares. All may still read the slots of Whole. An executor cannot
	// know what a range touches, so it runs such a loop after all loops before it and before all loops after it.
	Apart bool
	// Copies says that the loop only copies the first slot of Reads to the first slot of Writes, which has as many elements. A slot may have several
	// variables: then their elements follow one another, and no variable is missing. An executor that gives both the same memory need not run it.
	Copies bool
	// Epilogue describes a loop that is an epilogue and nothing else. Nil for other loops.
	Epilogue *Epilogue
	// TakeOver asks a loop to do the epilogue that follows it too. If it returns true, the loop writes to the Out of the epilogue in place of its
	// own output, and the executor does not run the loop of the epilogue. The bits stay the same. The executor calls it before the first run, and
	// only if nobody else reads the values between the two. Nil: the loop takes over nothing.
	TakeOver func(Epilogue) bool
	// Accumulate asks a loop to add term to its result, element by element and after rounding, and to write the sums to out in place of its own
	// output. term has the dims of the result. The executor calls it before the first run, at most once, after TakeOver, and only if nobody else
	// reads the result. Nil: the loop cannot.
	Accumulate func(out, term *tensor.Tensor)
	// InPlace says that out of Accumulate may share the memory of term.
	InPlace bool
	// Run does the iterations [from, to). Ranges that run at the same time have different parts, all below Binding.Parts.
	Run func(part, from, to int) error
}

// Loops makes the result of Bind from loops that run one after another. An op binds either loops or a Kernel of its own.
func (b *Binding) Loops(loops ...Loop) (Kernel, error) {
	b.loops = loops
	return func(context.Context) error {
		for i := range loops {
			if loops[i].N == 0 {
				continue
			}
			if err := loops[i].Run(0, 0, loops[i].N); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// Bound returns the loops of the kernel, nil if nothing can divide it. It is for executors, after Bind.
func (b *Binding) Bound() []Loop { return b.loops }

// Parts returns how many ranges of a loop may run at a time. If each range needs scratch memory of its own, ask for that many times as much.
func (b *Binding) Parts() int {
	if b.Env == nil {
		return 1
	}
	return max(1, b.Env.Workers)
}

// Part returns the share of one range in scratch memory that has a share for each of Binding.Parts.
func Part[T any](scratch []T, part, each int) []T { return scratch[part*each:][:each] }

// An Epilogue describes a loop that changes each element by itself: it adds a bias or applies a function. The loop that computes the elements may
// take it over (Loop.TakeOver) and do it as soon as they are complete.
type Epilogue struct {
	Of   string         // the input slot that holds the elements
	Out  *tensor.Tensor // where the results go
	Bias *tensor.Tensor // nil for a function
	// Pre, N and Post say which elements share a number of the bias. With the elements seen as [Pre, N, Post], number i belongs to [p, i, q] for
	// all p and q.
	Pre, N, Post int
	// Function is nil for a bias, else a func(out, x []T) for the type T of the elements. It allows out and x to be one slice.
	Function any
}

// Finishing holds what a loop has taken over from the loops after it. The kernel reads it on each run, because it may change between Bind and the
// first run.
type Finishing[T tensor.Float] struct {
	Out      *tensor.Tensor // of the result
	Bias     *tensor.Tensor // nil for none
	Function func(out, x []T)
	Term     *tensor.Tensor // the loop adds it last; nil for none
}

// Accumulate is a Loop.Accumulate.
func (f *Finishing[T]) Accumulate(out, term *tensor.Tensor) { f.Out, f.Term = out, term }

// TakeOverFunction is a Loop.TakeOver of a kernel that can apply a function, but add no bias.
func (f *Finishing[T]) TakeOverFunction(e Epilogue) bool {
	return e.Bias == nil && f.TakeOver(0, 0, 0)(e)
}

// TakeOver makes a Loop.TakeOver. The kernel can add a bias of n numbers to its result, seen as [pre, n, post].
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
