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

// A batch of sequences is computed step by step without padding: a rank table orders the sequences by length, the longest first, and an array has an item for
// each step, with a row for each sequence that has the step. Later items have fewer rows, and row r always belongs to the sequence of rank r.
//
//	x: a0 a1 | b0 b1 b2 | c0      table: b a c      array: [b0 a0 c0] [b1 a1] [b2]

// rankSlot is the slot of a rank table.
var rankSlot = ops.Slot{Name: "RankTable", Doc: "of the batch (lod_rank_table)"}

func init() {
	ops.Register(ops.Def{
		Type:    "lod_rank_table",
		Class:   ops.Control,
		Doc:     "Orders the sequences of a batch by length, the longest first. Sequences of one length keep their order.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "rows that form sequences; only the LoD counts"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the rank table"}},
		Attrs:   []ops.Attr{{Name: "level", Doc: "the LoD level of the sequences: the innermost", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			if _, err := s.CountSequences("X"); err != nil {
				return err
			}
			m := s.In("X")
			switch level := s.Int("level"); {
			case level < 0 || level >= int64(m.LoDLevel):
				return opkit.BadAttr(s, "level", "a LoD level of X: 0 to %d", m.LoDLevel-1)
			case level != int64(m.LoDLevel)-1:
				return opkit.UnsupportedAttr(s, "level", "the innermost level")
			}
			m.Kind = program.LoDRankTable
			s.SetAt("Out", 0, m)
			return nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, level := b.In("X"), int(b.Int("level"))
			out, err := b.RankOut("Out")
			return func(context.Context) error {
				if err := tensor.CheckLoD(x); err != nil {
					return err
				}
				if level >= len(x.LoD()) {
					return fault.E(fault.InvalidArgument, fault.Var(b.Op().In("X")), fault.Gotf("%d LoD levels", len(x.LoD())), fault.Wantf("more than %d", level))
				}
				out.Set(x.LoD()[level])
				return nil
			}, err
		},
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "max_sequence_len",
		Class:   ops.Control,
		Doc:     "Returns the length of the longest sequence.",
		Inputs:  []ops.Slot{rankSlot},
		Outputs: []ops.Slot{{Name: "Out", Doc: "one int64"}},
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Int64, 1)
			return checkRank(s)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			out := b.Out("Out")
			table, err := b.RankIn("RankTable")
			return func(context.Context) error {
				if err := tensor.Resize(out, tensor.Int64, one...); err != nil {
					return err
				}
				out.Int64s()[0] = table.Longest()
				return nil
			}, err
		},
		MixesRows: ranked("RankTable"),
	})
	ops.Register(ops.Def{
		Type:    "lod_tensor_to_array",
		Class:   ops.Control,
		Doc:     "Takes a batch of sequences apart into steps: item t of Out has row t of each sequence that has one, in the order of the ranks.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "rows that form the sequences of the table"}, rankSlot},
		Outputs: []ops.Slot{{Name: "Out", Doc: "an array with an item for each step"}},
		Infer: func(s *ops.Shapes) error {
			s.SetAt("Out", 0, itemsOf(s.In("X")))
			return checkRows(s, "X")
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("lod_tensor_to_array_grad")
			op.Inputs["X"], op.Inputs["RankTable"], op.Inputs[outGrad] = g.In("X"), g.In("RankTable"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x := b.In("X")
			table, err := b.RankIn("RankTable")
			out, arrayErr := b.ArrayOut("Out")
			if err == nil {
				err = arrayErr
			}
			w := &walker{op: b.Op(), table: table}
			return func(context.Context) error {
				if err := w.check("X", x); err != nil {
					return err
				}
				out.Clear()
				return w.eachStep(x, out.Put)
			}, err
		},
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "lod_tensor_to_array_grad",
		Class:   ops.Control,
		Doc:     "Puts the gradients of steps together: the gradient of row t of a sequence is its row in item t, zeros if the item is empty.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "of the forward op"}, rankSlot, {Name: outGrad, Doc: "an array of gradients"}},
		Outputs: []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "of the dims of X"}},
		Infer:   func(s *ops.Shapes) error { s.Like("X"+program.GradSuffix, "X"); return checkRows(s, "X") },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			return bindJoin(b, outGrad, "X"+program.GradSuffix, b.In("X"))
		},
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "array_to_lod_tensor",
		Class:   ops.Control,
		Doc:     "Puts steps together to sequences, as lod_tensor_to_array has taken them apart: Out has the rows and the LoD of the batch of the table.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "an array with an item for each step, of as many rows as sequences have the step"}, rankSlot},
		Outputs: []ops.Slot{{Name: "Out", Doc: "rows that form the sequences of the table"}},
		Infer: func(s *ops.Shapes) error {
			m, table := s.In("X"), s.In("RankTable")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensorArray, "an array"); err != nil {
				return err
			}
			rows := int64(program.Unknown)
			if len(table.Dims) > 0 {
				rows = table.Dims[0]
			}
			if len(m.Dims) > 0 {
				s.Set("Out", m.DType, append([]int64{rows}, m.Dims[1:]...)...)
				ops.ShareLevels(s, "Out", "RankTable", table.LoDLevel)
			}
			return checkRank(s)
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("array_to_lod_tensor_grad")
			op.Inputs["RankTable"], op.Inputs[outGrad] = g.In("RankTable"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind:      func(b *ops.Binding) (ops.Kernel, error) { return bindJoin(b, "X", "Out", nil) },
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "array_to_lod_tensor_grad",
		Class:   ops.Control,
		Doc:     "Takes the gradient of a batch of sequences apart into steps, and adds each to the gradient of its item.",
		Inputs:  []ops.Slot{rankSlot, {Name: outGrad, Doc: "the gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "the array of gradients"}},
		Infer: func(s *ops.Shapes) error {
			s.SetAt("X"+program.GradSuffix, 0, itemsOf(s.In(outGrad)))
			return checkRows(s, outGrad)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			from := b.In(outGrad)
			table, err := b.RankIn("RankTable")
			to, arrayErr := b.ArrayOut("X" + program.GradSuffix)
			if err == nil {
				err = arrayErr
			}
			w := &walker{op: b.Op(), table: table}
			return func(context.Context) error {
				if err := w.check(outGrad, from); err != nil {
					return err
				}
				return w.eachStep(from, func(t int64, item *tensor.Tensor) error { return addItem(to, t, item) })
			}, err
		},
		MixesRows: ranked(outGrad),
	})
}

// itemsOf is the type of an array whose items have rows like those of m.
func itemsOf(m ops.Meta) ops.Meta {
	m = m.WithoutLoD()
	m.Kind, m.Dims = program.LoDTensorArray, slices.Clone(m.Dims)
	if len(m.Dims) > 0 {
		m.Dims[0] = program.Unknown
	}
	return m
}

// ranked is MixesRows of an op of steps: the rows of a sequence are apart from those of others, if the batch of slot is divided.
func ranked(slot string) opkit.Mixing {
	return func(_ *ops.Shapes, divided func(string) bool) bool { return !divided(slot) }
}

func checkRank(s *ops.Shapes) error {
	return opkit.CheckType(s, "RankTable", s.In("RankTable").Kind == program.LoDRankTable, "a rank table")
}

// checkRows checks a tensor that has the rows of the batch of the table.
func checkRows(s *ops.Shapes, slot string) error {
	m, table := s.In(slot), s.In("RankTable")
	if err := opkit.CheckType(s, slot, m.Kind == program.LoDTensor && len(m.Dims) > 0, "a dense tensor of rank 1 or more"); err != nil {
		return err
	}
	if len(table.Dims) > 0 && !opkit.Agree(m.Dims[0], table.Dims[0]) {
		return s.Errorf(slot, "%d rows, as the batch of the table has", table.Dims[0])
	}
	return checkRank(s)
}

// A walker goes through the steps of a batch.
type walker struct {
	op    *program.Op
	table *ops.RankTable
	item  *tensor.Tensor // of one step
	dims  []int64
}

// check checks that a tensor has the rows of the batch.
func (w *walker) check(slot string, x *tensor.Tensor) error {
	if d := x.Dims(); len(d) > 0 && d[0] == w.table.Rows() {
		return nil
	}
	return fault.E(fault.ShapeMismatch, fault.Var(w.op.In(slot)), fault.Gotf("%v", x.Dims()), fault.Wantf("%d rows, as the batch of the rank table has", w.table.Rows()))
}

// eachStep calls do with the rows of each step of x. do does not keep the tensor.
func (w *walker) eachStep(x *tensor.Tensor, do func(t int64, item *tensor.Tensor) error) error {
	if w.item == nil {
		made, err := tensor.New(x.DType(), 0)
		if err != nil {
			return err
		}
		w.item = made
	}
	w.dims = append(w.dims[:0], x.Dims()...)
	for t := range w.table.Longest() {
		w.dims[0] = w.table.Having(t)
		if err := tensor.Resize(w.item, x.DType(), w.dims...); err != nil {
			return err
		}
		for r := range w.dims[0] {
			copyRows(w.item, r, x, w.table.Offsets[w.table.Order[r]]+t, 1)
		}
		if err := do(t, w.item); err != nil {
			return err
		}
	}
	return nil
}

// bindJoin puts the items of the array in slot from together. like is nil, or a tensor of the type and dims of the result; then items may be missing.
func bindJoin(b *ops.Binding, from, to string, like *tensor.Tensor) (ops.Kernel, error) {
	out := b.Out(to)
	table, err := b.RankIn("RankTable")
	if err != nil {
		return nil, err
	}
	items, err := b.ArrayIn(from)
	var dims []int64
	var lod [1][]int64
	return func(context.Context) error {
		if out == nil {
			return nil
		}
		dtype := out.DType()
		switch {
		case like != nil:
			dtype, dims = like.DType(), append(dims[:0], like.Dims()...)
		case table.Longest() > 0:
			first, err := items.At(0)
			if err != nil {
				return err
			}
			dtype, dims = first.DType(), append(dims[:0], first.Dims()...)
		default:
			dims = append(dims[:0], out.Dims()...)
		}
		if len(dims) == 0 {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(from)), fault.Got("items without rows"), fault.Want("rank 1 or more"))
		}
		dims[0] = table.Rows()
		levels := out.LoD()
		if err := tensor.Resize(out, dtype, dims...); err != nil {
			return err
		}
		switch {
		case like != nil:
			tensor.CopyLoD(out, like.LoD())
			tensor.Zero(out)
		case len(levels) > 1:
			out.SetLoD(levels) // those of the batch, which the executor gives it
		default:
			lod[0] = table.Offsets
			tensor.CopyLoD(out, lod[:])
		}
		for t := range table.Longest() {
			if like != nil && !items.Holds(t) {
				continue
			}
			item, err := items.At(t)
			if err != nil {
				return err
			}
			if d := item.Dims(); item.DType() != dtype || len(d) != len(dims) || d[0] != table.Having(t) || !slices.Equal(d[1:], dims[1:]) {
				return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(from)), fault.Gotf("item %d of %v%v", t, item.DType(), d),
					fault.Wantf("%d rows of %v%v", table.Having(t), dtype, dims[1:]))
			}
			for r := range item.Dims()[0] {
				copyRows(out, table.Offsets[table.Order[r]]+t, item, r, 1)
			}
		}
		return nil
	}, err
}

// copyRows copies n rows of axis 0. Both tensors have rows of one width.
func copyRows(to *tensor.Tensor, at int64, from *tensor.Tensor, first, n int64) {
	if n == 0 || to.Len() == 0 {
		return
	}
	width := int64(to.Len()) / to.Dims()[0]
	_ = copyElements(to, at*width, from, first*width, n*width) // the types are equal: who calls has checked it
}

// copyElements copies n elements. Both tensors must have one type that kernels compute with.
func copyElements(to *tensor.Tensor, at int64, from *tensor.Tensor, first, n int64) error {
	if to.DType() != from.DType() {
		return fault.E(fault.TypeMismatch, fault.Gotf("%v", from.DType()), fault.Wantf("%v", to.DType()))
	}
	switch to.DType() {
	case tensor.Float32:
		copy(to.Float32s()[at:at+n], from.Float32s()[first:])
	case tensor.Float64:
		copy(to.Float64s()[at:at+n], from.Float64s()[first:])
	case tensor.Int64:
		copy(to.Int64s()[at:at+n], from.Int64s()[first:])
	case tensor.Int32:
		copy(to.Int32s()[at:at+n], from.Int32s()[first:])
	case tensor.Bool:
		copy(to.Bools()[at:at+n], from.Bools()[first:])
	default:
		return fault.E(fault.Unsupported, fault.Gotf("rows of %v", to.DType()), fault.Want("float32, float64, int32, int64 or bool"))
	}
	return nil
}
