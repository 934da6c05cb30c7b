package sequence

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sequence_pad",
		Doc:  "Makes the sequences of X equally long, padded_length rows each or as many as the longest has: PadValue follows the rows of each.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "numbers, rank 2 or more, of one LoD level"},
			{Name: "PadValue", Doc: "one number, or a row of X"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[sequences, length, ...] with the other dims of X"},
			{Name: "Length", Doc: "int64 [sequences]: how many rows each has in X"}},
		Attrs: []ops.Attr{{Name: "padded_length", Doc: "at least the length of the longest sequence; -1 for it", Default: int32(-1)}},
		Infer: inferSequencePad,
		MakesLoD: func(op *program.Op) bool {
			n, given := op.Int("padded_length")
			return !given || n < 0
		},
		MixesRows: opkit.RowsOnlyIn("X"),
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindElements("X", bindPad[float32], bindPad[float64], bindPad[int32], bindPad[int64], bindPad[bool]),
	}, opkit.Gradient{
		Doc:    "dX is dOut in the rows of X.",
		Inputs: []string{"X", "PadValue"},
		From:   []string{"Out"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindPadGrad[float32], bindPadGrad[float64]),
	})

	opkit.Register(ops.Def{
		Type: "sequence_unpad",
		Doc:  "Makes sequences of the first Length rows of each X[i].",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "numbers [sequences, length, ...], without LoD"},
			{Name: "Length", Doc: "int32 or int64 [sequences], at most the length", Decides: true}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "[rows, ...] with the other dims of X, or [rows, 1]; of one LoD level"}},
		Infer:     inferSequenceUnpad,
		MakesLoD:  always,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return !divided("X") || !divided("Length") },
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindElements("X", bindUnpad[float32], bindUnpad[float64], bindUnpad[int32], bindUnpad[int64], bindUnpad[bool]),
	}, opkit.Gradient{
		Doc:    "dX is dOut in the rows of the sequences, 0 in the others.",
		Inputs: []string{"X", "Length"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindUnpadGrad[float32], bindUnpadGrad[float64]),
	})

	ops.Register(ops.Def{
		Type: "sequence_mask",
		Doc:  "Says which places of padded sequences are within: Y[..., j] = 1 where j < X, else 0. With maxlen below 0 there are as many places as the largest X.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "lengths, int32 or int64", Decides: true},
			{Name: "MaxLenTensor", Doc: "gives maxlen", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Y", Doc: "dims of X, and as the last one maxlen"}},
		Attrs: []ops.Attr{
			{Name: "maxlen", Doc: "how many places; below 0, the largest X", Default: int32(-1), Tensor: "MaxLenTensor", Opens: true},
			{Name: "out_dtype", Doc: "element type of Y: bool 0, int32 2, int64 3, float32 5 or float64 6", Kind: int32(0)}},
		Infer: inferSequenceMask,
		MakesLoD: func(op *program.Op) bool {
			n, given := op.Int("maxlen")
			return (!given || n < 0) && len(op.Inputs["MaxLenTensor"]) == 0
		},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return s.Int("maxlen") < 0 || divided("MaxLenTensor")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindElements("Y", bindMask[float32](1), bindMask[float64](1), bindMask[int32](1), bindMask[int64](1),
			bindMask(true)),
	})
}

func inferSequencePad(s *ops.Shapes) error {
	x := s.In("X")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	sequences, err := s.CountSequences("X")
	if err != nil {
		return err
	}
	if x.LoDLevel != 1 {
		return s.Errorf("X", "one LoD level, not %d", x.LoDLevel)
	}
	if err := s.SameType("X", "PadValue"); err != nil {
		return err
	}
	if pad := s.In("PadValue").Dims; ops.Product(pad) != 1 && !ops.Compatible(pad, x.Dims[1:]) && !ops.Compatible(pad, []int64{1}) {
		return s.Errorf("PadValue", "one number, or dims %v", x.Dims[1:])
	}
	length, longest := s.Int("padded_length"), int64(0)
	offsets := ops.Offsets(s, "X", 0)
	for i := range max(0, len(offsets)-1) {
		longest = max(longest, offsets[i+1]-offsets[i])
	}
	switch {
	case length < -1:
		return opkit.BadAttr(s, "padded_length", "-1, or the length of the longest sequence or more")
	case length == -1 && offsets != nil:
		length = longest
	case length == -1:
		length = program.Unknown
	case length < longest:
		return opkit.BadAttr(s, "padded_length", "at least %d, the length of the longest sequence", longest)
	}
	s.Set("Out", x.DType, slices.Concat([]int64{sequences, length}, x.Dims[1:])...)
	s.Set("Length", tensor.Int64, sequences)
	if offsets == nil {
		return nil
	}
	lengths, err := tensor.New(tensor.Int64, sequences)
	if err != nil {
		return err
	}
	for i := range lengths.Int64s() {
		lengths.Int64s()[i] = offsets[i+1] - offsets[i]
	}
	s.SetValue("Length", lengths)
	return nil
}

// places is the picker of sequence_pad: place j of sequence i is row j of the sequence.
func places(x batch, length int) picker {
	return func(rows []int64) error {
		offsets, err := x.offsets()
		if err != nil {
			return err
		}
		for i := range x.n {
			from, n := offsets[i], int(offsets[i+1]-offsets[i])
			if n > length {
				return otherRows(x.op, n, length)
			}
			for j := range length {
				if rows[i*length+j] = -1; j < n {
					rows[i*length+j] = from + int64(j)
				}
			}
		}
		return nil
	}
}

func bindPad[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, lengths := batchIn(b, "X"), b.Out("Length")
	columns := width(x.value, 1)
	out := b.Out("Out")
	if out == nil {
		out = b.Scratch(tensor.Of[T](), 0)
	}
	place := func([]int64) error { return nil }
	if out.Len() > 0 {
		place = places(x, int(out.Dims()[1]))
	}
	return bindPick[T](b, x.value, out, b.In("PadValue"), columns, func(rows []int64) error {
		if lengths != nil {
			offsets, err := x.offsets()
			if err != nil {
				return err
			}
			for i := range lengths.Int64s() {
				lengths.Int64s()[i] = offsets[i+1] - offsets[i]
			}
		}
		return place(rows)
	})
}

func bindPadGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout := batchIn(b, "X"), b.In("Out@GRAD")
	return bindUnpick[T](b, dout, b.Out("X@GRAD"), width(x.value, 1), places(x, int(dout.Dims()[1])))
}

func inferSequenceUnpad(s *ops.Shapes) error {
	x := s.In("X")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	if err := checkCounts(s, "Length", x.Dims[0]); err != nil {
		return err
	}
	rows, lod := int64(program.Unknown), [][]int64(nil)
	if lengths := ops.Decide(s, "Length"); lengths != nil {
		if err := checkLengths(s, "Length", lengths, x.Dims[1]); err != nil {
			return err
		}
		offsets := offsetsOf(lengths)
		rows, lod = offsets[len(lengths)], [][]int64{offsets}
	}
	rest := x.Dims[2:]
	if len(rest) == 0 {
		rest = []int64{1}
	}
	s.Set("Out", x.DType, slices.Concat([]int64{rows}, rest)...)
	ops.MakeLoD(s, "Out", "", 1, lod)
	return nil
}

// unpadded is the picker of sequence_unpad.
func unpadded(b *ops.Binding) picker {
	op, lengths, longest := b.Op(), b.In("Length"), b.In("X").Dims()[1]
	return func(rows []int64) error {
		n := 0
		for i := range lengths.Len() {
			length := integer(lengths, i)
			if length < 0 || length > longest {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Length")), fault.Gotf("length %d of sequence %d", length, i),
					fault.Wantf("0 to %d", longest))
			}
			for j := range length {
				if n < len(rows) {
					rows[n] = int64(i)*longest + j
				}
				n++
			}
		}
		if n != len(rows) {
			return otherRows(op, n, len(rows))
		}
		return nil
	}
}

func bindUnpad[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	return bindPick[T](b, b.In("X"), b.Out("Out"), nil, width(b.In("X"), 2), unpadded(b))
}

func bindUnpadGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return bindUnpick[T](b, b.In("Out@GRAD"), b.Out("X@GRAD"), width(b.In("X"), 2), unpadded(b))
}

func inferSequenceMask(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType == tensor.Int32 || x.DType == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	dtype, err := opkit.DTypeAttr(s, "out_dtype")
	if err != nil {
		return err
	}
	length := s.Int("maxlen")
	switch {
	case length == ops.Open:
		length = program.Unknown
	case length < 0:
		length = program.Unknown
		if n, known := ops.DecideLargest(s, "X", "maxlen"); known {
			length = n
		}
	}
	if length > math.MaxInt32 {
		return s.Errorf("X", "lengths below 2^31")
	}
	s.Set("Y", dtype, slices.Concat(x.Dims, []int64{length})...)
	return nil
}

func bindMask[T tensor.Element](within T) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y := b.In("X"), b.Out("Y")
		length := int(y.Dims()[len(y.Dims())-1])
		return b.Loops(ops.Loop{N: x.Len(), Least: leastPicked, Run: func(_, from, to int) error {
			for i := from; i < to; i++ {
				places := row(tensor.Data[T](y), i, length)
				clear(places)
				for j := range int(min(max(0, integer(x, i)), int64(length))) {
					places[j] = within
				}
			}
			return nil
		}})
	}
}
