package sequence

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "warpctc",
		Doc: "The loss of connectionist temporal classification (Graves et al. 2006): -log of the probability that the frames of a sequence read as its labels, over all ways to lay them " +
			"over the frames with blanks between. Classes of a frame have the probabilities softmax(Logits). A sequence with too few frames for its labels costs 0.",
		Inputs: []ops.Slot{
			{Name: "Logits", Doc: "float [frames, classes], sequences of one LoD level; or [longest, sequences, classes] with LogitsLength"},
			{Name: "Label", Doc: "int32 [labels, 1], as many sequences of one LoD level; or [sequences, longest] with LabelLength"},
			{Name: "LogitsLength", Doc: "int64 [sequences], the frames of each sequence that count", Dispensable: true},
			{Name: "LabelLength", Doc: "int64 [sequences], the labels of each sequence that count", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Loss", Doc: "[sequences, 1]"},
			{Name: "WarpCTCGrad", Doc: "of the dims of Logits: the gradient of Loss by Logits. The rows stand as in Logits, where Fluid sorts them by step", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "blank", Doc: "the class that is no label", Default: int32(0)},
			{Name: "norm_by_times", Doc: "whether the gradient of a sequence, but not its loss, is divided by the number of its frames", Default: false}},
		Infer:     inferCTC,
		MixesRows: mixesCTC,
		Cost:      opkit.PerElement(60),
		Bind:      opkit.BindFloats("Logits", bindCTC[float32], bindCTC[float64]),
	}, opkit.Gradient{
		Doc:     "dLogits = WarpCTCGrad times dLoss of the sequence, and with norm_by_times over the number of its frames.",
		Inputs:  []string{"Logits", "Label", "LogitsLength", "LabelLength"},
		Outputs: []string{"WarpCTCGrad"},
		Wrt:     []string{"Logits"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Logits", bindCTCGrad[float32], bindCTCGrad[float64]),
	})
}

// mixesCTC refuses padded sequences, whose batch is not the first axis of Logits.
func mixesCTC(s *ops.Shapes, divided func(string) bool) bool {
	return s.Has("LogitsLength") || opkit.MixesUnlike(s, divided)
}

func inferCTC(s *ops.Shapes) error {
	if err := s.IsFloat("Logits"); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	padded := s.Has("LogitsLength")
	if padded != s.Has("LabelLength") {
		return s.Errorf("Logits", "both LogitsLength and LabelLength, or none")
	}
	x, label := s.In("Logits"), s.In("Label")
	rank := 2
	if padded {
		rank = 3
	}
	if err := s.Rank("Logits", rank); err != nil {
		return err
	}
	classes := x.Dims[rank-1]
	if blank := s.Int("blank"); blank < 0 || classes >= 0 && blank >= classes {
		return opkit.BadAttr(s, "blank", "a class of Logits %v", x.Dims)
	}
	n := int64(program.Unknown)
	if padded {
		if n = x.Dims[1]; len(label.Dims) != 2 || !opkit.Agree(label.Dims[0], n) {
			return s.Errorf("Label", "dims [sequences, longest] for Logits %v", x.Dims)
		}
		for _, slot := range []string{"LogitsLength", "LabelLength"} {
			if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
				return err
			}
			if d := s.In(slot).Dims; len(d) < 1 || !opkit.Agree(d[0], n) || !ops.Compatible(d[1:], ones(len(d)-1)) {
				return s.Errorf(slot, "one number for each sequence of Logits %v", x.Dims)
			}
		}
	} else {
		for _, slot := range []string{"Logits", "Label"} {
			counted, err := s.CountSequences(slot)
			if err != nil {
				return err
			}
			if s.In(slot).LoDLevel != 1 || !opkit.Agree(n, counted) {
				return s.Errorf(slot, "%d sequences of one LoD level, as in Logits", n)
			}
			n = max(n, counted)
		}
		if len(label.Dims) < 1 || !ops.Compatible(label.Dims[1:], ones(len(label.Dims)-1)) {
			return s.Errorf("Label", "one column")
		}
	}
	s.Set("Loss", x.DType, n, 1)
	s.Like("WarpCTCGrad", "Logits")
	if !padded {
		s.PoolLoD("Loss", "Logits")
	}
	return nil
}

// A frames is the bound Logits of a ctc loss.
type frames struct {
	spans
	n, classes, longest int
}

// framesIn binds Logits. longest is the largest number of frames of a sequence.
func framesIn(b *ops.Binding) frames {
	x := b.In("Logits")
	dims := x.Dims()
	if length := b.In("LogitsLength"); length != nil {
		f := frames{spans{batch: batch{op: b.Op(), slot: "Logits", value: x}, length: length, counted: "LogitsLength", longest: int(dims[0])}, int(dims[1]), int(dims[2]), int(dims[0])}
		return f
	}
	s := spansIn(b, "Logits", "LogitsLength")
	return frames{s, s.batch.n, int(dims[1]), int(dims[0])}
}

// frame returns where the logits of the first frame of a sequence are, how far those of the next one are, and how many frames there are.
func (f *frames) frame(starts []int64, sequence int) (first, stride, count int, err error) {
	from, to, err := f.span(starts, sequence)
	if f.length != nil {
		return sequence * f.classes, f.n * f.classes, to - from, err
	}
	return from * f.classes, f.classes, to - from, err
}

func bindCTC[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, f, labels := b.Op(), framesIn(b), spansIn(b, "Label", "LabelLength")
	if f.n != labels.n {
		return nil, fault.E(fault.ShapeMismatch, fault.On(op), fault.Var(op.In("Label")), fault.Gotf("%d sequences", labels.n), fault.Wantf("%d, as in Logits", f.n))
	}
	parts := make([]kernel.CTC, b.Parts())
	for i := range parts {
		parts[i] = kernel.CTC{Classes: f.classes, Blank: int(b.Int("blank"))}
	}
	loss, gradient := orScratch[T](b, "Loss", f.n), orScratch[T](b, "WarpCTCGrad", f.value.Len())
	slots := []string{"Logits", "Label", "LogitsLength", "LabelLength"}
	return b.Loops(ops.Loop{N: f.n, Apart: true, Whole: slots, Run: func(part, first, end int) error {
		starts, err := f.starts()
		if err != nil {
			return err
		}
		labelStarts, err := labels.starts()
		if err != nil {
			return err
		}
		c := &parts[part]
		for i := first; i < end; i++ {
			at, stride, count, err := f.frame(starts, i)
			if err != nil {
				return err
			}
			from, to, err := labels.span(labelStarts, i)
			if err != nil {
				return err
			}
			own := labels.value.Int32s()[from:to]
			for k, l := range own {
				if l < 0 || int(l) >= c.Classes || int(l) == c.Blank {
					return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Label")), fault.Gotf("label %d in row %d", l, from+k),
						fault.Wantf("a class of Logits, 0 to %d, but for the blank %d", c.Classes-1, c.Blank))
				}
			}
			dx := tensor.Data[T](gradient)
			if f.length != nil {
				for t := count; t < f.longest; t++ {
					clear(dx[at+t*stride:][:f.classes]) // frames that do not count
				}
			}
			tensor.Data[T](loss)[i] = T(kernel.CTCLoss(c, dx[min(at, len(dx)):], tensor.Data[T](f.value)[min(at, len(dx)):], count, stride, own))
		}
		return nil
	}})
}

func bindCTCGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	f, kept, dloss, dx, normed := framesIn(b), b.In("WarpCTCGrad"), b.In("Loss@GRAD"), b.Out("Logits@GRAD"), b.Bool("norm_by_times")
	if f.n != dloss.Len() {
		return nil, fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("%d gradients of losses", dloss.Len()), fault.Wantf("%d, one for each sequence", f.n))
	}
	return b.Loops(ops.Loop{N: f.n, Apart: true, Run: func(_, first, end int) error {
		starts, err := f.starts()
		if err != nil {
			return err
		}
		for i := first; i < end; i++ {
			at, stride, count, err := f.frame(starts, i)
			if err != nil {
				return err
			}
			weight := tensor.Data[T](dloss)[i]
			if normed && count > 0 {
				weight /= T(count)
			}
			rows := count
			if f.length != nil {
				rows = f.longest
			}
			for t := range rows {
				kernel.Scale(tensor.Data[T](dx)[at+t*stride:][:f.classes], tensor.Data[T](kept)[at+t*stride:][:f.classes], weight, 0, true)
			}
		}
		return nil
	}})
}
