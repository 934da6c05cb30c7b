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

// A mask divides the rows of a batch, or its sequences, in two halves, so that a network can compute with each half in another way (layers.IfElse):
//
//	x [rows] --split_lod_tensor--> true half, false half --two blocks--> results of the halves --merge_lod_tensor--> result [rows], in the order of x

func init() {
	mask := ops.Slot{Name: "Mask", Doc: "bool [N, 1]: one for each row of X, or for each sequence"}
	level := ops.Attr{Name: "level", Doc: "the LoD level of what is divided: 0", Default: int32(0), Check: func(op *program.Op) error {
		if n, _ := op.Int("level"); n != 0 {
			return fault.E(fault.Unsupported, fault.Want("0"))
		}
		return nil
	}}
	ops.Register(ops.Def{
		Type:    "split_lod_tensor",
		Class:   ops.Control,
		Doc:     "Divides the rows of X: OutTrue has those where Mask is true, and OutFalse the others, in their order. If X has a LoD, its sequences are divided.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "rows, or sequences of at most one level"}, mask},
		Outputs: []ops.Slot{{Name: "OutTrue", Doc: "rows of X", Dispensable: true}, {Name: "OutFalse", Doc: "rows of X", Dispensable: true}},
		Attrs:   []ops.Attr{level},
		Infer: func(s *ops.Shapes) error {
			if err := checkHalf(s, "X"); err != nil {
				return err
			}
			m := s.In("X")
			for _, slot := range []string{"OutTrue", "OutFalse"} {
				s.Set(slot, m.DType, append([]int64{program.Unknown}, m.Dims[1:]...)...)
				if m.LoDLevel > 0 {
					ops.MakeLoD(s, slot, "", m.LoDLevel, nil)
				}
			}
			return checkMask(s)
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("merge_lod_tensor")
			op.Inputs["X"], op.Inputs["Mask"], op.Inputs["InTrue"], op.Inputs["InFalse"] = g.In("X"), g.In("Mask"), g.OutGrad("OutTrue"), g.OutGrad("OutFalse")
			op.Outputs["Out"] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind:      bindSplitHalves,
		MixesRows: opkit.Mixes,
	})
	merge := ops.Def{
		Type:  "merge_lod_tensor",
		Class: ops.Control,
		Doc: "Puts the halves of a batch together: Out has the next row, or sequence, of InTrue where Mask is true, and else that of InFalse. Rows of a half that is " +
			"left out are 0.",
		Inputs: []ops.Slot{{Name: "X", Doc: "a tensor with the rows of the batch, or its sequences; only these count"}, mask,
			{Name: "InTrue", Doc: "the half where Mask is true", Dispensable: true}, {Name: "InFalse", Doc: "the other half", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "rows, or sequences, of both halves"}},
		Attrs:   []ops.Attr{level},
		Infer:   inferMergeHalves,
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("split_lod_tensor")
			op.Inputs["X"], op.Inputs["Mask"] = g.OutGrad("Out"), g.In("Mask")
			op.Outputs["OutTrue"], op.Outputs["OutFalse"] = g.InGrad("InTrue"), g.InGrad("InFalse")
			return []*program.Op{op}, nil
		},
		Bind:      bindMergeHalves,
		MixesRows: opkit.Mixes,
	}
	ops.Register(merge)
	merge.Type, merge.Gradient = "merge_lod_tensor_infer", nil
	merge.Exempt = onlyInfers
	ops.Register(merge)
}

// checkHalf checks a tensor whose rows or sequences are divided.
func checkHalf(s *ops.Shapes, slot string) error {
	m := s.In(slot)
	if err := opkit.CheckType(s, slot, m.Kind == program.LoDTensor && len(m.Dims) > 0, "a dense tensor of rank 1 or more"); err != nil {
		return err
	}
	if m.LoDLevel > 1 {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In(slot)), fault.Gotf("%d LoD levels", m.LoDLevel), fault.Want("at most one"))
	}
	return nil
}

func checkMask(s *ops.Shapes) error {
	m := s.In("Mask")
	return opkit.CheckType(s, "Mask", m.Kind == program.LoDTensor && m.DType == tensor.Bool, "bool")
}

func inferMergeHalves(s *ops.Shapes) error {
	x, given := s.In("X"), "InTrue"
	if !s.Has(given) {
		given = "InFalse"
	}
	if !s.Has(given) {
		return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("no half"), fault.Want("InTrue or InFalse"))
	}
	for _, slot := range []string{"InTrue", "InFalse"} {
		if !s.Has(slot) {
			continue
		}
		if err := checkHalf(s, slot); err != nil {
			return err
		}
		if m := s.In(slot); m.DType != s.In(given).DType || !ops.Compatible(m.Dims[1:], s.In(given).Dims[1:]) {
			return s.Errorf(slot, "rows %v, as %s has", s.In(given), given)
		}
	}
	if err := checkHalf(s, "X"); err != nil {
		return err
	}
	m := s.In(given)
	switch {
	case m.LoDLevel == x.LoDLevel:
		s.Set("Out", m.DType, append([]int64{x.Dims[0]}, m.Dims[1:]...)...)
		s.ShareLoD("Out", "X")
	case m.LoDLevel == 0:
		rows := int64(program.Unknown)
		if len(x.Sequences) > 0 {
			rows = x.Sequences[0]
		}
		s.Set("Out", m.DType, append([]int64{rows}, m.Dims[1:]...)...)
	default:
		s.Set("Out", m.DType, append([]int64{program.Unknown}, m.Dims[1:]...)...)
		ops.MakeLoD(s, "Out", "", m.LoDLevel, nil)
	}
	return checkMask(s)
}

// A half is the rows or the sequences of a tensor, one after the other.
type half struct {
	t    *tensor.Tensor // nil for one that is left out
	next int64
}

// item returns the rows of item i.
func item(t *tensor.Tensor, i int64) (first, n int64) {
	if lod := t.LoD(); len(lod) > 0 {
		return lod[0][i], lod[0][i+1] - lod[0][i]
	}
	return i, 1
}

// items counts the rows, or the sequences of a tensor that has a LoD.
func items(t *tensor.Tensor) (int64, error) {
	if lod := t.LoD(); len(lod) > 0 {
		return int64(len(lod[0])) - 1, tensor.CheckLoD(t)
	}
	return t.Dims()[0], nil
}

// countMask counts the true elements of a mask of n.
func countMask(b *ops.Binding, mask *tensor.Tensor, n int64) (yes int64, err error) {
	if int64(mask.Len()) != n {
		return 0, fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("Mask")), fault.Gotf("%v", mask.Dims()), fault.Wantf("[%d, 1]: one for each row or sequence", n))
	}
	for _, m := range mask.Bools() {
		if m {
			yes++
		}
	}
	return yes, nil
}

func bindSplitHalves(b *ops.Binding) (ops.Kernel, error) {
	x, mask := b.In("X"), b.In("Mask")
	outs := [2]*tensor.Tensor{b.Out("OutFalse"), b.Out("OutTrue")}
	var offsets [2][]int64
	var dims []int64
	var lod [1][]int64
	return func(context.Context) error {
		n, err := items(x)
		if err != nil {
			return err
		}
		if _, err := countMask(b, mask, n); err != nil {
			return err
		}
		for k := range offsets {
			offsets[k] = append(offsets[k][:0], 0)
		}
		for i, yes := range mask.Bools() {
			_, rows := item(x, int64(i))
			o := &offsets[side(yes)]
			*o = append(*o, (*o)[len(*o)-1]+rows)
		}
		for k, out := range outs {
			if out == nil {
				continue
			}
			dims = append(dims[:0], x.Dims()...)
			dims[0] = offsets[k][len(offsets[k])-1]
			if err := tensor.Resize(out, x.DType(), dims...); err != nil {
				return err
			}
			at := int64(0)
			for i, yes := range mask.Bools() {
				if side(yes) == k {
					first, rows := item(x, int64(i))
					copyRows(out, at, x, first, rows)
					at += rows
				}
			}
			if len(x.LoD()) > 0 {
				lod[0] = offsets[k]
				tensor.CopyLoD(out, lod[:])
			}
		}
		return nil
	}, nil
}

// side numbers the halves: 0 for false, 1 for true.
func side(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func bindMergeHalves(b *ops.Binding) (ops.Kernel, error) {
	x, mask, out := b.In("X"), b.In("Mask"), b.Out("Out")
	var halves [2]half
	for k, slot := range []string{"InFalse", "InTrue"} {
		if names := b.Op().Inputs[slot]; len(names) > 0 && names[0] != program.Empty {
			halves[k].t = b.In(slot)
		}
	}
	like := halves[1].t
	if like == nil {
		like = halves[0].t
	}
	var offsets, dims []int64
	var lod [1][]int64
	return func(context.Context) error {
		if out == nil {
			return nil
		}
		yes, err := countMask(b, mask, int64(mask.Len()))
		if err != nil {
			return err
		}
		sequences := len(like.LoD()) > 0
		if n, err := items(x); err != nil || sequences == (len(x.LoD()) > 0) && n != int64(mask.Len()) {
			return cmpErr(err, fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("X")), fault.Gotf("%d rows or sequences", n), fault.Wantf("%d, as Mask has", mask.Len())))
		}
		counts := [2]int64{int64(mask.Len()) - yes, yes}
		for k := range halves {
			h := &halves[k]
			h.next = 0
			if h.t == nil {
				continue
			}
			if n, err := items(h.t); err != nil || n != counts[k] || h.t.DType() != like.DType() || !slices.Equal(h.t.Dims()[1:], like.Dims()[1:]) || sequences != (len(h.t.LoD()) > 0) {
				return cmpErr(err, fault.E(fault.ShapeMismatch, fault.Var(b.Op().In([]string{"InFalse", "InTrue"}[k])), fault.Gotf("%d rows or sequences of %v%v", n, h.t.DType(), h.t.Dims()),
					fault.Wantf("%d, like those of the other half: %v%v", counts[k], like.DType(), like.Dims())))
			}
		}
		offsets = append(offsets[:0], 0)
		missing := false
		for i, yes := range mask.Bools() {
			h, rows := &halves[side(yes)], int64(1)
			switch {
			case h.t != nil:
				_, rows = item(h.t, h.next)
				h.next++
			case sequences:
				missing = true
				if len(x.LoD()) == 0 {
					return fault.E(fault.InvalidProgram, fault.Var(b.Op().In("X")), fault.Got("no LoD"), fault.Want("the sequences of a half that is left out"))
				}
				_, rows = item(x, int64(i))
			default:
				missing = true
			}
			offsets = append(offsets, offsets[len(offsets)-1]+rows)
		}
		dims = append(dims[:0], like.Dims()...)
		dims[0] = offsets[len(offsets)-1]
		if err := tensor.Resize(out, like.DType(), dims...); err != nil {
			return err
		}
		if missing {
			tensor.Zero(out)
		}
		halves[0].next, halves[1].next = 0, 0
		for i, yes := range mask.Bools() {
			if h := &halves[side(yes)]; h.t != nil {
				first, rows := item(h.t, h.next)
				copyRows(out, offsets[i], h.t, first, rows)
				h.next++
			}
		}
		if sequences {
			lod[0] = offsets
			tensor.CopyLoD(out, lod[:])
		}
		return nil
	}, nil
}
