package ops

import (
	"context"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Binding is what Bind sees: attributes with defaults, the tensors of every slot, scratch memory, and the environment. A kernel
// keeps the *tensor.Tensor and asks for its elements on every run (tensor.Data), because a feed swaps them from
// step to step; dims never change under a bound kernel.
type Binding struct {
	attrs
	Env     *Env
	in, out map[string][]*tensor.Tensor
	scratch func(tensor.DType, int) *tensor.Tensor
	loops   []Loop
}

// NewBinding is called by executors. scratch allocates memory that is the kernel's own while it runs.
func NewBinding(op *program.Op, def *Def, env *Env, in, out map[string][]*tensor.Tensor, scratch func(tensor.DType, int) *tensor.Tensor) *Binding {
	return &Binding{attrs: attrs{op, def}, Env: env, in: in, out: out, scratch: scratch}
}

// In returns the first tensor of an input slot, nil when the slot is empty.
func (b *Binding) In(slot string) *tensor.Tensor { return firstTensor(b.in[slot]) }

// Ins returns the tensors of an input slot; a hole is nil.
func (b *Binding) Ins(slot string) []*tensor.Tensor { return b.in[slot] }

// Out returns the first tensor of an output slot, nil when nobody wants it.
func (b *Binding) Out(slot string) *tensor.Tensor { return firstTensor(b.out[slot]) }

// Outs returns the tensors of an output slot; one that nobody wants is nil.
func (b *Binding) Outs(slot string) []*tensor.Tensor { return b.out[slot] }

// Scratch returns n elements of memory with undefined content that no other kernel uses while this one runs.
func (b *Binding) Scratch(dtype tensor.DType, n int) *tensor.Tensor { return b.scratch(dtype, n) }

func firstTensor(ts []*tensor.Tensor) *tensor.Tensor {
	if len(ts) == 0 {
		return nil
	}
	return ts[0]
}

// A Loop is a kernel, or a part of one, in a form that an executor can cut into ranges of iterations: to run them on
// several goroutines at a time, or to run the loops of several ops range by range while what one wrote is still in the cache
// for the next.
//
// The law of a Loop: however [0, N) is cut, and in whatever order the ranges run, the outputs have the same bits. So a sum may
// not run over iterations, only within one.
//
// Iteration i owns the elements [i*len/N, (i+1)*len/N) of every tensor that the loop touches. It writes its own and no others, and
// reads its own and no others, except of the slots in Whole. N divides the length of each of these tensors. A loop of no iterations
// is not run.
type Loop struct {
	N      int      // iterations, at least 0
	Least  int      // a range of fewer iterations does much of the work of one of so many, such as packing a matrix; 0 counts as 1
	Reads  []string // input slots that it reads; nil: all
	Whole  []string // those of them of which an iteration may read everything
	Writes []string // output slots that it writes; nil: all
	// Apart says that iterations own other parts of the tensors than equal shares, of which no two overlap; what is in Whole may still be read by
	// all. Nothing can be said of what a range of them touches then, so such a loop only runs after the loops before it and before those after it.
	Apart bool
	// Copies says that the loop does nothing but to copy the first of Reads to the first of Writes, which have as many elements,
	// so that an executor that can give both the same memory need not run it.
	Copies bool
	// Epilogue describes a loop that does no more than an epilogue; nil for others.
	Epilogue *Epilogue
	// TakeOver lets a loop do the epilogue that follows it, too, whose Out it writes then in place of its own output. It is called before the
	// first run, by an executor that need not run the loop of the epilogue when the answer is true, and knows that nobody else reads what is
	// between them. The bits stay the same. nil: never.
	TakeOver func(Epilogue) bool
	// Accumulate lets a loop add its result to a term of the same dims, element by element, each rounded first, and write the sums to out in
	// place of its own output. It is called before the first run, at most once and after TakeOver, by an executor that knows that nobody
	// else reads the result. nil: never.
	Accumulate func(out, term *tensor.Tensor)
	// InPlace says that out may lie where the term does.
	InPlace bool
	// Run does the iterations [from, to). Ranges that run at the same time have different parts below Binding.Parts.
	Run func(part, from, to int) error
}

// Loops makes the result of Bind out of loops, which run one after another. An op binds either this or a Kernel of its own.
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

// Bound returns the loops that the kernel consists of, nil when it cannot be cut. It is for executors, after Bind.
func (b *Binding) Bound() []Loop { return b.loops }

// Parts returns how many ranges of a loop may run at a time. Scratch memory of which each range needs its own is asked for so
// many times over.
func (b *Binding) Parts() int {
	if b.Env == nil {
		return 1
	}
	return max(1, b.Env.Workers)
}

// Part returns the share of a part of scratch memory that was asked for once for each of Parts.
func Part[T any](scratch []T, part, each int) []T { return scratch[part*each:][:each] }

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
