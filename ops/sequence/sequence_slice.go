package sequence

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sequence_slice",
		Doc:  "Cuts a piece out of each sequence: rows [Offset, Offset + Length) of it.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "numbers, of one LoD level"},
			{Name: "Offset", Doc: "int32 or int64 [sequences, 1]: the first row"},
			{Name: "Length", Doc: "as Offset: how many rows, at least 0", Decides: true}},
		Outputs:  []ops.Slot{{Name: "Out", Doc: "the rows of the pieces"}},
		Infer:    inferSequenceSlice,
		MakesLoD: always,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool {
			return !divided("X") || !divided("Length") || !divided("Offset")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindElements("X", bindSlice[float32], bindSlice[float64], bindSlice[int32], bindSlice[int64],
			bindSlice[bool]),
	}, opkit.Gradient{
		Doc:    "dX is dOut in the rows of the pieces, 0 elsewhere.",
		Inputs: []string{"X", "Offset", "Length"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindSliceGrad[float32], bindSliceGrad[float64]),
	})

	ops.Register(ops.Def{
		Type:     "sequence_erase",
		Doc:      "Leaves out the rows of X whose number is one of tokens.",
		Inputs:   []ops.Slot{{Name: "X", Doc: "int32 or int64 [rows, 1], with a LoD", Decides: true}},
		Outputs:  []ops.Slot{{Name: "Out", Doc: "the other rows"}},
		Attrs:    []ops.Attr{{Name: "tokens", Doc: "numbers to leave out", Kind: []int32(nil)}},
		Infer:    inferSequenceErase,
		MakesLoD: always,
		Cost:     opkit.PerElement(1),
		Bind:     opkit.BindNumbers("X", refuseFloats, refuseFloats, bindErase[int32], bindErase[int64]),
	})

	opkit.Register(ops.Def{
		Type:    "sequence_reverse",
		Doc:     "Turns the rows of each sequence of the innermost LoD level around.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers, with a LoD"}},
		Outputs: []ops.Slot{{Name: "Y", Doc: "as X"}},
		Infer: func(s *ops.Shapes) error {
			if len(s.In("X").Dims) == 0 {
				return s.Errorf("X", "rank 1 or more")
			}
			_, err := s.CountSequences("X")
			s.Like("Y", "X")
			return err
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindElements("X", bindReverse[float32]("X", "X", "Y"), bindReverse[float64]("X", "X", "Y"), bindReverse[int32]("X", "X", "Y"),
			bindReverse[int64]("X", "X", "Y"), bindReverse[bool]("X", "X", "Y")),
	}, opkit.Gradient{
		Doc:    "dX is dY, turned around.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindReverse[float32]("X", "Y@GRAD", "X@GRAD"), bindReverse[float64]("X", "Y@GRAD", "X@GRAD")),
	})
}

// checkCounts checks that a slot holds one whole number for each sequence of another slot.
func checkCounts(s *ops.Shapes, slot string, sequences int64) error {
	m := s.In(slot)
	if err := opkit.CheckType(s, slot, m.DType == tensor.Int32 || m.DType == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	if !ops.Compatible(m.Dims, []int64{sequences, 1}) && !ops.Compatible(m.Dims, []int64{sequences}) {
		return s.Errorf(slot, "a number for each sequence, dims [%d, 1]", sequences)
	}
	return nil
}

func inferSequenceSlice(s *ops.Shapes) error {
	x := s.In("X")
	sequences, err := s.CountSequences("X")
	if err != nil {
		return err
	}
	if x.LoDLevel != 1 || len(x.Dims) == 0 {
		return s.Errorf("X", "one LoD level, not %d", x.LoDLevel)
	}
	for _, slot := range []string{"Offset", "Length"} {
		if err := checkCounts(s, slot, sequences); err != nil {
			return err
		}
	}
	rows, lod := int64(program.Unknown), [][]int64(nil)
	if lengths := ops.Decide(s, "Length"); lengths != nil {
		if err := checkLengths(s, "Length", lengths, x.Dims[0]); err != nil {
			return err
		}
		offsets := offsetsOf(lengths)
		rows, lod = offsets[len(lengths)], [][]int64{offsets}
	}
	s.Set("Out", x.DType, withRows(rows, x.Dims)...)
	ops.MakeLoD(s, "Out", "", 1, lod)
	return nil
}

// checkLengths checks that lengths are at least 0, and none above most, if that is known.
func checkLengths(s *ops.Shapes, slot string, lengths []int64, most int64) error {
	for i, n := range lengths {
		if n < 0 || most != program.Unknown && n > most {
			return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Var(s.Op().In(slot)), fault.Gotf("length %d of sequence %d", n, i),
				fault.Wantf("0 to %d", most))
		}
	}
	return nil
}

// integer returns element i of a tensor of int32 or int64.
func integer(t *tensor.Tensor, i int) int64 {
	if t.DType() == tensor.Int32 {
		return int64(t.Int32s()[i])
	}
	return t.Int64s()[i]
}

// pieces is the picker of sequence_slice.
func pieces(b *ops.Binding) picker {
	x, begin, length := batchIn(b, "X"), b.In("Offset"), b.In("Length")
	return func(rows []int64) error {
		offsets, err := x.offsets()
		if err != nil {
			return err
		}
		n := 0
		for i := range x.n {
			from, count := integer(begin, i), integer(length, i)
			if size := offsets[i+1] - offsets[i]; from < 0 || count < 0 || from > size || count > size-from {
				return fault.E(fault.InvalidArgument, fault.On(x.op), fault.Var(x.op.In("Offset")), fault.Gotf("%d rows from row %d on of sequence %d", count, from, i),
					fault.Wantf("rows of the %d that it has", size))
			}
			for j := range count {
				if n < len(rows) {
					rows[n] = offsets[i] + from + j
				}
				n++
			}
		}
		if n != len(rows) {
			return otherRows(x.op, n, len(rows))
		}
		return nil
	}
}

func bindSlice[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	return bindPick[T](b, b.In("X"), b.Out("Out"), nil, width(b.In("X"), 1), pieces(b))
}

func bindSliceGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return bindUnpick[T](b, b.In("Out@GRAD"), b.Out("X@GRAD"), width(b.In("X"), 1), pieces(b))
}

func inferSequenceErase(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType == tensor.Int32 || x.DType == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	if _, err := s.CountSequences("X"); err != nil {
		return err
	}
	if len(x.Dims) == 0 || !ops.Compatible(x.Dims[1:], ones(len(x.Dims)-1)) {
		return s.Errorf("X", "one number in each row")
	}
	rows, lod := int64(program.Unknown), [][]int64(nil)
	if values, offsets := ops.Decide(s, "X"), ops.Offsets(s, "X", x.LoDLevel-1); values != nil && offsets != nil {
		lengths := make([]int64, len(offsets)-1)
		for i := range lengths {
			for _, v := range values[offsets[i]:offsets[i+1]] {
				if !slices.Contains(s.Ints("tokens"), v) {
					lengths[i]++
				}
			}
		}
		kept := offsetsOf(lengths)
		rows, lod = kept[len(lengths)], append(slices.Clone(x.LoD[:x.LoDLevel-1]), kept)
	}
	s.Set("Out", x.DType, withRows(rows, x.Dims)...)
	ops.MakeLoD(s, "Out", "", x.LoDLevel, lod)
	return nil
}

func refuseFloats(b *ops.Binding) (ops.Kernel, error) {
	return nil, fault.E(fault.TypeMismatch, fault.On(b.Op()), fault.Got("floats"), fault.Want("int32 or int64"))
}

func bindErase[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	op, x, out, tokens := b.Op(), b.In("X"), b.Out("Out"), b.Ints("tokens")
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		n, kept := 0, tensor.Data[T](out)
		for _, v := range tensor.Data[T](x) {
			if slices.Contains(tokens, int64(v)) {
				continue
			}
			if n < len(kept) {
				kept[n] = v
			}
			n++
		}
		if n != len(kept) {
			return otherRows(op, n, len(kept))
		}
		return nil
	}})
}

func bindReverse[T tensor.Element](lod, from, to string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, source, target := batchIn(b, lod), b.In(from), b.Out(to)
		columns := width(x.value, 1) // a gradient of one element may have the dims []
		return b.Loops(x.each(func(_, first, end int) {
			for i := first; i < end; i++ {
				copy(row(tensor.Data[T](target), first+end-1-i, columns), row(tensor.Data[T](source), i, columns))
			}
		}))
	}
}
