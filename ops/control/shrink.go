package control

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	step := ops.Slot{Name: "I", Doc: "one int64: the number of a step"}
	ops.Register(ops.Def{
		Type:  "shrink_rnn_memory",
		Class: ops.Control,
		Doc: "Keeps the first rows of X, as many as sequences have step I. If the rows of X form sequences, it keeps as many sequences. X is in the order of the " +
			"ranks, so these are the rows of the sequences that go on.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a row, or a sequence, for each sequence of the step before"}, rankSlot, step},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the first rows of X"}},
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensor && len(m.Dims) > 0, "a dense tensor of rank 1 or more"); err != nil {
				return err
			}
			s.Set("Out", m.DType, append([]int64{program.Unknown}, m.Dims[1:]...)...)
			ops.MakeLoD(s, "Out", "", m.LoDLevel, nil)
			if err := checkRank(s); err != nil {
				return err
			}
			return oneOf(s, "I", tensor.Int64)
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("shrink_rnn_memory_grad")
			op.Inputs["X"], op.Inputs[outGrad] = g.In("X"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind:      bindShrink,
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:      "shrink_rnn_memory_grad",
		Class:     ops.Control,
		Doc:       "The first rows of dX are dOut, and the others 0.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "of the forward op"}, {Name: outGrad, Doc: "the gradient of Out"}},
		Outputs:   []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "of the dims of X"}},
		Infer:     func(s *ops.Shapes) error { s.Like("X"+program.GradSuffix, "X"); return nil },
		Bind:      bindShrinkGrad,
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "reorder_lod_tensor_by_rank",
		Class:   ops.Control,
		Doc:     "Puts the rows of X into the order of the ranks, or its sequences if it has a LoD.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a row, or a sequence, for each sequence of the batch"}, rankSlot},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the dims of X; its sequences are in the order of the ranks, too"}},
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensor && len(m.Dims) > 0, "a dense tensor of rank 1 or more"); err != nil {
				return err
			}
			levels, sequences := m.LoDLevel, m.Sequences
			m = m.WithoutLoD()
			m.LoDLevel, m.Sequences = levels, sequences
			s.SetAt("Out", 0, m)
			return checkRank(s)
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("reorder_lod_tensor_by_rank_grad")
			op.Inputs["X"], op.Inputs["RankTable"], op.Inputs[outGrad] = g.In("X"), g.In("RankTable"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind:      func(b *ops.Binding) (ops.Kernel, error) { return bindReorder(b, b.In("X"), b.Out("Out"), false) },
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "reorder_lod_tensor_by_rank_grad",
		Class:   ops.Control,
		Doc:     "Puts the rows of dOut, or its sequences, back into the order of the batch.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "of the forward op"}, rankSlot, {Name: outGrad, Doc: "the gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "of the dims of X"}},
		Infer:   func(s *ops.Shapes) error { s.Like("X"+program.GradSuffix, "X"); return checkRank(s) },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			return bindReorder(b, b.In(outGrad), b.Out("X"+program.GradSuffix), true)
		},
		MixesRows: ranked("X"),
	})
}

func bindShrink(b *ops.Binding) (ops.Kernel, error) {
	x, i, out := b.In("X"), b.In("I"), b.Out("Out")
	table, err := b.RankIn("RankTable")
	var dims []int64
	var lod [][]int64
	return func(context.Context) error {
		t, err := numberIn(b, "I", i)
		if err != nil {
			return err
		}
		dims = append(dims[:0], x.Dims()...)
		rows := table.Having(t)
		if len(x.LoD()) > 0 {
			if err := tensor.CheckLoD(x); err != nil {
				return err
			}
			rows = min(rows, int64(len(x.LoD()[0])-1))
		}
		lod = lod[:0]
		for _, level := range x.LoD() {
			lod = append(lod, level[:rows+1])
			rows = level[rows]
		}
		if dims[0] < rows {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("X")), fault.Gotf("%v", x.Dims()), fault.Wantf("%d rows or more, for step %d", rows, t))
		}
		dims[0] = rows
		if err := tensor.Resize(out, x.DType(), dims...); err != nil {
			return err
		}
		copyRows(out, 0, x, 0, rows)
		if len(lod) > 0 {
			tensor.CopyLoD(out, lod)
		}
		return nil
	}, err
}

func bindShrinkGrad(b *ops.Binding) (ops.Kernel, error) {
	x, from, to := b.In("X"), b.In(outGrad), b.Out("X"+program.GradSuffix)
	return func(context.Context) error {
		if to == nil {
			return nil
		}
		if err := tensor.Resize(to, x.DType(), x.Dims()...); err != nil {
			return err
		}
		tensor.CopyLoD(to, x.LoD())
		d, f := to.Dims(), from.Dims()
		if len(d) == 0 || len(f) != len(d) || f[0] > d[0] || !slices.Equal(f[1:], d[1:]) || from.DType() != to.DType() {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(outGrad)), fault.Gotf("%v%v", from.DType(), f), fault.Wantf("the first rows of %v%v", to.DType(), d))
		}
		tensor.Zero(to)
		copyRows(to, 0, from, 0, f[0])
		return nil
	}, nil
}

// bindReorder moves rows or sequences between the order of the batch and that of the ranks. The offsets of X tell where its sequences are.
func bindReorder(b *ops.Binding, from, to *tensor.Tensor, back bool) (ops.Kernel, error) {
	x := b.In("X")
	table, err := b.RankIn("RankTable")
	var moved [][]int64
	return func(context.Context) error {
		if to == nil {
			return nil
		}
		lod, n := x.LoD(), x.Dims()[0]
		if len(lod) > 0 {
			if err := tensor.CheckLoD(x); err != nil {
				return err
			}
			n = int64(len(lod[0]) - 1)
		}
		if n != int64(len(table.Order)) {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("X")), fault.Gotf("%d rows or sequences", n), fault.Wantf("%d, as the rank table has", len(table.Order)))
		}
		if err := tensor.Resize(to, x.DType(), x.Dims()...); err != nil {
			return err
		}
		moved = emptied(moved, len(lod))
		at := int64(0)
		for _, i := range table.Order {
			first, end := appendPart(moved, lod, int64(i))
			if back {
				copyRows(to, first, from, at, end-first)
			} else {
				copyRows(to, at, from, first, end-first)
			}
			at += end - first
		}
		switch {
		case len(lod) == 0:
		case back:
			tensor.CopyLoD(to, lod)
		default:
			tensor.CopyLoD(to, moved)
		}
		return nil
	}, err
}
