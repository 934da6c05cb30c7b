package sequence

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "ctc_align", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Makes labels of the best class of each frame, as CTC reads them: of equal neighbours the first stays, and then all blanks go. Without LoD, sequences are rows " +
			"of Input, and padding_value fills what is left of a row.",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "int32 or int64: [rows, 1] with one LoD level, or [N, frames] without LoD"},
			{Name: "InputLength", Doc: "for an Input without LoD: its type, [N, 1], the number of frames of each row", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Output", Doc: "[labels, 1], those of a sequence a sequence, which is known only when the op has run. Without any label [1, 1] with the number -1, in the last " +
				"sequence. Without LoD [N, frames]"},
			{Name: "OutputLength", Doc: "for an Input without LoD: [N, 1], the number of labels of each row", Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "blank", Doc: "the class that is no label", Default: int32(0)},
			{Name: "merge_repeated", Doc: "whether only the first of equal neighbours stays", Default: true},
			{Name: "padding_value", Doc: "what follows the labels of a row", Default: int32(0)}},
		Infer: inferCTCAlign,
		Bind:  bindCTCAlign,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return !divided("Input") || s.Has("InputLength") && !divided("InputLength")
		},
	})
}

func inferCTCAlign(s *ops.Shapes) error {
	input := s.In("Input")
	if err := opkit.CheckType(s, "Input", input.DType == tensor.Int32 || input.DType == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	if err := s.Rank("Input", 2); err != nil {
		return err
	}
	if input.LoDLevel > 0 {
		if input.LoDLevel > 1 {
			return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Input")), fault.Gotf("%d levels of LoD", input.LoDLevel), fault.Want("1"))
		}
		if !opkit.Agree(input.Dims[1], 1) {
			return s.Errorf("Input", "dims [rows, 1], as it has a LoD")
		}
		s.SetAt("Output", 0, ops.Meta{Kind: program.LoDTensor, DType: input.DType, Dims: []int64{program.Unknown, 1}, LoDLevel: 1})
		s.Set("OutputLength", input.DType, 0, 1)
		return nil
	}
	if !s.Has("InputLength") {
		return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Var(s.Op().In("Input")), fault.Got("rows without LoD and without InputLength"),
			fault.Want("one of them"), fault.Hint("declare the data with layers.LoD(1), or say how long each row is"))
	}
	if err := s.SameType("Input", "InputLength"); err != nil {
		return err
	}
	if lengths := s.In("InputLength").Dims; !ops.Compatible(lengths, []int64{input.Dims[0], 1}) {
		return s.Errorf("InputLength", "dims [%d, 1], a number for each row of Input", input.Dims[0])
	}
	s.Set("Output", input.DType, input.Dims...)
	s.Set("OutputLength", input.DType, input.Dims[0], 1)
	return nil
}

func bindCTCAlign(b *ops.Binding) (ops.Kernel, error) {
	if b.In("Input").DType() == tensor.Int64 {
		return bindLabels[int64](b)
	}
	return bindLabels[int32](b)
}

// An aligner says which frames are labels.
type aligner[T int32 | int64] struct {
	blank  int64
	merges bool
}

// labels appends the labels of the frames of a sequence to to.
func (a aligner[T]) labels(to, frames []T) []T {
	last := T(-1)
	for _, class := range frames {
		if int64(class) != a.blank && !(a.merges && class == last) {
			to = append(to, class)
		}
		last = class
	}
	return to
}

func bindLabels[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	a := aligner[T]{b.Int("blank"), b.Bool("merge_repeated")}
	input, lengths, out, counts := b.In("Input"), b.In("InputLength"), b.Out("Output"), b.Out("OutputLength")
	if len(input.LoD()) > 0 {
		return alignSequences(b, a, input, out), nil
	}
	if lengths == nil {
		return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Got("no InputLength"), fault.Want("the length of each row"))
	}
	padding := T(b.Int("padding_value"))
	var row []T
	return func(context.Context) error {
		frames := int(input.Dims()[1])
		for i, length := range tensor.Data[T](lengths) {
			if length < 0 || int64(length) > int64(frames) {
				return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("InputLength")), fault.Gotf("row %d of %d frames", i, length),
					fault.Wantf("at least 0, at most %d", frames))
			}
			row = a.labels(row[:0], tensor.Data[T](input)[i*frames:][:length])
			if counts != nil {
				tensor.Data[T](counts)[i] = T(len(row))
			}
			if out != nil {
				to := tensor.Data[T](out)[i*frames:][:frames]
				for j := copy(to, row); j < frames; j++ {
					to[j] = padding
				}
			}
		}
		return nil
	}, nil
}

// alignSequences makes the kernel for rows that form sequences.
func alignSequences[T int32 | int64](b *ops.Binding, a aligner[T], input, out *tensor.Tensor) ops.Kernel {
	var all []T
	offsets := []int64{0}
	lod, size := [][]int64{nil}, []int64{0, 1}
	return func(context.Context) error {
		if out == nil {
			return nil
		}
		if err := tensor.CheckLoD(input); err != nil {
			return fault.E(fault.KindOf(err), fault.On(b.Op()), fault.Var(b.Op().In("Input")), fault.Cause(err))
		}
		all, offsets = all[:0], offsets[:1]
		from := input.LoD()[0]
		for i := range len(from) - 1 {
			all = a.labels(all, tensor.Data[T](input)[from[i]:from[i+1]])
			offsets = append(offsets, int64(len(all)))
		}
		if len(all) == 0 && len(offsets) > 1 { // as Fluid says that there is nothing
			all = append(all, -1)
			offsets[len(offsets)-1] = 1
		}
		size[0], lod[0] = int64(len(all)), offsets
		if err := tensor.Resize(out, input.DType(), size...); err != nil {
			return err
		}
		copy(tensor.Data[T](out), all)
		tensor.CopyLoD(out, lod)
		return nil
	}
}
