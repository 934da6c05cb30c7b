package ops

import (
	"context"

	"github.com/edl-go/edl/tensor"
)

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
