package detection

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "yolov3_loss",
		Doc: "The loss of YOLO v3 (Redmon and Farhadi 2018). Each object belongs to the anchor whose shape overlaps its own most. If that is one of anchor_mask, the place of its centre costs, times " +
			"GTScore: with 2 - width*height as a factor, the cross entropies of x and y and the distances of w and h from their targets; the cross entropies of the classes; and that of the " +
			"confidence with 1. Elsewhere the confidence costs its cross entropy with 0, but not where a box overlaps an object by more than ignore_thresh. The gradient sums the parts of objects that " +
			"share a place, of which Fluid takes the last.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [N, masked anchors*(5 + class_num), H, H]; for each anchor x, y, w, h, confidence and a number for each class"},
			{Name: "GTBox", Doc: "[N, B, 4]: centre, width and height of objects as shares of the image; those without width or height do not count"},
			{Name: "GTLabel", Doc: "int32 [N, B]: the class of each object"}, {Name: "GTScore", Doc: "[N, B]: weight of each object; absent ones are 1", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Loss", Doc: "[N]"},
			{Name: "ObjectnessMask", Doc: "[N, masked anchors, H, H]: weight of a place with an object, 0, or -1 where the confidence costs nothing", Intermediate: true},
			{Name: "GTMatchMask", Doc: "int32 [N, B]: which masked anchor each object belongs to, or -1", Intermediate: true}},
		Attrs: []ops.Attr{{Name: "class_num", Doc: "number of classes", Kind: int32(0)},
			{Name: "anchors", Doc: "width and height of each anchor, in pixels of the input of the network", Default: []int32{}},
			{Name: "anchor_mask", Doc: "the anchors of X", Default: []int32{}},
			{Name: "downsample_ratio", Doc: "side of the input of the network over that of X", Default: int32(32)},
			{Name: "ignore_thresh", Doc: "the largest overlap of a box whose confidence should be 0", Default: float32(0.7)},
			{Name: "use_label_smooth", Doc: "whether classes should be min(1/class_num, 1/40) and 1 minus that, not 0 and 1", Default: true},
			{Name: "scale_x_y", Doc: "how far centres may leave their place, in overlaps: s becomes s*scale - (scale - 1)/2", Default: float32(1)}},
		Infer:     inferYoloLoss,
		Cost:      opkit.PerElement(40),
		Bind:      opkit.BindFloats("X", bindYoloLoss[float32], bindYoloLoss[float64]),
		MixesRows: opkit.MixesUnlike,
		Gradient:  ops.StandardGrad([]string{"X", "GTBox", "GTLabel", "GTScore"}, []string{"ObjectnessMask", "GTMatchMask"}, []string{"X"}),
	})
	ops.Register(ops.Def{
		Type: "yolov3_loss_grad", Class: ops.Backward,
		Doc: "The gradient of yolov3_loss: dLoss times the derivative of each cost, which for a cross entropy is sigmoid(x) minus its target.",
		Inputs: []ops.Slot{{Name: "X", Doc: "as in yolov3_loss"}, {Name: "GTBox", Doc: "likewise"}, {Name: "GTLabel", Doc: "likewise"}, {Name: "GTScore", Doc: "likewise", Dispensable: true},
			{Name: "ObjectnessMask", Doc: "likewise"}, {Name: "GTMatchMask", Doc: "likewise"}, {Name: "Loss@GRAD", Doc: "gradient of Loss"}},
		Outputs: []ops.Slot{{Name: "X@GRAD", Doc: "gradient of X", Dispensable: true}, {Name: "GTBox@GRAD", Doc: "must be empty", Dispensable: true},
			{Name: "GTLabel@GRAD", Doc: "must be empty", Dispensable: true}, {Name: "GTScore@GRAD", Doc: "must be empty", Dispensable: true}},
		Attrs: yoloLossAttrs(),
		Infer: func(s *ops.Shapes) error {
			if err := checkYoloLoss(s); err != nil {
				return err
			}
			for slot, want := range opkit.InOrder(map[string][]int64{"Loss@GRAD": s.In("X").Dims[:1], "ObjectnessMask": yoloMask(s), "GTMatchMask": s.In("GTBox").Dims[:2]}) {
				if !ops.Compatible(s.In(slot).Dims, want) {
					return s.Errorf(slot, "dims %v", want)
				}
			}
			if err := opkit.CheckType(s, "GTMatchMask", s.In("GTMatchMask").DType == tensor.Int32, "int32"); err != nil {
				return err
			}
			for _, slot := range []string{"GTBox@GRAD", "GTLabel@GRAD", "GTScore@GRAD"} {
				if s.Wants(slot) {
					return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("a variable in "+slot), fault.Want("none: no gradient flows there"))
				}
			}
			s.Like("X@GRAD", "X")
			return s.SameType("X", "Loss@GRAD", "ObjectnessMask")
		},
		Cost: opkit.PerElement(40),
		Bind: opkit.BindFloats("X", bindYoloLossGrad[float32], bindYoloLossGrad[float64]),
	})
}

func yoloLossAttrs() []ops.Attr {
	d, _ := ops.Lookup("yolov3_loss")
	return d.Attrs
}

// yoloMask returns the dims of ObjectnessMask.
func yoloMask(s *ops.Shapes) []int64 {
	x := s.In("X").Dims
	return []int64{x[0], int64(len(s.Ints("anchor_mask"))), x[2], x[3]}
}

func checkYoloLoss(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	x, box := s.In("X").Dims, s.In("GTBox").Dims
	if !opkit.Agree(x[2], x[3]) {
		return s.Errorf("X", "square maps")
	}
	anchors, mask, classes := s.Ints("anchors"), s.Ints("anchor_mask"), s.Int("class_num")
	if len(anchors) == 0 || len(anchors)%2 != 0 || len(anchors) > mostNumbers || slices.ContainsFunc(anchors, func(v int64) bool { return v < 1 || v > math.MaxInt32 }) {
		return opkit.BadAttr(s, "anchors", "pairs of width and height from 1, up to %d numbers", mostNumbers)
	}
	if len(mask) == 0 || len(mask) > mostNumbers || slices.ContainsFunc(mask, func(v int64) bool { return v < 0 || v >= int64(len(anchors)/2) }) {
		return opkit.BadAttr(s, "anchor_mask", "numbers of anchors, of which there are %d", len(anchors)/2)
	}
	if classes < 1 || classes > math.MaxInt16 || !opkit.Agree(x[1], int64(len(mask))*(5+classes)) {
		return opkit.BadAttr(s, "class_num", "a number with which X %v has 5 + class_num channels for each of %d anchors", x, len(mask))
	}
	if ratio := s.Int("downsample_ratio"); ratio < 1 || ratio > math.MaxInt16 {
		return opkit.BadAttr(s, "downsample_ratio", "1 to %d", math.MaxInt16)
	}
	if len(box) != 3 || !opkit.Agree(box[0], x[0]) || !opkit.Agree(box[2], 4) {
		return s.Errorf("GTBox", "dims [%d, B, 4]", x[0])
	}
	if !ops.Compatible(s.In("GTLabel").Dims, box[:2]) {
		return s.Errorf("GTLabel", "dims %v", box[:2])
	}
	if err := opkit.CheckType(s, "GTLabel", s.In("GTLabel").DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	if s.Has("GTScore") && !ops.Compatible(s.In("GTScore").Dims, box[:2]) {
		return s.Errorf("GTScore", "dims %v", box[:2])
	}
	return s.SameType("X", "GTBox", "GTScore")
}

func inferYoloLoss(s *ops.Shapes) error {
	if err := checkYoloLoss(s); err != nil {
		return err
	}
	x := s.In("X")
	s.Set("Loss", x.DType, x.Dims[0])
	s.Set("ObjectnessMask", x.DType, yoloMask(s)...)
	s.Set("GTMatchMask", tensor.Int32, s.In("GTBox").Dims[:2]...)
	return nil
}

// A yolo computes the loss of one image after the other.
type yolo[T tensor.Float] struct {
	b                        *ops.Binding
	x, box, label, score     *tensor.Tensor
	anchors, mask            []int64
	classes, side, objects   int
	input, scale, ignore     float64 // side of the input of the network
	positive, negative       float64 // what classes should be
	perImage, plane, channel int     // elements of an image and of a map; channels of an anchor
}

func newYolo[T tensor.Float](b *ops.Binding) *yolo[T] {
	y := &yolo[T]{b: b, x: b.In("X"), box: b.In("GTBox"), label: b.In("GTLabel"), score: b.In("GTScore"), anchors: b.Ints("anchors"), mask: b.Ints("anchor_mask"),
		classes: int(b.Int("class_num")), scale: b.Float("scale_x_y"), ignore: b.Float("ignore_thresh"), positive: 1}
	y.side, y.objects = int(y.x.Dims()[2]), int(y.box.Dims()[1])
	y.input = float64(int(b.Int("downsample_ratio")) * y.side)
	y.plane, y.channel = y.side*y.side, 5+y.classes
	y.perImage = len(y.mask) * y.channel * y.plane
	if b.Bool("use_label_smooth") {
		y.negative = min(1/float64(y.classes), 1./40)
		y.positive = 1 - y.negative
	}
	return y
}

// object returns box t of image i; ok is false for one that does not count.
func (y *yolo[T]) object(i, t int) (box [4]float64, ok bool) {
	for k, v := range tensor.Data[T](y.box)[(i*y.objects+t)*4:][:4] {
		box[k] = float64(v)
	}
	return box, box[2] >= 1e-6 && box[3] >= 1e-6
}

// shared is the overlap of boxes that are given by centre, width and height.
func shared(a, b [4]float64) float64 {
	along := func(k int) float64 { return min(a[k]+a[k+2]/2, b[k]+b[k+2]/2) - max(a[k]-a[k+2]/2, b[k]-b[k+2]/2) }
	w, h := along(0), along(1)
	if !(w > 0 && h > 0) {
		return 0
	}
	return w * h / (a[2]*a[3] + b[2]*b[3] - w*h)
}

// match returns the masked anchor that an object belongs to, -1 for none.
func (y *yolo[T]) match(box [4]float64) int {
	best, most := 0, 0.0
	for a := range len(y.anchors) / 2 {
		if o := shared([4]float64{0, 0, float64(y.anchors[2*a]) / y.input, float64(y.anchors[2*a+1]) / y.input}, [4]float64{0, 0, box[2], box[3]}); o > most {
			best, most = a, o
		}
	}
	return slices.Index(y.mask, int64(best))
}

// place returns the place of an object in a map.
func (y *yolo[T]) place(i, t int, box [4]float64) (int, error) {
	column, row := box[0]*float64(y.side), box[1]*float64(y.side)
	if !(column >= 0 && row >= 0 && column < float64(y.side) && row < float64(y.side)) {
		return 0, fault.E(fault.InvalidArgument, fault.On(y.b.Op()), fault.Var(y.b.Op().In("GTBox")), fault.Gotf("the centre (%v, %v) of object %d of image %d", box[0], box[1], t, i),
			fault.Want("numbers from 0 to less than 1"))
	}
	return int(row)*y.side + int(column), nil
}

// weight returns how much an object counts.
func (y *yolo[T]) weight(i, t int) float64 {
	if y.score == nil {
		return 1
	}
	return float64(tensor.Data[T](y.score)[i*y.objects+t])
}

// costs calls f for each number of X that an object costs for: its element in the image, what it should be, whether that costs a cross entropy and not a
// distance, and the factor.
func (y *yolo[T]) costs(i, t, anchor int, box [4]float64, f func(at int, target float64, entropy bool, factor float64)) error {
	place, err := y.place(i, t, box)
	if err != nil {
		return err
	}
	w := y.weight(i, t)
	first := anchor*y.channel*y.plane + place
	a := y.mask[anchor]
	factor := (2 - box[2]*box[3]) * w
	f(first, box[0]*float64(y.side)-float64(place%y.side), true, factor)
	f(first+y.plane, box[1]*float64(y.side)-float64(place/y.side), true, factor)
	f(first+2*y.plane, math.Log(box[2]*y.input/float64(y.anchors[2*a])), false, factor)
	f(first+3*y.plane, math.Log(box[3]*y.input/float64(y.anchors[2*a+1])), false, factor)
	label := int(y.label.Int32s()[i*y.objects+t])
	for class := range y.classes {
		target := y.negative
		if class == label {
			target = y.positive
		}
		f(first+(5+class)*y.plane, target, true, w)
	}
	return nil
}

// entropy is the cross entropy of the sigmoid of x and a target.
func entropy(x, target float64) float64 {
	return max(x, 0) - x*target + math.Log1p(math.Exp(-math.Abs(x)))
}

// ignored fills the mask of an image with 0, and with -1 where a box overlaps an object too much for a confidence of 0.
func (y *yolo[T]) ignored(i int, mask, in []T) {
	side := float64(y.side)
	for at := range mask {
		anchor, place := at/y.plane, at%y.plane
		mask[at] = 0
		number := func(k int) float64 { return float64(in[(anchor*y.channel+k)*y.plane+place]) }
		shift := (y.scale - 1) / 2
		a := y.mask[anchor]
		box := [4]float64{(float64(place%y.side) + sigmoid(number(0))*y.scale - shift) / side, (float64(place/y.side) + sigmoid(number(1))*y.scale - shift) / side,
			math.Exp(number(2)) * float64(y.anchors[2*a]) / y.input, math.Exp(number(3)) * float64(y.anchors[2*a+1]) / y.input}
		for t := range y.objects {
			if object, ok := y.object(i, t); ok && shared(box, object) > y.ignore {
				mask[at] = -1
				break
			}
		}
	}
}

func bindYoloLoss[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, loss, masks, matches := newYolo[T](b), b.Out("Loss"), b.Out("ObjectnessMask"), b.Out("GTMatchMask")
	n, places := int(y.x.Dims()[0]), len(y.mask)*y.plane
	if masks == nil {
		masks = b.Scratch(y.x.DType(), n*places)
	}
	return b.Loops(ops.Loop{N: n, Apart: true, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			in, mask := tensor.Data[T](y.x)[i*y.perImage:][:y.perImage], tensor.Data[T](masks)[i*places:][:places]
			y.ignored(i, mask, in)
			total := 0.0
			for t := range y.objects {
				box, ok := y.object(i, t)
				anchor := -1
				if ok {
					anchor = y.match(box)
				}
				if matches != nil {
					matches.Int32s()[i*y.objects+t] = int32(anchor)
				}
				if anchor < 0 {
					continue
				}
				err := y.costs(i, t, anchor, box, func(at int, target float64, isEntropy bool, factor float64) {
					if isEntropy {
						total += entropy(float64(in[at]), target) * factor
					} else {
						total += math.Abs(target-float64(in[at])) * factor
					}
				})
				if err != nil {
					return err
				}
				place, _ := y.place(i, t, box)
				mask[anchor*y.plane+place] = T(y.weight(i, t))
			}
			for at, m := range mask {
				confidence := float64(in[(at/y.plane*y.channel+4)*y.plane+at%y.plane])
				switch {
				case m > 1e-5:
					total += entropy(confidence, 1) * float64(m)
				case m > -0.5:
					total += entropy(confidence, 0)
				}
			}
			if loss != nil {
				tensor.Data[T](loss)[i] = T(total)
			}
		}
		return nil
	}})
}

func bindYoloLossGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, masks, matches, dloss, dx := newYolo[T](b), b.In("ObjectnessMask"), b.In("GTMatchMask"), b.In("Loss@GRAD"), b.Out("X@GRAD")
	n, places := int(y.x.Dims()[0]), len(y.mask)*y.plane
	return b.Loops(ops.Loop{N: n, Apart: true, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			in, made, d := tensor.Data[T](y.x)[i*y.perImage:][:y.perImage], tensor.Data[T](dx)[i*y.perImage:][:y.perImage], float64(tensor.Data[T](dloss)[i])
			clear(made)
			for t := range y.objects {
				anchor := int(matches.Int32s()[i*y.objects+t])
				box, ok := y.object(i, t)
				if !ok || anchor < 0 {
					continue
				}
				if anchor >= len(y.mask) {
					return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("GTMatchMask")), fault.Gotf("anchor %d", anchor), fault.Wantf("-1 to %d", len(y.mask)-1))
				}
				err := y.costs(i, t, anchor, box, func(at int, target float64, isEntropy bool, factor float64) {
					slope := sigmoid(in[at]) - target
					if !isEntropy {
						slope = -1
						if float64(in[at]) > target {
							slope = 1
						}
					}
					made[at] += T(slope * factor * d)
				})
				if err != nil {
					return err
				}
			}
			for at, m := range tensor.Data[T](masks)[i*places:][:places] {
				confidence := (at/y.plane*y.channel+4)*y.plane + at%y.plane
				switch {
				case m > 1e-5:
					made[confidence] = T((sigmoid(in[confidence]) - 1) * float64(m) * d)
				case m > -0.5:
					made[confidence] = T(sigmoid(in[confidence]) * d)
				}
			}
		}
		return nil
	}})
}
