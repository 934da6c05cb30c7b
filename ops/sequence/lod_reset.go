package sequence

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "lod_reset",
		Doc:  "Gives the rows of X another LoD: that of Y; or offsets, which are the integers of Y if it has no LoD, or target_lod.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "any"},
			{Name: "Y", Doc: "with a LoD for as many rows as X, or int32 or int64 offsets from 0 to the rows of X", Dispensable: true, Decides: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the elements of X"}},
		Attrs: []ops.Attr{
			{Name: "target_lod", Doc: "offsets, if there is no Y", Default: []int32{}},
			{Name: "append", Doc: "whether the offsets become another level, below those of X", Default: false}},
		Infer: inferLoDReset,
		MakesLoD: func(op *program.Op) bool {
			appends, _ := op.Bool("append")
			return appends || len(op.Inputs["Y"]) > 0
		},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return s.In("Y").LoDLevel == 0 || divided("X") != divided("Y")
		},
		Bind:    bindSameRows("X", "Out"),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = dOut.",
		Inputs:  []string{"X", "Y"},
		Wrt:     []string{"X"},
		Bind:    bindSameRows("Out@GRAD", "X@GRAD"),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	})
	opkit.Register(ops.Def{
		Type:    "sequence_reshape",
		Doc:     "Divides the elements of each sequence of X into rows of new_dim elements.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers [rows, columns], of one LoD level"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows*columns/new_dim, new_dim]"}},
		Attrs:   []ops.Attr{{Name: "new_dim", Doc: "columns of Out; it divides the elements of each sequence", Kind: int32(0)}},
		Infer:   inferSequenceReshape,

		MakesLoD: always,
		Bind:     bindSameRows("X", "Out"),
		InPlace:  map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX is dOut in the rows of X.",
		Inputs:  []string{"X"},
		Wrt:     []string{"X"},
		Bind:    bindSameRows("Out@GRAD", "X@GRAD"),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	})
}

func inferLoDReset(s *ops.Shapes) error {
	x := s.In("X")
	if len(x.Dims) == 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	s.Set("Out", x.DType, x.Dims...)
	if y := s.In("Y"); s.Has("Y") && y.LoDLevel > 0 {
		if len(y.Dims) == 0 || !opkit.Agree(x.Dims[0], y.Dims[0]) {
			return s.Errorf("X", "as many rows as Y %v, whose LoD it gets", y.Dims)
		}
		s.ShareLoD("Out", "Y")
		return nil
	}
	offsets, of := s.Ints("target_lod"), ""
	if s.Has("Y") {
		if err := opkit.CheckType(s, "Y", s.In("Y").DType == tensor.Int32 || s.In("Y").DType == tensor.Int64, "a LoD, or int32 or int64 offsets"); err != nil {
			return err
		}
		offsets = slices.Clone(ops.Decide(s, "Y"))
	} else {
		of = fmt.Sprint(offsets)
	}
	levels, lod := 1, [][]int64(nil)
	if s.Bool("append") {
		levels, of = x.LoDLevel+1, ""
		lod = slices.Clone(x.LoD)
	}
	if offsets == nil && s.Has("Y") || len(lod) != levels-1 {
		ops.MakeLoD(s, "Out", of, levels, nil)
		return nil
	}
	if err := checkOffsets(s, offsets, x.Dims[0]); err != nil {
		return err
	}
	if levels > 1 && lod[levels-2][len(lod[levels-2])-1] != int64(len(offsets)-1) {
		return s.Errorf("X", "a sequence of the innermost level for each row of it, because append adds a level below")
	}
	if lod = append(lod, offsets); x.Dims[0] == program.Unknown {
		lod = nil // how many rows there are is not known yet
	}
	ops.MakeLoD(s, "Out", of, levels, lod)
	return nil
}

// checkOffsets checks that offsets divide rows into sequences.
func checkOffsets(s *ops.Shapes, offsets []int64, rows int64) error {
	if n := len(offsets); n < 2 || offsets[0] != 0 || !slices.IsSorted(offsets) || !opkit.Agree(offsets[n-1], rows) {
		return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Gotf("offsets %v", offsets), fault.Wantf("rising from 0 to %d, the rows of X", rows))
	}
	return nil
}

func inferSequenceReshape(s *ops.Shapes) error {
	x, columns := s.In("X"), s.Int("new_dim")
	if err := s.Rank("X", 2); err != nil {
		return err
	}
	if _, err := s.CountSequences("X"); err != nil {
		return err
	}
	if x.LoDLevel != 1 {
		return s.Errorf("X", "one LoD level, not %d", x.LoDLevel)
	}
	if columns < 1 {
		return opkit.BadAttr(s, "new_dim", "at least 1")
	}
	rows, elements := int64(program.Unknown), ops.Product(x.Dims)
	if elements != program.Unknown {
		rows = elements / columns
	}
	var lod [][]int64
	if offsets := ops.Offsets(s, "X", 0); offsets != nil && x.Dims[1] != program.Unknown {
		divided := make([]int64, len(offsets))
		for i, at := range offsets {
			if at*x.Dims[1]%columns != 0 {
				return opkit.BadAttr(s, "new_dim", "a divisor of the elements of each sequence, not as for sequence %d of %d rows", i-1, at-offsets[max(0, i-1)])
			}
			divided[i] = at * x.Dims[1] / columns
		}
		lod = [][]int64{divided}
	} else if elements != program.Unknown && elements%columns != 0 {
		return opkit.BadAttr(s, "new_dim", "a divisor of the %d elements of X", elements)
	}
	s.Set("Out", x.DType, rows, columns)
	of := ""
	if x.LoDOf != "" {
		of = fmt.Sprintf("%s, %d to %d", x.LoDOf, x.Dims[1], columns)
	}
	ops.MakeLoD(s, "Out", of, 1, lod)
	return nil
}

// bindSameRows copies the elements of one slot to another.
func bindSameRows(from, to string) opkit.Binder {
	return opkit.BindElements(from, bindSame[float32](from, to), bindSame[float64](from, to), bindSame[int32](from, to), bindSame[int64](from, to),
		bindSame[bool](from, to))
}

func bindSame[T tensor.Element](fromSlot, toSlot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		from, to := b.In(fromSlot), b.Out(toSlot)
		return b.Loops(ops.Loop{N: from.Len(), Reads: []string{fromSlot}, Writes: []string{toSlot}, Copies: true, Run: func(_, first, end int) error {
			if x, out := tensor.Data[T](from)[first:end], tensor.Data[T](to)[first:end]; len(x) > 0 && &x[0] != &out[0] {
				copy(out, x)
			}
			return nil
		}})
	}
}
