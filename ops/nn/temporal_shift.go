package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "temporal_shift",
		Doc: "Moves some channels of the frames of videos by a frame (Lin et al. 2018): the first C*shift_ratio channels of a frame become those of the frame " +
			"before, the next as many those of the frame after, zeros where there is none. The others stay.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N*T, C, H, W], or [N*T, H, W, C]: the T frames of a video follow one another"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs: []ops.Attr{{Name: "seg_num", Doc: "T, frames of a video, a divisor of the first extent", Kind: int32(0)},
			{Name: "shift_ratio", Doc: "share of the channels that moves in each direction, 0 to 0.5", Default: float32(0.25)},
			dataFormatAttr("data_format")},
		Infer:     inferTemporalShift,
		Bind:      opkit.BindFloats("X", bindTemporalShift[float32]("X", "Out", 1), bindTemporalShift[float64]("X", "Out", 1)),
		MixesRows: opkit.Mixes,
	}, opkit.Gradient{
		Doc:    "dX is dOut with the channels moved back.",
		Inputs: []string{"X"}, Wrt: []string{"X"},
		Bind: opkit.BindFloats("X", bindTemporalShift[float32]("Out@GRAD", "X@GRAD", -1), bindTemporalShift[float64]("Out@GRAD", "X@GRAD", -1)),
	})
}

func inferTemporalShift(s *ops.Shapes) error {
	if err := checkImages(s, "data_format", 4); err != nil {
		return err
	}
	if t, frames := s.Int("seg_num"), s.In("X").Dims[0]; t < 1 || frames >= 0 && frames%t != 0 {
		return opkit.BadAttr(s, "seg_num", "a divisor of the %d frames of X", frames)
	}
	if ratio := s.Float("shift_ratio"); !(ratio >= 0 && ratio <= 0.5) {
		return opkit.BadAttr(s, "shift_ratio", "0 to 0.5")
	}
	s.Like("Out", "X")
	return nil
}

// bindTemporalShift makes frame i of a slot of that frame of another, whose first channels come from the frame that lies direction frames before.
func bindTemporalShift[T tensor.Float](fromSlot, toSlot string, direction int) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dims := b.In("X").Dims()
		last := channelsLast(b, "data_format")
		n, c, plane := channelsOf(firstly(dims, last))
		frames, ratio := int(b.Int("seg_num")), float32(b.Float("shift_ratio"))
		ends := [3]int{int(float32(c) * ratio), int(float32(c) * 2 * ratio), c} // of the channels from before, from after, and that stay
		from, to := b.In(fromSlot), b.Out(toSlot)
		blocks, width := 1, plane // runs of channels in a frame, and elements of a channel in each
		if last {
			blocks, width = plane, 1
		}
		size := c * plane
		return b.Loops(ops.Loop{N: n, Whole: []string{fromSlot}, Reads: []string{fromSlot}, Run: func(_, first, till int) error {
			in, out := tensor.Data[T](from), tensor.Data[T](to)
			for i := first; i < till; i++ {
				begin := 0
				for k, shift := range [3]int{-direction, direction, 0} {
					end, time := ends[k], i%frames+shift
					for block := range blocks {
						at := block*c*width + begin*width
						part := out[i*size+at:][:(end-begin)*width]
						if time < 0 || time >= frames {
							clear(part)
							continue
						}
						copy(part, in[(i+shift)*size+at:])
					}
					begin = end
				}
			}
			return nil
		}})
	}
}
