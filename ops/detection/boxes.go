package detection

import (
	"errors"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var normalizedAttr = ops.Attr{Name: "box_normalized", Doc: "whether coordinates are shares of the image; those in pixels include the last pixel", Default: true}

func init() {
	ops.Register(ops.Def{
		Type:    "iou_similarity",
		Doc:     "The overlap of boxes: Out[i, j] is the area that box i of X and box j of Y share over the area that they cover together.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float boxes [N, 4]"}, {Name: "Y", Doc: "float boxes [M, 4]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[N, M]"}},
		Attrs:   []ops.Attr{normalizedAttr},
		Infer: func(s *ops.Shapes) error {
			for _, slot := range []string{"X", "Y"} {
				if err := boxesOf(s, slot); err != nil {
					return err
				}
			}
			s.Set("Out", s.In("X").DType, s.In("X").Dims[0], s.In("Y").Dims[0])
			s.ShareLoD("Out", "X")
			return s.SameType("X", "Y")
		},
		Cost:      opkit.PerElement(16),
		Bind:      opkit.BindFloats("X", bindIoU[float32], bindIoU[float64]),
		MixesRows: opkit.RowsOnlyIn("X"),
	})

	ops.Register(ops.Def{
		Type: "box_coder",
		Doc: "Writes boxes relative to others, or reads them. encode_center_size: the code of box i of TargetBox is, for each box of PriorBox, (dx/w, dy/h, " +
			"log(W/w), log(H/h)) divided by the variances, where dx and dy lead from centre to centre and W/w is the ratio of the widths. decode_center_size: the boxes of codes.",
		Inputs: []ops.Slot{
			{Name: "PriorBox", Doc: "float boxes [M, 4]"},
			{Name: "PriorBoxVar", Doc: "[M, 4], or [4] for all boxes; ones when absent", Dispensable: true},
			{Name: "TargetBox", Doc: "boxes [N, 4] to encode, or codes [N, M, 4]; with axis 1 the boxes of PriorBox belong to axis 0"}},
		Outputs: []ops.Slot{{Name: "OutputBox", Doc: "codes [N, M, 4], or boxes of the dims of the codes"}},
		Attrs: []ops.Attr{
			{Name: "code_type", Doc: "encode_center_size or decode_center_size", Default: "encode_center_size", Check: func(op *program.Op) error {
				switch code, _ := op.Str("code_type"); code {
				case "encode_center_size", "decode_center_size":
					return nil
				}
				return errors.New("encode_center_size or decode_center_size")
			}},
			normalizedAttr,
			{Name: "axis", Doc: "0 or 1: which axis of the codes PriorBox has the boxes of is the other one", Default: int32(0)},
			{Name: "variance", Doc: "four variances in place of PriorBoxVar", Default: []float32{}}},
		Infer:     inferBoxCoder,
		Cost:      opkit.PerElement(8),
		Bind:      opkit.BindFloats("PriorBox", bindBoxCoder[float32], bindBoxCoder[float64]),
		MixesRows: opkit.RowsOnlyIn("TargetBox"),
	})

	ops.Register(ops.Def{
		Type: "box_clip",
		Doc:  "Limits boxes to their images: each coordinate lies between 0 and the last pixel. An image has round(height/scale) x round(width/scale) pixels.",
		Inputs: []ops.Slot{{Name: "Input", Doc: "float boxes [rows, ..., 4], the boxes of an image a sequence"},
			{Name: "ImInfo", Doc: "[N, 3]: height, width and scale of each image"}},
		Outputs:   []ops.Slot{{Name: "Output", Doc: "as Input"}},
		Infer:     inferBoxClip,
		Bind:      opkit.BindFloats("Input", bindBoxClip[float32], bindBoxClip[float64]),
		MixesRows: bothDivided("Input", "ImInfo"),
	})

	ops.Register(ops.Def{
		Type: "polygon_box_transform",
		Doc: "Turns distances to the corners of quadrangles into places (Zhou et al. 2017, EAST), at a quarter of the resolution: Output = 4*x - Input in even channels, " +
			"4*y - Input in odd ones, for the place (x, y).",
		Inputs:  []ops.Slot{{Name: "Input", Doc: "float [N, C, H, W] with an even C"}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "as Input"}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("Input"); err != nil {
				return err
			}
			if err := s.Rank("Input", 4); err != nil {
				return err
			}
			if c := s.In("Input").Dims[1]; c >= 0 && c%2 != 0 {
				return s.Errorf("Input", "an even number of channels")
			}
			s.Like("Output", "Input")
			return nil
		},
		Bind: opkit.BindFloats("Input", bindPolygon[float32], bindPolygon[float64]),
	})
}

// bothDivided makes the Mixing of an op whose slots hold the same images of the batch.
func bothDivided(a, b string) opkit.Mixing {
	return func(_ *ops.Shapes, divided func(string) bool) bool { return !divided(a) || !divided(b) }
}

func bindIoU[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, out := b.In("X"), b.In("Y"), b.Out("Out")
	n, m := int(x.Dims()[0]), int(y.Dims()[0])
	normalized := b.Bool("box_normalized")
	return b.Loops(ops.Loop{N: n, Whole: []string{"Y"}, Run: func(_, from, to int) error {
		boxes, others, overlaps := tensor.Data[T](x), tensor.Data[T](y), tensor.Data[T](out)
		for i := from; i < to; i++ {
			for j := range m {
				overlaps[i*m+j] = overlap(boxes[4*i:][:4], others[4*j:][:4], normalized)
			}
		}
		return nil
	}})
}

// overlap returns the area that two boxes share over the area that they cover together, 0 where they share none.
func overlap[T tensor.Float](a, b []T, normalized bool) T {
	width := span(max(a[0], b[0]), min(a[2], b[2]), normalized)
	height := span(max(a[1], b[1]), min(a[3], b[3]), normalized)
	if !(width > 0 && height > 0) {
		return 0
	}
	shared := width * height
	return shared / (span(a[0], a[2], normalized)*span(a[1], a[3], normalized) + span(b[0], b[2], normalized)*span(b[1], b[3], normalized) - shared)
}

func inferBoxCoder(s *ops.Shapes) error {
	if err := boxesOf(s, "PriorBox"); err != nil {
		return err
	}
	if err := s.SameType("PriorBox", "PriorBoxVar", "TargetBox"); err != nil {
		return err
	}
	target, prior := s.In("TargetBox"), s.In("PriorBox").Dims
	if variance := s.In("PriorBoxVar").Dims; s.Has("PriorBoxVar") && !ops.Compatible(variance, prior) && !ops.Compatible(variance, []int64{4}) {
		return s.Errorf("PriorBoxVar", "the dims of PriorBox %v, or [4]", prior)
	}
	if n := len(floats(s, "variance")); n != 0 && (n != 4 || s.Has("PriorBoxVar")) {
		return opkit.BadAttr(s, "variance", "four numbers where there is no PriorBoxVar")
	}
	axis := s.Int("axis")
	if axis != 0 && axis != 1 {
		return opkit.BadAttr(s, "axis", "0 or 1")
	}
	if s.Str("code_type") == "encode_center_size" {
		if err := boxesOf(s, "TargetBox"); err != nil {
			return err
		}
		s.Set("OutputBox", target.DType, target.Dims[0], prior[0], 4)
		s.ShareLoD("OutputBox", "TargetBox")
		return nil
	}
	want := []int64{program.Unknown, prior[0], 4}
	if axis == 1 {
		want = []int64{prior[0], program.Unknown, 4}
	}
	if !ops.Compatible(target.Dims, want) {
		return s.Errorf("TargetBox", "codes %v for PriorBox %v", want, prior)
	}
	s.Like("OutputBox", "TargetBox")
	return nil
}

func bindBoxCoder[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	prior, variance, target, out := b.In("PriorBox"), b.In("PriorBoxVar"), b.In("TargetBox"), b.Out("OutputBox")
	dims := out.Dims()
	n, m := int(dims[0]), int(dims[1])
	decode, byRow, normalized := b.Str("code_type") == "decode_center_size", b.Int("axis") == 1, b.Bool("box_normalized")
	common := []T{1, 1, 1, 1}
	for i, v := range floats(b, "variance") {
		common[i] = T(v)
	}
	return b.Loops(ops.Loop{N: n, Apart: true, Run: func(_, from, to int) error {
		boxes, given, codes := tensor.Data[T](prior), tensor.Data[T](target), tensor.Data[T](out)
		for i := from; i < to; i++ {
			for j := range m {
				p := j
				if decode && byRow {
					p = i
				}
				v := common
				if variance != nil {
					if v = tensor.Data[T](variance); len(v) > 4 {
						v = v[4*p:][:4]
					}
				}
				to := codes[(i*m+j)*4:][:4]
				if decode {
					decodeBox(to, given[(i*m+j)*4:][:4], boxes[4*p:][:4], v, normalized)
				} else {
					encodeBox(to, given[4*i:][:4], boxes[4*p:][:4], v, normalized)
				}
			}
		}
		return nil
	}})
}

// encodeBox writes the code of a box relative to another.
func encodeBox[T tensor.Float](code, box, prior, variance []T, normalized bool) {
	w, h := span(prior[0], prior[2], normalized), span(prior[1], prior[3], normalized)
	code[0] = ((box[0]+box[2])/2 - prior[0] - w/2) / w / variance[0]
	code[1] = ((box[1]+box[3])/2 - prior[1] - h/2) / h / variance[1]
	code[2] = T(math.Log(math.Abs(float64(span(box[0], box[2], normalized)/w)))) / variance[2]
	code[3] = T(math.Log(math.Abs(float64(span(box[1], box[3], normalized)/h)))) / variance[3]
}

// decodeBox writes the box of a code relative to another box.
func decodeBox[T tensor.Float](box, code, prior, variance []T, normalized bool) {
	w, h := span(prior[0], prior[2], normalized), span(prior[1], prior[3], normalized)
	x, y := variance[0]*code[0]*w+prior[0]+w/2, variance[1]*code[1]*h+prior[1]+h/2
	w, h = T(math.Exp(float64(variance[2]*code[2])))*w, T(math.Exp(float64(variance[3]*code[3])))*h
	last := T(0)
	if !normalized {
		last = 1
	}
	box[0], box[1], box[2], box[3] = x-w/2, y-h/2, x+w/2-last, y+h/2-last
}

func inferBoxClip(s *ops.Shapes) error {
	input, info := s.In("Input"), s.In("ImInfo")
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if n := len(input.Dims); n < 2 || !opkit.Agree(input.Dims[n-1], 4) {
		return s.Errorf("Input", "boxes [rows, ..., 4]")
	}
	images, err := s.CountSequences("Input")
	if err != nil {
		return err
	}
	if !ops.Compatible(info.Dims, []int64{images, 3}) {
		return s.Errorf("ImInfo", "dims [%d, 3], a row for each sequence of Input", images)
	}
	s.Like("Output", "Input")
	return s.SameType("Input", "ImInfo")
}

func bindBoxClip[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	input, info, out := b.In("Input"), b.In("ImInfo"), b.Out("Output")
	width := opkit.Count(input.Dims()[1:])
	images := int(info.Dims()[0])
	return b.Loops(ops.Loop{N: images, Apart: true, Run: func(_, from, to int) error {
		offsets, err := offsetsOf(b, "Input", images)
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			image := tensor.Data[T](info)[3*i:][:3]
			limit := [2]T{T(math.Round(float64(image[1]/image[2]))) - 1, T(math.Round(float64(image[0]/image[2]))) - 1}
			first, end := int(offsets[i])*width, int(offsets[i+1])*width
			to, in := tensor.Data[T](out)[first:end], tensor.Data[T](input)[first:end]
			for k, v := range in {
				to[k] = max(min(v, limit[k%2]), 0)
			}
		}
		return nil
	}})
}

func bindPolygon[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	input, out := b.In("Input"), b.Out("Output")
	dims := input.Dims()
	height, width := int(dims[2]), int(dims[3])
	return b.Loops(ops.Loop{N: opkit.Count(dims[:3]), Run: func(_, from, to int) error {
		for row := from; row < to; row++ {
			in, to := tensor.Data[T](input)[row*width:][:width], tensor.Data[T](out)[row*width:][:width]
			even, y := row/height%2 == 0, row%height
			for x, v := range in {
				if even {
					to[x] = T(4*x) - v
				} else {
					to[x] = T(4*y) - v
				}
			}
		}
		return nil
	}})
}
