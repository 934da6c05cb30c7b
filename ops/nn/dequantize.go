package nn

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file give weights their size that Paddle keeps in one byte each. EDL reads such integers as int32.

// magnitudes is how many numbers a dictionary of dequantize_log has.
const magnitudes = 128

func init() {
	registerBytes("dequantize_abs_max", "Gives integers their size: Out = Scale*X/max_range.", ops.Slot{Name: "Scale", Doc: "float, one number"}, 1,
		[]ops.Attr{{Name: "max_range", Doc: "the integer of the magnitude Scale; not 0", Kind: float32(0), Check: func(op *program.Op) error {
			if most, ok := op.Float("max_range"); ok && !(most < 0 || most > 0) {
				return errors.New("a number other than 0")
			}
			return nil
		}}}, scaleBytes[float32], scaleBytes[float64])
	registerBytes("dequantize_log", "Gives integers their size by a dictionary of magnitudes: Out = Dict[X], and -Dict[X + 128] where X is negative.",
		ops.Slot{Name: "Dict", Doc: "float, 128 numbers"}, magnitudes, nil, lookUpBytes[float32], lookUpBytes[float64])
}

// A sizing gives n integers of x their size by a table. It checks what comes from outside.
type sizing[T tensor.Float] func(b *ops.Binding, out []T, x []int32, table []T) error

// registerBytes adds an op that computes each element by a table of entries numbers.
func registerBytes(name, doc string, table ops.Slot, entries int64, attrs []ops.Attr, f32 sizing[float32], f64 sizing[float64]) {
	ops.Register(ops.Def{
		Type: name, Doc: doc + " No gradient flows through it.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "int32: what a byte holds, -128 to 127"}, table},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the dims of X"}},
		Attrs:   attrs,
		Infer: func(s *ops.Shapes) error {
			if err := opkit.CheckType(s, "X", s.In("X").DType == tensor.Int32, "int32"); err != nil {
				return err
			}
			if err := s.IsFloat(table.Name); err != nil {
				return err
			}
			if !opkit.Agree(ops.Product(s.In(table.Name).Dims), entries) {
				return s.Errorf(table.Name, "as many numbers as %d", entries)
			}
			s.Like("Out", "X")
			out := s.Outs("Out")[0]
			out.DType = s.In(table.Name).DType
			s.SetAt("Out", 0, out)
			return nil
		},
		MixesRows: opkit.RowsOnlyIn("X"),
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats(table.Name, bindBytes(table.Name, f32), bindBytes(table.Name, f64)),
	})
}

func bindBytes[T tensor.Float](slot string, size sizing[T]) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, table, out := b.In("X"), b.In(slot), b.Out("Out")
		return b.Loops(ops.Loop{N: x.Len(), Whole: []string{slot}, Run: func(_, from, to int) error {
			return size(b, tensor.Data[T](out)[from:to], x.Int32s()[from:to], tensor.Data[T](table))
		}})
	}
}

func scaleBytes[T tensor.Float](b *ops.Binding, out []T, x []int32, table []T) error {
	most := T(b.Float("max_range"))
	for i, v := range x {
		out[i] = table[0] * T(v) / most
	}
	return nil
}

func lookUpBytes[T tensor.Float](b *ops.Binding, out []T, x []int32, table []T) error {
	for i, v := range x {
		switch {
		case v < -magnitudes || v >= magnitudes:
			return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("X")), fault.Gotf("the integer %d", v), fault.Want("what a byte holds, -128 to 127"))
		case v < 0:
			out[i] = -table[v+magnitudes]
		default:
			out[i] = table[v]
		}
	}
	return nil
}
