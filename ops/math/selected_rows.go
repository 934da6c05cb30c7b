package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Fluid limits sparse gradients by their global norm with the two ops of this file.

func init() {
	ops.Register(ops.Def{
		Type:    "merge_selected_rows",
		Doc:     "Sums the values of each row of a sparse gradient, in the order of the batch, so that it holds no row twice.",
		Inputs:  rowsIn("X", "a sparse gradient of floats"),
		Outputs: rowsOut("Out", "as X, with rising row numbers"),
		Infer: func(s *ops.Shapes) error {
			if err := sparse(s); err != nil {
				return err
			}
			s.Like("Out", "X")
			return nil
		},
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindFloats("X", bindMergeSelected[float32], bindMergeSelected[float64]),
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type: "get_tensor_from_selected_rows",
		Doc: "Takes the values of a sparse gradient as a tensor of their own, [rows, width]. Where X has room for more rows than it holds, the others are zeros, which Fluid " +
			"leaves out.",
		Inputs:  rowsIn("X", "a sparse gradient of floats"),
		Outputs: out("Out", "its values"),
		Infer: func(s *ops.Shapes) error {
			if err := sparse(s); err != nil {
				return err
			}
			m := s.In("X")
			s.Set("Out", m.DType, m.Stored()...)
			return nil
		},
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindFloats("X", bindSelectedValues[float32], bindSelectedValues[float64]),
		MixesRows: opkit.Mixes,
	})
}

// sparse checks that X is a sparse gradient of floats.
func sparse(s *ops.Shapes) error {
	if err := opkit.CheckType(s, "X", s.In("X").Kind == program.SelectedRows, "a sparse gradient"); err != nil {
		return err
	}
	return s.IsFloat("X")
}

func bindMergeSelected[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return limitRows(b, func(out, values []T) { copy(out, values) })
}

func bindSelectedValues[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	return func(context.Context) error {
		rows, _ := x.Selected()
		used := len(tensor.UsedRows(x)) * (x.Len() / max(1, rows.Len()))
		values := tensor.Data[T](to)
		copy(values[:used], tensor.Data[T](x))
		clear(values[used:])
		return nil
	}, nil
}
