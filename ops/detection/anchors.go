package detection

import (
	"context"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file say what the boxes of a network, called anchors, should become: which of them lie on objects and which on background.

// sameOverlap is how much two overlaps may differ to count as equal.
const sameOverlap = 1e-5

func init() {
	objects := []ops.Slot{{Name: "Anchor", Doc: "float boxes [A, 4] in pixels"}, {Name: "GtBoxes", Doc: "[rows, 4]: boxes of objects in pixels of the original image, those of an image a sequence"}}
	crowd := []ops.Slot{{Name: "IsCrowd", Doc: "int32 [rows, 1]: 1 for boxes that are left out"}, {Name: "ImInfo", Doc: "[N, 3]: height, width and scale of each image"}}
	made := []ops.Slot{{Name: "LocationIndex", Doc: "int32 [F]: the anchors on objects, those of image i counted from i*A, first those that only make up the number"},
		{Name: "ScoreIndex", Doc: "int32 [S]: the anchors on objects, then those on background"},
		{Name: "TargetBBox", Doc: "[F, 4]: the codes of the objects relative to the anchors of LocationIndex"},
		{Name: "TargetLabel", Doc: "int32 [S, 1]: what the anchors of ScoreIndex should be; 0 for background"},
		{Name: "BBoxInsideWeight", Doc: "[F, 4]: 1, and 0 for anchors that only make up the number", Dispensable: true}}
	finds := &ops.Finding{Of: "Anchor", Index: map[string]string{"LocationIndex": "LocationIndex", "ScoreIndex": "ScoreIndex"},
		Rows: map[string]string{"TargetBBox": "LocationIndex", "BBoxInsideWeight": "LocationIndex", "TargetLabel": "ScoreIndex"}}
	ops.Register(ops.Def{
		Type: "rpn_target_assign", Class: ops.Control, Exempt: ops.FoundRows,
		Doc: "Chooses anchors that a region proposal network learns from (Ren et al. 2015, Faster R-CNN). An anchor is on an object if no other overlaps this object more, or if the overlap is at least " +
			"rpn_positive_overlap; it is on background if no overlap reaches rpn_negative_overlap. Of each image it takes rpn_batch_size_per_im, of which at most the share rpn_fg_fraction is on objects: " +
			"the first ones, or with use_random others in each step. Anchors that lie outside of the image by rpn_straddle_thresh pixels or more do not count. An image without objects has only background, where " +
			"Fluid fails.",
		Inputs: append(objects[:2:2], crowd...), Outputs: made,
		Attrs: []ops.Attr{{Name: "rpn_batch_size_per_im", Doc: "anchors of an image", Default: int32(256)}, {Name: "rpn_straddle_thresh", Doc: "in pixels; below 0 all anchors count", Default: float32(0)},
			{Name: "rpn_positive_overlap", Doc: "the overlap of anchors on objects", Default: float32(0.7)}, {Name: "rpn_negative_overlap", Doc: "the overlap that anchors on background lack", Default: float32(0.3)},
			{Name: "rpn_fg_fraction", Doc: "the share of anchors on objects", Default: float32(0.25)}, {Name: "use_random", Doc: "whether chance chooses", Default: true}},
		Infer: inferAnchors, Bind: byFloat("Anchor", bindAnchors[float32](false), bindAnchors[float64](false)), MixesRows: opkit.Mixes, Finds: finds,
	})
	ops.Register(ops.Def{
		Type: "retinanet_target_assign", Class: ops.Control, Exempt: ops.FoundRows,
		Doc: "Says of all anchors what a RetinaNet should make of them (Lin et al. 2017). An anchor is on an object if no other overlaps this object more, or if the overlap is at least positive_overlap; it is " +
			"on background if no overlap reaches negative_overlap, and is left out else. An image without objects has only background, where Fluid fails.",
		Inputs:  append(append(objects[:2:2], ops.Slot{Name: "GtLabels", Doc: "int32 [rows, 1]: the class of each object, from 1"}), crowd...),
		Outputs: append(made[:5:5], ops.Slot{Name: "ForegroundNumber", Doc: "int32 [N, 1]: how many anchors of each image are in LocationIndex, and 1"}),
		Attrs: []ops.Attr{{Name: "positive_overlap", Doc: "the overlap of anchors on objects", Default: float32(0.5)},
			{Name: "negative_overlap", Doc: "the overlap that anchors on background lack", Default: float32(0.4)}},
		Infer: inferAnchors, Bind: byFloat("Anchor", bindAnchors[float32](true), bindAnchors[float64](true)), MixesRows: opkit.Mixes, Finds: finds,
	})
}

func inferAnchors(s *ops.Shapes) error {
	for _, slot := range []string{"Anchor", "GtBoxes"} {
		if err := boxesOf(s, slot); err != nil {
			return err
		}
	}
	if err := s.SameType("Anchor", "GtBoxes", "ImInfo"); err != nil {
		return err
	}
	if err := integers(s, "IsCrowd", "GtLabels"); err != nil {
		return err
	}
	if s.In("GtBoxes").LoDLevel == 0 {
		return s.Errorf("GtBoxes", "sequences: those of an image")
	}
	dtype := s.In("Anchor").DType
	flat := func(slot string, dtype tensor.DType, dims ...int64) {
		s.SetAt(slot, 0, ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: append([]int64{program.Unknown}, dims...)})
	}
	flat("LocationIndex", tensor.Int32)
	flat("ScoreIndex", tensor.Int32)
	flat("TargetBBox", dtype, 4)
	flat("TargetLabel", tensor.Int32, 1)
	flat("BBoxInsideWeight", dtype, 4)
	flat("ForegroundNumber", tensor.Int32, 1)
	return nil
}

// integers checks that the slots that are there hold int32.
func integers(s *ops.Shapes, slots ...string) error {
	for _, slot := range slots {
		if s.Has(slot) {
			if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int32, "int32"); err != nil {
				return err
			}
		}
	}
	return nil
}

// An anchoring holds what rpn_target_assign and retinanet_target_assign need for one image.
type anchoring[T tensor.Float] struct {
	positive, negative T
	size, most         int // anchors of an image, and those of them on objects; -1 for all
	straddle           T
	sampler            sampler

	inside      []int32 // anchors that count
	objects     []T     // boxes of the objects that count
	classes     []int32
	largest     []T     // the largest overlap of each anchor that counts
	of          []int32 // the object that has it
	best        []T     // the largest overlap of each object
	on, off     []int32
	label       []int8
	location    []int32
	score       []int32
	targets     []T
	labels      []int32
	weights     []T
	foregrounds []int32
}

func bindAnchors[T tensor.Float](retina bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		anchors, boxes, classes, crowd, info := b.In("Anchor"), b.In("GtBoxes"), b.In("GtLabels"), b.In("IsCrowd"), b.In("ImInfo")
		a := &anchoring[T]{size: -1, most: -1, straddle: -1}
		if retina {
			a.positive, a.negative = T(b.Float("positive_overlap")), T(b.Float("negative_overlap"))
		} else {
			a.positive, a.negative, a.straddle = T(b.Float("rpn_positive_overlap")), T(b.Float("rpn_negative_overlap")), T(b.Float("rpn_straddle_thresh"))
			if share := b.Float("rpn_fg_fraction"); share > 0 && b.Int("rpn_batch_size_per_im") > 0 {
				a.size = int(b.Int("rpn_batch_size_per_im"))
				a.most = int(min(float64(a.size)*share, float64(a.size)))
			}
			a.sampler = newSampler(b, b.Bool("use_random"))
		}
		var m maker
		var offsets []int64
		return func(context.Context) error {
			rows := boxes.Len() / 4
			var err error
			if offsets, err = offsetsFrom(b, "GtBoxes", boxes, nil, offsets); err != nil {
				return err
			}
			images := len(offsets) - 1
			for _, c := range []struct {
				slot string
				t    *tensor.Tensor
				n    int
			}{{"IsCrowd", crowd, rows}, {"ImInfo", info, 3 * images}, {"GtLabels", classes, rows}} {
				if c.t != nil {
					if err := sized(b, c.slot, c.t, c.n); err != nil {
						return err
					}
				}
			}
			if total := int64(anchors.Len()/4) * int64(images); total > math.MaxInt32 {
				return fault.E(fault.TooLarge, fault.On(b.Op()), fault.Gotf("%d anchors of all images", total), fault.Wantf("at most %d", math.MaxInt32))
			}
			a.location, a.score, a.targets, a.labels, a.weights, a.foregrounds = a.location[:0], a.score[:0], a.targets[:0], a.labels[:0], a.weights[:0], a.foregrounds[:0]
			for i := range images {
				a.sampler.begin(i)
				first, end := offsets[i], offsets[i+1]
				var of []int32
				if classes != nil {
					of = classes.Int32s()[first:end]
				}
				a.choose(int32(i), tensor.Data[T](anchors), tensor.Data[T](boxes)[4*first:4*end], of, crowd.Int32s()[first:end], tensor.Data[T](info)[3*i:][:3])
			}
			return a.write(b, &m)
		}, nil
	}
}

func (a *anchoring[T]) write(b *ops.Binding, m *maker) error {
	for _, list := range []struct {
		slot   string
		values []int32
	}{{"LocationIndex", a.location}, {"ScoreIndex", a.score}} {
		if t := b.Out(list.slot); t != nil {
			m.size[0] = int64(len(list.values))
			if err := tensor.Resize(t, tensor.Int32, m.size[:1]...); err != nil {
				return err
			}
			copy(t.Int32s(), list.values)
		}
	}
	if err := makeRows(m, b.Out("TargetBBox"), a.targets, 4, nil); err != nil {
		return err
	}
	if err := makeRows(m, b.Out("TargetLabel"), a.labels, 1, nil); err != nil {
		return err
	}
	if err := makeRows(m, b.Out("BBoxInsideWeight"), a.weights, 4, nil); err != nil {
		return err
	}
	return makeRows(m, b.Out("ForegroundNumber"), a.foregrounds, 1, nil)
}

// choose appends the anchors of one image. The overlaps of boxes in pixels include the pixels of both sides.
func (a *anchoring[T]) choose(image int32, anchors, boxes []T, classes, crowd []int32, info []T) {
	n := int32(len(anchors) / 4)
	a.inside, a.objects, a.classes = a.inside[:0], a.objects[:0], a.classes[:0]
	for i := range n {
		box := anchors[4*i:][:4]
		if a.straddle < 0 || box[0] >= -a.straddle && box[1] >= -a.straddle && box[2] < info[1]+a.straddle && box[3] < info[0]+a.straddle {
			a.inside = append(a.inside, i)
		}
	}
	for j, out := range crowd {
		if out != 0 {
			continue
		}
		for _, v := range boxes[4*j:][:4] {
			a.objects = append(a.objects, v*info[2])
		}
		if classes != nil {
			a.classes = append(a.classes, classes[j])
		} else {
			a.classes = append(a.classes, 1)
		}
	}
	a.compare(anchors)
	a.on, a.off, a.label = a.on[:0], a.off[:0], grow(a.label, len(a.inside))
	clear(a.label)
	for i, at := range a.inside {
		if a.largest[i] >= a.positive && len(a.classes) > 0 || a.isBest(anchors[4*at:][:4]) {
			a.on = append(a.on, int32(i))
		}
		if a.largest[i] < a.negative {
			a.off = append(a.off, int32(i))
		}
	}
	if a.size >= 0 {
		a.on = a.sampler.take(a.on, a.most)
		a.off = a.sampler.take(a.off, a.size-len(a.on))
	}
	const onObject, onBackground = 1, 2
	for _, i := range a.on {
		a.label[i] = onObject
	}
	begin := len(a.location)
	for _, i := range a.off {
		if a.label[i] == onObject { // the best anchor of an object that overlaps it little: background, and another anchor makes up the number
			a.locate(image*n, a.on[0], anchors, 0)
		}
		a.label[i] = onBackground
	}
	for _, want := range []int8{onObject, onBackground} {
		for i, label := range a.label {
			if label != want {
				continue
			}
			class := int32(0)
			if want == onObject {
				a.locate(image*n, int32(i), anchors, 1)
				class = a.classes[a.of[i]]
			}
			a.score, a.labels = append(a.score, image*n+a.inside[i]), append(a.labels, class)
		}
	}
	a.foregrounds = append(a.foregrounds, int32(len(a.location)-begin)+1)
}

// compare finds the largest overlap of each anchor and of each object.
func (a *anchoring[T]) compare(anchors []T) {
	a.largest, a.of, a.best = grow(a.largest, len(a.inside)), grow(a.of, len(a.inside)), grow(a.best, len(a.classes))
	clear(a.best)
	for i, at := range a.inside {
		a.largest[i], a.of[i] = 0, 0
		for j := range a.classes {
			v := overlap(anchors[4*at:][:4], a.objects[4*j:][:4], false)
			if v > a.largest[i] {
				a.largest[i], a.of[i] = v, int32(j)
			}
			a.best[j] = max(a.best[j], v)
		}
	}
}

// isBest reports whether no anchor overlaps an object more than this one.
func (a *anchoring[T]) isBest(anchor []T) bool {
	for j, best := range a.best {
		if v := overlap(anchor, a.objects[4*j:][:4], false); v-best < sameOverlap && best-v < sameOverlap {
			return true
		}
	}
	return false
}

// locate appends an anchor to those whose boxes are learned.
func (a *anchoring[T]) locate(first, i int32, anchors []T, weight T) {
	at := a.inside[i]
	a.location = append(a.location, first+at)
	code := encodePixels(anchors[4*at:][:4], a.objects[4*a.of[i]:][:4])
	a.targets, a.weights = append(a.targets, code[:]...), append(a.weights, weight, weight, weight, weight)
}

// encodePixels writes a box in pixels relative to another: the way between the centres over the sides, and the logarithms of how much larger the sides are.
func encodePixels[T tensor.Float](from, box []T) (code [4]T) {
	for k := range 2 {
		a, b := span(from[k], from[k+2], false), span(box[k], box[k+2], false)
		code[k] = (box[k] + b/2 - from[k] - a/2) / a
		code[k+2] = T(math.Log(float64(b / a)))
	}
	return code
}

// A sampler takes a part of a list: the first elements, or others by chance in each step. What it takes of an image follows from the place of the image in the whole batch, so trainers that
// divide the batch take the same.
type sampler struct {
	step   *ops.Step
	stream uint64
	drawn  uint64
	random bool
}

func newSampler(b *ops.Binding, random bool) sampler {
	s := sampler{random: random}
	if b.Env == nil || b.Env.Step == nil {
		s.random = false
		return s
	}
	s.step = b.Env.Step
	for _, slot := range []string{"LocationIndex", "Rois"} {
		if name := b.Op().Out(slot); name != "" {
			s.stream = kernel.StreamOf(b.Op().Type, name)
		}
	}
	return s
}

// begin starts an image of a step.
func (s *sampler) begin(image int) {
	if s.random {
		s.drawn = uint64(s.step.RowOffset+int64(image)) << 32
	}
}

// take keeps n elements of a list, each equally likely, in its memory (Vitter 1985, algorithm R).
func (s *sampler) take(list []int32, n int) []int32 {
	return list[:s.takeBoth(list, nil, n)]
}

// takeBoth is take for two lists whose elements belong together. The second may be nil. It returns how many elements it has taken.
func (s *sampler) takeBoth(list, beside []int32, n int) int {
	n = max(n, 0)
	if n >= len(list) {
		return len(list)
	}
	for i := n; s.random && i < len(list); i++ {
		var u [1]float64
		kernel.UniformFill(u[:], 0, opkit.StreamAt(s.stream, s.step), s.drawn, 0, 1)
		s.drawn++
		if at := int(u[0] * float64(i+1)); at < n {
			list[at], list[i] = list[i], list[at]
			if beside != nil {
				beside[at], beside[i] = beside[i], beside[at]
			}
		}
	}
	return n
}
