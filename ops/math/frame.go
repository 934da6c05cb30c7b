package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostFrame bounds lengths of frames and the steps between them, so that their products do not overflow.
const mostFrame = 1 << 30

func init() {
	axis := ops.Attr{Name: "axis", Doc: "-1: samples lie along the last axis, and frames after them; 0: along the first, and frames before them", Default: int32(-1)}
	hop := ops.Attr{Name: "hop_length", Doc: "samples from the begin of a frame to that of the next, at least 1", Kind: int32(0)}
	opkit.Register(ops.Def{
		Type:    "frame",
		Doc:     "Cuts signals into frames that may overlap: frame n has the frame_length samples from n*hop_length on. Samples that fill no frame are left out.",
		Inputs:  in("X", "numbers [..., samples], or with axis 0 [samples, ...]"),
		Outputs: out("Out", "[..., frame_length, frames], or with axis 0 [frames, frame_length, ...]"),
		Attrs:   []ops.Attr{{Name: "frame_length", Doc: "samples of a frame, 1 to all", Kind: int32(0)}, hop, axis},
		Infer:   inferFrame,
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool {
			return s.Int("axis") == 0 || len(s.In("X").Dims) == 1
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindNumbers("X", bindFrame[float32]("X", "Out"), bindFrame[float64]("X", "Out"), bindFrame[int32]("X", "Out"), bindFrame[int64]("X", "Out")),
	}, opkit.Gradient{
		Doc: "dX sums dOut of all frames that have the sample.", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindOverlap[float32]("Out@GRAD", "X@GRAD"), bindOverlap[float64]("Out@GRAD", "X@GRAD")),
	})
	opkit.Register(ops.Def{
		Type:    "overlap_add",
		Doc:     "Puts signals together from frames that may overlap: sample i is the sum of all frames at it, of which frame n begins at n*hop_length.",
		Inputs:  in("X", "numbers [..., frame length, frames], or with axis 0 [frames, frame length, ...]"),
		Outputs: out("Out", "[..., samples], or with axis 0 [samples, ...]: (frames-1)*hop_length + frame length samples"),
		Attrs:   []ops.Attr{hop, axis},
		Infer:   inferOverlap,
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool {
			return s.Int("axis") == 0 || len(s.In("X").Dims) == 2
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindNumbers("X", bindOverlap[float32]("X", "Out"), bindOverlap[float64]("X", "Out"), bindOverlap[int32]("X", "Out"), bindOverlap[int64]("X", "Out")),
	}, opkit.Gradient{
		Doc: "dX has the frames of dOut.", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindFrame[float32]("Out@GRAD", "X@GRAD"), bindFrame[float64]("Out@GRAD", "X@GRAD")),
	})
}

// checkFrames checks the attributes that both ops have.
func checkFrames(s *ops.Shapes) error {
	if axis := s.Int("axis"); axis != 0 && axis != -1 {
		return opkit.BadAttr(s, "axis", "0 or -1")
	}
	if hop := s.Int("hop_length"); hop < 1 || hop > mostFrame {
		return opkit.BadAttr(s, "hop_length", "1 to %d", mostFrame)
	}
	return opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers")
}

func inferFrame(s *ops.Shapes) error {
	if err := checkFrames(s); err != nil {
		return err
	}
	dims, length := s.In("X").Dims, s.Int("frame_length")
	rank := len(dims)
	if rank == 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	first := s.Int("axis") == 0
	samples := dims[rank-1]
	if first {
		samples = dims[0]
	}
	if length < 1 || length > mostFrame || samples >= 0 && length > samples {
		return opkit.BadAttr(s, "frame_length", "1 to %d, the samples of X", samples)
	}
	frames := int64(program.Unknown)
	if samples >= 0 {
		frames = (samples-length)/s.Int("hop_length") + 1
	}
	if first {
		s.Set("Out", s.In("X").DType, append([]int64{frames, length}, dims[1:]...)...)
	} else {
		s.Set("Out", s.In("X").DType, append(append([]int64{}, dims[:rank-1]...), length, frames)...)
	}
	return nil
}

func inferOverlap(s *ops.Shapes) error {
	if err := checkFrames(s); err != nil {
		return err
	}
	dims := s.In("X").Dims
	rank := len(dims)
	if rank < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	first := s.Int("axis") == 0
	length, frames := dims[rank-2], dims[rank-1]
	if first {
		frames, length = dims[0], dims[1]
	}
	if frames == 0 || length == 0 || frames > mostFrame || length > mostFrame {
		return s.Errorf("X", "1 to %d frames of 1 to %d samples", mostFrame, mostFrame)
	}
	samples := int64(program.Unknown)
	if frames >= 0 && length >= 0 {
		samples = (frames-1)*s.Int("hop_length") + length
	}
	if first {
		s.Set("Out", s.In("X").DType, append([]int64{samples}, dims[2:]...)...)
	} else {
		s.Set("Out", s.In("X").DType, append(append([]int64{}, dims[:rank-2]...), samples)...)
	}
	return nil
}

// framesOf returns how frames lie in signals of these dims.
func framesOf(b *ops.Binding, signal, frames *tensor.Tensor) kernel.Frames {
	f := kernel.Frames{Hop: int(b.Int("hop_length")), Last: b.Int("axis") != 0}
	long, cut := signal.Dims(), frames.Dims()
	if f.Last {
		f.Signals, f.Samples, f.Length, f.Count = opkit.Count(long[:len(long)-1]), int(long[len(long)-1]), int(cut[len(cut)-2]), int(cut[len(cut)-1])
		return f
	}
	f.Signals, f.Samples, f.Length, f.Count = opkit.Count(long[1:]), int(long[0]), int(cut[1]), int(cut[0])
	return f
}

// frameLoop is the loop over signals. With axis 0 these lie side by side, so one iteration does all.
func frameLoop(f kernel.Frames, run func(from, to int)) ops.Loop {
	if f.Last {
		return ops.Loop{N: f.Signals, Run: func(_, from, to int) error {
			run(from, to)
			return nil
		}}
	}
	return ops.Loop{N: 1, Run: func(int, int, int) error {
		run(0, f.Signals)
		return nil
	}}
}

func bindFrame[T kernel.Number](from, to string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		signal, frames := b.In(from), b.Out(to)
		f := framesOf(b, signal, frames)
		loop := frameLoop(f, func(first, end int) { kernel.Frame(f, tensor.Data[T](frames), tensor.Data[T](signal), first, end) })
		loop.Reads = []string{from}
		return b.Loops(loop)
	}
}

func bindOverlap[T kernel.Number](from, to string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		frames, signal := b.In(from), b.Out(to)
		f := framesOf(b, signal, frames)
		loop := frameLoop(f, func(first, end int) { kernel.OverlapAdd(f, tensor.Data[T](signal), tensor.Data[T](frames), first, end) })
		loop.Reads = []string{from}
		return b.Loops(loop)
	}
}
