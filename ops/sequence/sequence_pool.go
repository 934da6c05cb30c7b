package sequence

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ways to make one row of a sequence, as Fluid names them.
const (
	average = "AVERAGE" // the mean
	sum     = "SUM"
	root    = "SQRT" // the sum over the square root of the length
	largest = "MAX"
	last    = "LAST"
	first   = "FIRST"
)

var pooltypes = []string{average, sum, root, largest, last, first}

func init() {
	opkit.Register(ops.Def{
		Type: "sequence_pool",
		Doc: "Makes one row of each sequence of the innermost LoD level, column by column: the mean, the sum, the sum over the square root of " +
			"the length, the largest element, the last or the first. A sequence without rows gives pad_value.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [rows, ...] with a LoD"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[sequences, ...], with the LoD levels of X but the innermost"},
			{Name: "MaxIndex", Doc: "int32, for MAX: the row of X that each element comes from, -1 where there is none", Intermediate: true,
				Dispensable: true}},
		Attrs: []ops.Attr{{Name: "pooltype", Doc: "AVERAGE, SUM, SQRT, MAX, LAST or FIRST", Default: average, Check: func(op *program.Op) error {
			if kind, _ := op.Str("pooltype"); !slices.Contains(pooltypes, kind) {
				return fault.New(fault.InvalidArgument, "AVERAGE, SUM, SQRT, MAX, LAST or FIRST")
			}
			return nil
		}}, {Name: "pad_value", Doc: "what a sequence without rows gives", Default: float32(0)}},
		Infer: inferSequencePool,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindFloats("X", bindSequencePool[float32], bindSequencePool[float64]),
	}, opkit.Gradient{
		Doc:     "dX is dOut of the sequence: in every row, divided as the sum was, or for MAX, LAST and FIRST where the element comes from.",
		Inputs:  []string{"X"},
		Outputs: []string{"MaxIndex"},
		From:    []string{"Out"},
		Wrt:     []string{"X"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("X", bindSequencePoolGrad[float32], bindSequencePoolGrad[float64]),
	})
}

func inferSequencePool(s *ops.Shapes) error {
	x := s.In("X")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	sequences, err := s.CountSequences("X")
	if err != nil {
		return err
	}
	dims := slices.Concat([]int64{sequences}, x.Dims[1:])
	for slot, dtype := range map[string]tensor.DType{"Out": x.DType, "MaxIndex": tensor.Int32} {
		s.Set(slot, dtype, dims...)
		s.PoolLoD(slot, "X")
	}
	return nil
}

// scale returns the factor of a sum over n rows.
func scale(kind string, n int) float64 {
	switch kind {
	case average:
		return 1 / float64(n)
	case root:
		return 1 / math.Sqrt(float64(n))
	}
	return 1
}

func bindSequencePool[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, kind, pad := batchIn(b, "X"), b.Out("Out"), b.Str("pooltype"), T(b.Float("pad_value"))
	_, width := opkit.Matrix(x.value.Dims(), 1)
	if out == nil {
		out = b.Scratch(tensor.Of[T](), x.n*width)
	}
	index := b.Out("MaxIndex")
	if index == nil && kind == largest {
		index = b.Scratch(tensor.Int32, x.n*width)
	}
	return b.Loops(ops.Loop{N: x.n, Apart: true, Run: func(_, from, to int) error {
		offsets, err := x.offsets()
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			var source []int32
			if index != nil {
				source = row(index.Int32s(), i, width)
			}
			pool(row(tensor.Data[T](out), i, width), source, tensor.Data[T](x.value)[int(offsets[i])*width:int(offsets[i+1])*width], kind, width,
				int(offsets[i]), pad)
		}
		return nil
	}})
}

// pool makes one row of the rows of one sequence, or of pad if there are none. begin is the number of the first of them.
func pool[T tensor.Float](out []T, index []int32, rows []T, kind string, width, begin int, pad T) {
	if kind != largest || len(rows) == 0 {
		for j := range index {
			index[j] = -1
		}
	}
	if len(rows) == 0 {
		kernel.Fill(out, pad)
		return
	}
	switch kind {
	case largest:
		kernel.SequenceMax(out, index, rows, width, int32(begin))
	case last:
		copy(out, rows[len(rows)-width:])
	case first:
		copy(out, rows)
	default:
		kernel.SequenceSum(out, rows, width, T(scale(kind, len(rows)/width)))
	}
}

func bindSequencePoolGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx, index, kind := batchIn(b, "X"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.In("MaxIndex"), b.Str("pooltype")
	_, width := opkit.Matrix(x.value.Dims(), 1)
	if kind == largest && index == nil {
		return nil, fault.E(fault.InvalidProgram, fault.Got("pooltype MAX without MaxIndex"), fault.Want("the output MaxIndex of the forward op"))
	}
	return b.Loops(ops.Loop{N: x.n, Apart: true, Run: func(_, from, to int) error {
		offsets, err := x.offsets()
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			var source []int32
			if kind == largest {
				source = row(index.Int32s(), i, width)
				if err := x.checkIndex(source, offsets[i], offsets[i+1]); err != nil {
					return err
				}
			}
			unpool(tensor.Data[T](dx)[int(offsets[i])*width:int(offsets[i+1])*width], row(tensor.Data[T](dout), i, width), source, kind, width,
				int(offsets[i]))
		}
		return nil
	}})
}

// checkIndex refuses an index that names no row of its sequence.
func (x batch) checkIndex(index []int32, begin, end int64) error {
	if begin == end {
		return nil
	}
	for _, at := range index {
		if int64(at) < begin || int64(at) >= end {
			return fault.E(fault.InvalidArgument, fault.On(x.op), fault.Var(x.op.In("MaxIndex")),
				fault.Got("a row of another sequence"), fault.Want("the MaxIndex of the forward op"))
		}
	}
	return nil
}

// unpool spreads the gradient of a pooled row over the rows of its sequence. begin is the number of the first of them.
func unpool[T tensor.Float](dx, dout []T, index []int32, kind string, width, begin int) {
	if len(dx) == 0 {
		return
	}
	switch kind {
	case largest:
		kernel.SequenceMaxGrad(dx, dout, index, width, int32(begin))
	case last:
		clear(dx)
		copy(dx[len(dx)-width:], dout)
	case first:
		clear(dx)
		copy(dx, dout)
	default:
		kernel.SequenceSumGrad(dx, dout, width, T(scale(kind, len(dx)/width)))
	}
}
