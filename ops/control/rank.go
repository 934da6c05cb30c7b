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
//
// If the sequences of the table have sequences themselves, as texts have sentences, a step of a text is a sentence: an item has one sentence of each text that has so many, and
// the LoD levels below that of the table.

// rankSlot is the slot of a rank table.
var rankSlot = ops.Slot{Name: "RankTable", Doc: "of the batch (lod_rank_table)"}

func init() {
	ops.Register(ops.Def{
		Type:    "lod_rank_table",
		Class:   ops.Control,
		Doc:     "Orders the sequences of a batch by length, the longest first. Sequences of one length keep their order. The length of one that consists of sequences is their number.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "rows that form sequences; only the LoD counts"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the rank table"}},
		Attrs:   []ops.Attr{{Name: "level", Doc: "the LoD level of the sequences; 0 is the outermost", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			if _, err := s.CountSequences("X"); err != nil {
				return err
			}
			m := s.In("X")
			m.Dims = slices.Clone(m.Dims)
			level := int(s.Int("level"))
			if level < 0 || level >= m.LoDLevel {
				return opkit.BadAttr(s, "level", "a LoD level of X: 0 to %d", m.LoDLevel-1)
			}
			m.Kind = program.LoDRankTable
			if inner := level + 1; inner < m.LoDLevel {
				m.Dims[0] = program.Unknown
				if len(m.Sequences) > inner {
					m.Dims[0] = m.Sequences[inner]
				}
			}
			s.SetAt("Out", 0, m)
			ops.ShareLevels(s, "Out", "X", level+1)
			return nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, level := b.In("X"), int(b.Int("level"))
			out, err := b.RankOut("Out")
			if err == nil {
				out.Around = b.Rank(b.Op().In("X"))
			}
			return func(context.Context) error {
				if err := tensor.CheckLoD(x); err != nil {
					return err
				}
				if level >= len(x.LoD()) {
					return fault.E(fault.InvalidArgument, fault.Var(b.Op().In("X")), fault.Gotf("%d LoD levels", len(x.LoD())), fault.Wantf("more than %d", level))
				}
				out.Set(x.LoD()[:level+1])
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
		Doc:     "Takes a batch of sequences apart into steps: item t of Out has row t of each sequence that has one, in the order of the ranks. If the sequences consist of sequences, it has sequence t of each.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "rows that form the sequences of the table, or sequences that form them"}, rankSlot},
		Outputs: []ops.Slot{{Name: "Out", Doc: "an array with an item for each step"}},
		Infer: func(s *ops.Shapes) error {
			s.SetAt("Out", 0, itemsOf(s, "X"))
			return checkTaken(s, "X")
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
			w := &stepper{op: b.Op(), table: table}
			return func(context.Context) error {
				out.Clear()
				return w.each("X", x, out.Put)
			}, err
		},
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:      "lod_tensor_to_array_grad",
		Class:     ops.Control,
		Doc:       "Puts the gradients of steps together: the gradient of row t of a sequence is its row in item t, zeros if the item is empty.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "of the forward op"}, rankSlot, {Name: outGrad, Doc: "an array of gradients"}},
		Outputs:   []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "of the dims of X"}},
		Infer:     func(s *ops.Shapes) error { s.Like("X"+program.GradSuffix, "X"); return checkTaken(s, "X") },
		Bind:      bindJoinGrad,
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "array_to_lod_tensor",
		Class:   ops.Control,
		Doc:     "Puts steps together to sequences, as lod_tensor_to_array has taken them apart: Out has the rows and the LoD of the batch of the table.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "an array with an item for each step, of as many rows, or sequences, as sequences of the table have the step"}, rankSlot},
		Outputs: []ops.Slot{{Name: "Out", Doc: "rows that form the sequences of the table; below these levels those of the items"}},
		Infer: func(s *ops.Shapes) error {
			m, table := s.In("X"), s.In("RankTable")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensorArray, "an array"); err != nil {
				return err
			}
			rows := int64(program.Unknown)
			if len(table.Dims) > 0 {
				rows = table.Dims[0]
			}
			switch {
			case len(m.Dims) == 0:
			case m.LoDLevel > 0: // the items say how many rows their sequences have
				s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: m.DType, Dims: append([]int64{program.Unknown}, m.Dims[1:]...), LoDLevel: max(1, table.LoDLevel) + m.LoDLevel})
			default:
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
		Bind:      func(b *ops.Binding) (ops.Kernel, error) { return bindJoin(b, "X", "Out") },
		MixesRows: ranked("X"),
	})
	ops.Register(ops.Def{
		Type:    "array_to_lod_tensor_grad",
		Class:   ops.Control,
		Doc:     "Takes the gradient of a batch of sequences apart into steps, and adds each to the gradient of its item.",
		Inputs:  []ops.Slot{rankSlot, {Name: outGrad, Doc: "the gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X" + program.GradSuffix, Doc: "the array of gradients"}},
		Infer: func(s *ops.Shapes) error {
			s.SetAt("X"+program.GradSuffix, 0, itemsOf(s, outGrad))
			return checkTaken(s, outGrad)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			from := b.In(outGrad)
			table, err := b.RankIn("RankTable")
			to, arrayErr := b.ArrayOut("X" + program.GradSuffix)
			if err == nil {
				err = arrayErr
			}
			w := &stepper{op: b.Op(), table: table}
			return func(context.Context) error {
				return w.each(outGrad, from, func(t int64, item *tensor.Tensor) error { return addItem(to, t, item) })
			}, err
		},
		MixesRows: ranked(outGrad),
	})
}

// itemsOf is the type of an array whose items are steps of what is in a slot.
func itemsOf(s *ops.Shapes, slot string) ops.Meta {
	m := s.In(slot)
	inner := max(0, m.LoDLevel-max(1, s.In("RankTable").LoDLevel))
	m = m.WithoutLoD()
	m.Kind, m.LoDLevel, m.Dims = program.LoDTensorArray, inner, slices.Clone(m.Dims)
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

// checkTaken checks a tensor that has the steps of the batch of the table: rows, or sequences.
func checkTaken(s *ops.Shapes, slot string) error {
	m, table := s.In(slot), s.In("RankTable")
	if err := opkit.CheckType(s, slot, m.Kind == program.LoDTensor && len(m.Dims) > 0, "a dense tensor of rank 1 or more"); err != nil {
		return err
	}
	if err := checkRank(s); err != nil || len(table.Dims) == 0 {
		return err
	}
	switch levels := max(1, table.LoDLevel); {
	case m.LoDLevel <= levels:
		if !opkit.Agree(m.Dims[0], table.Dims[0]) {
			return s.Errorf(slot, "%d rows, as the batch of the table has", table.Dims[0])
		}
	case len(m.Sequences) > levels && !opkit.Agree(m.Sequences[levels], table.Dims[0]):
		return s.Errorf(slot, "%d sequences in LoD level %d, as the batch of the table has", table.Dims[0], levels)
	}
	return nil
}
