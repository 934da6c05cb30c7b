// Package seqpool makes one row of the rows of a table that each sequence of ids names, without holding these rows: a lookup and sequence_pool in one, with the same
// bits. It is for lookups of all kinds of tables, and for their gradients.
package seqpool

import (
	"errors"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The values of the attribute.
const (
	None = "none" // a row for each id
	Sum  = "sum"
	Mean = "mean"
	Root = "sqrt" // the sum over the square root of the number of ids
)

// Attr is the attribute of a lookup that says how rows become one. A lookup that always pools takes no None.
func Attr(usual, doc string) ops.Attr {
	return ops.Attr{Name: "combiner", Doc: doc, Default: usual, Check: func(op *program.Op) error {
		switch kind, _ := op.Str("combiner"); {
		case kind == Sum || kind == Mean || kind == Root || kind == None && usual == None:
			return nil
		case usual == None:
			return fault.New(fault.InvalidArgument, "none, sum, mean or sqrt")
		}
		return fault.New(fault.InvalidArgument, "sum, mean or sqrt")
	}}
}

// ComputedAs is the type of rows of a table that is stored as dtype, and of its gradient.
func ComputedAs(dtype tensor.DType) tensor.DType {
	if dtype == tensor.BFloat16 {
		return tensor.Float32
	}
	return dtype
}

// Dims returns the dims of a result of so wide rows, one for each sequence of the slot Ids.
func Dims(s *ops.Shapes, width int64) ([]int64, error) {
	sequences, err := s.CountSequences("Ids")
	return []int64{sequences, width}, err
}

// A Pool is the ids of a kernel that pools, by sequences of the innermost level. It refuses a batch with another number of sequences than it was bound to.
type Pool struct {
	N    int // sequences
	op   *program.Op
	ids  *tensor.Tensor
	kind string
}

// Of returns the Pool of the slot Ids of a kernel.
func Of(b *ops.Binding) Pool {
	p := Pool{op: b.Op(), ids: b.In("Ids"), kind: b.Str("combiner")}
	if lod := p.ids.LoD(); len(lod) > 0 {
		p.N = max(0, len(lod[len(lod)-1])-1)
	}
	return p
}

// Offsets returns the first id of each sequence, and the number of ids as the last element.
func (p Pool) Offsets() ([]int64, error) {
	return Offsets(p.op, p.op.In("Ids"), p.ids, len(p.ids.LoD())-1, p.N)
}

// Offsets returns the offsets of a level of a LoD that is to have n sequences. variable is whose it is, in errors.
func Offsets(op *program.Op, variable string, of *tensor.Tensor, level, n int) ([]int64, error) {
	err := tensor.CheckLoD(of)
	lod := of.LoD()
	switch {
	case err != nil:
	case level < 0 || level >= len(lod):
		err = fault.E(fault.InvalidArgument, fault.Got("no LoD"), fault.Want("rows that form sequences"))
	case len(lod[level]) != n+1:
		err = fault.E(fault.ShapeMismatch, fault.Got("another number of sequences"), fault.Want("the number that the plan was compiled for"))
	default:
		return lod[level], nil
	}
	var f *fault.Fault
	errors.As(err, &f)
	c := *f
	c.Op, c.Variable, c.Line = op.Type, variable, op.Line()
	return nil, &c
}

// Scale returns the factor of a sum over n rows.
func (p Pool) Scale(n int) float64 {
	switch p.kind {
	case Mean:
		return 1 / float64(n)
	case Root:
		return 1 / math.Sqrt(float64(n))
	}
	return 1
}

// Sums reports whether the factor is always 1.
func (p Pool) Sums() bool { return p.kind == Sum }

// rowsAtOnce is how many rows are looked up before they are added: few enough to stay in the cache.
const rowsAtOnce = 64

// Lookup binds a kernel that writes a row of so many elements to Out for each sequence. lookUp copies the rows of the ids [from, till) to out, and may run for several
// ranges at a time. It reads the slots of whole.
func Lookup[T tensor.Float](b *ops.Binding, width int, whole []string, lookUp func(out []T, from, till int) error) (ops.Kernel, error) {
	p, to := Of(b), b.Out("Out")
	if to.Len() != p.N*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", to), fault.Wantf("%d rows of %d", p.N, width))
	}
	room := min(rowsAtOnce, p.ids.Len()) * width
	rows := b.Scratch(to.DType(), b.Parts()*room)
	return b.Loops(ops.Loop{N: p.N, Apart: true, Whole: whole, Run: func(part, from, till int) error {
		offsets, err := p.Offsets()
		if err != nil || from == till {
			return err
		}
		some, sums, sequence := tensor.Data[T](rows)[part*room:][:room], tensor.Data[T](to), from
		for at, end := int(offsets[from]), int(offsets[till]); at < end; {
			n := min(rowsAtOnce, end-at)
			if err := lookUp(some[:n*width], at, at+n); err != nil {
				return err
			}
			for i := range n {
				for ; int(offsets[sequence+1]) <= at+i; sequence++ {
					finish(p, sums, offsets, sequence, width)
				}
				if sum, row := sums[sequence*width:][:width], some[i*width:][:width]; at+i == int(offsets[sequence]) {
					copy(sum, row)
				} else {
					kernel.Accumulate(sum, row)
				}
			}
			at += n
		}
		for ; sequence < till; sequence++ {
			finish(p, sums, offsets, sequence, width)
		}
		return nil
	}})
}

// finish makes the result of a sequence of the sum of its rows.
func finish[T tensor.Float](p Pool, sums []T, offsets []int64, sequence, width int) {
	sum := sums[sequence*width:][:width]
	if n := int(offsets[sequence+1] - offsets[sequence]); n == 0 {
		clear(sum)
	} else {
		kernel.SequenceSum(sum, sum, width, T(p.Scale(n)))
	}
}

// Finish makes results of the sums of the sequences [from, till), which begin at sums.
func Finish[T tensor.Float](p Pool, sums []T, offsets []int64, from, till, width int) {
	if p.Sums() {
		return
	}
	for i := from; i < till; i++ {
		finish(p, sums[(i-from)*width:], offsets[i:], 0, width)
	}
}

// Spread writes the gradient of each id: that of its sequence, which dout has, divided as the sum was.
func Spread[T tensor.Float](p Pool, to, dout []T, width int) error {
	offsets, err := p.Offsets()
	if err != nil {
		return err
	}
	for i := range p.N {
		if begin, end := int(offsets[i]), int(offsets[i+1]); begin < end {
			kernel.SequenceSumGrad(to[begin*width:end*width], dout[i*width:][:width], width, T(p.Scale(end-begin)))
		}
	}
	return nil
}
