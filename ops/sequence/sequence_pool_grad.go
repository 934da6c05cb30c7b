package sequence

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

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
				fault.Got("a row of another sequence"), fault.Want("what the forward op wrote"))
		}
	}
	return nil
}

// unpool spreads the gradient of the row of a sequence over its rows, the first of which is number begin.
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
