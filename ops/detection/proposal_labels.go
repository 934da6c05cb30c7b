package detection

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

var usualWeights = []float32{0.1, 0.1, 0.2, 0.2}

func init() {
	perClass := " [rows, 4*class_nums]: at the place of the class of each region "
	ops.Register(ops.Def{
		Type: "generate_proposal_labels", Class: ops.Control, Exempt: ops.FoundRows,
		Doc: "Chooses regions that the second stage of a Faster R-CNN learns from (Ren et al. 2015), and says what they should become. The boxes of the objects count as regions, too. A region whose " +
			"largest overlap with an object is at least fg_thresh has the class of that object; one with an overlap in [bg_thresh_lo, bg_thresh_hi) is background, class 0. Of each image it takes " +
			"batch_size_per_im, of which at most the share fg_fraction has an object: the first ones, or with use_random others in each step. With is_cascade_rcnn it takes all that have an area and whose " +
			"MaxOverlap is below 1.",
		Inputs: []ops.Slot{{Name: "RpnRois", Doc: "float boxes [rows, 4] in pixels, those of an image a sequence, unless RpnRoisNum is there"},
			{Name: "GtClasses", Doc: "int32 [objects, 1]: the class of each object, from 1"}, {Name: "IsCrowd", Doc: "int32 [objects, 1]: 1 for boxes that are no regions"},
			{Name: "GtBoxes", Doc: "[objects, 4]: their boxes in pixels of the original image, those of an image a sequence"}, {Name: "ImInfo", Doc: "[N, 3]: height, width and scale of each image"},
			{Name: "RpnRoisNum", Doc: "int32 [N]: how many regions each image has", Dispensable: true}, {Name: "MaxOverlap", Doc: "[rows]: of a stage before, for is_cascade_rcnn", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Rois", Doc: "[rows, 4]: the regions, those of an image a sequence"}, {Name: "LabelsInt32", Doc: "int32 [rows, 1]: their classes"},
			{Name: "BboxTargets", Doc: "float" + perClass + "the code of the object relative to it"}, {Name: "BboxInsideWeights", Doc: "float" + perClass + "ones"},
			{Name: "BboxOutsideWeights", Doc: "as BboxInsideWeights"}, {Name: "MaxOverlapWithGT", Doc: "[rows]: the largest overlap of each region", Dispensable: true}},
		Attrs: []ops.Attr{{Name: "batch_size_per_im", Doc: "regions of an image", Default: int32(256)}, {Name: "fg_fraction", Doc: "the share of those with an object", Default: float32(0.25)},
			{Name: "fg_thresh", Doc: "the overlap of regions with an object", Default: float32(0.25)}, {Name: "bg_thresh_hi", Doc: "the overlap that background lacks", Default: float32(0.5)},
			{Name: "bg_thresh_lo", Doc: "the overlap that background has", Default: float32(0)}, {Name: "bbox_reg_weights", Doc: "four numbers that codes are divided by", Default: usualWeights},
			{Name: "class_nums", Doc: "classes with background", Default: int32(81)}, {Name: "use_random", Doc: "whether chance chooses", Default: true},
			{Name: "is_cascade_rcnn", Doc: "whether a stage of a cascade takes all regions", Default: false},
			{Name: "is_cls_agnostic", Doc: "whether the codes of all classes have the place of class 1", Default: false}},
		Infer: inferProposalLabels, Bind: byFloat("RpnRois", bindProposalLabels[float32], bindProposalLabels[float64]), MixesRows: opkit.Mixes,
		Finds: &ops.Finding{Rows: map[string]string{"Rois": "Rois", "LabelsInt32": "Rois", "BboxTargets": "Rois", "BboxInsideWeights": "Rois", "BboxOutsideWeights": "Rois", "MaxOverlapWithGT": "Rois"}},
	})
}

// mostClasses bounds the rows of what has four numbers for each class.
const mostClasses = 1 << 20

func inferProposalLabels(s *ops.Shapes) error {
	for _, slot := range []string{"RpnRois", "GtBoxes"} {
		if err := boxesOf(s, slot); err != nil {
			return err
		}
	}
	if err := s.SameType("RpnRois", "GtBoxes", "ImInfo", "MaxOverlap"); err != nil {
		return err
	}
	if err := integers(s, "GtClasses", "IsCrowd", "RpnRoisNum"); err != nil {
		return err
	}
	if s.In("GtBoxes").LoDLevel == 0 {
		return s.Errorf("GtBoxes", "sequences: those of an image")
	}
	classes := s.Int("class_nums")
	if classes < 1 || classes > mostClasses || s.Bool("is_cls_agnostic") && classes < 2 {
		return opkit.BadAttr(s, "class_nums", "1 to %d, at least 2 where boxes have no class", mostClasses)
	}
	if v, err := positive(s, "bbox_reg_weights", usualWeights...); err != nil {
		return err
	} else if len(v) != 4 {
		return opkit.BadAttr(s, "bbox_reg_weights", "four numbers above 0")
	}
	dtype := s.In("RpnRois").DType
	s.SetAt("Rois", 0, rowsMeta(dtype, 4))
	s.SetAt("LabelsInt32", 0, rowsMeta(tensor.Int32, 1))
	for _, slot := range []string{"BboxTargets", "BboxInsideWeights", "BboxOutsideWeights"} {
		s.SetAt(slot, 0, rowsMeta(dtype, 4*classes))
	}
	m := rowsMeta(dtype, 1)
	m.Dims = m.Dims[:1]
	s.SetAt("MaxOverlapWithGT", 0, m)
	return nil
}

// A labelling holds what generate_proposal_labels needs.
type labelling[T tensor.Float] struct {
	size, most      int
	on, high, low   T
	weights         []float64
	classes         int
	cascade, united bool
	sampler         sampler

	boxes         []T // of one image, in pixels of the original one
	overlaps      []T
	with, objects []int32 // regions with an object, and these objects
	without       []int32

	regions, targets, inside, largest []T
	labels                            []int32
}

func bindProposalLabels[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	rois, classes, crowd, objects, info := b.In("RpnRois"), b.In("GtClasses"), b.In("IsCrowd"), b.In("GtBoxes"), b.In("ImInfo")
	counts, before := b.In("RpnRoisNum"), b.In("MaxOverlap")
	l := &labelling[T]{size: int(b.Int("batch_size_per_im")), on: T(b.Float("fg_thresh")), high: T(b.Float("bg_thresh_hi")), low: T(b.Float("bg_thresh_lo")),
		weights: floats(b, "bbox_reg_weights", usualWeights...), classes: int(b.Int("class_nums")), cascade: b.Bool("is_cascade_rcnn"), united: b.Bool("is_cls_agnostic"),
		sampler: newSampler(b, b.Bool("use_random"))}
	l.most = int(max(0, min(float64(l.size)*b.Float("fg_fraction"), float64(l.size))))
	var m maker
	var regions, given []int64
	offsets := []int64{0}
	return func(context.Context) error {
		var err error
		if regions, err = offsetsFrom(b, "RpnRois", rois, counts, regions); err != nil {
			return err
		}
		if given, err = offsetsFrom(b, "GtBoxes", objects, nil, given); err != nil {
			return err
		}
		images, rows := len(given)-1, objects.Len()/4
		if len(regions)-1 != images {
			return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("the regions of %d images", len(regions)-1), fault.Wantf("of %d, as GtBoxes has", images))
		}
		for _, err := range []error{sized(b, "GtClasses", classes, rows), sized(b, "IsCrowd", crowd, rows), sized(b, "ImInfo", info, 3*images)} {
			if err != nil {
				return err
			}
		}
		if before != nil {
			if err := sized(b, "MaxOverlap", before, rois.Len()/4); err != nil {
				return err
			}
		}
		l.regions, l.targets, l.inside, l.largest, l.labels, offsets = l.regions[:0], l.targets[:0], l.inside[:0], l.largest[:0], l.labels[:0], offsets[:1]
		for i := range images {
			l.sampler.begin(i)
			first, end := given[i], given[i+1]
			var earlier []T
			if before != nil {
				earlier = tensor.Data[T](before)[regions[i]:regions[i+1]]
			}
			if err := l.choose(b, tensor.Data[T](rois)[4*regions[i]:4*regions[i+1]], earlier, tensor.Data[T](objects)[4*first:4*end], classes.Int32s()[first:end], crowd.Int32s()[first:end],
				tensor.Data[T](info)[3*i+2]); err != nil {
				return err
			}
			offsets = append(offsets, int64(len(l.labels)))
		}
		return l.write(b, &m, offsets)
	}, nil
}

func (l *labelling[T]) write(b *ops.Binding, m *maker, offsets []int64) error {
	if err := makeRows(m, b.Out("Rois"), l.regions, 4, offsets); err != nil {
		return err
	}
	if err := makeRows(m, b.Out("LabelsInt32"), l.labels, 1, offsets); err != nil {
		return err
	}
	if err := makeRows(m, b.Out("BboxTargets"), l.targets, 4*l.classes, offsets); err != nil {
		return err
	}
	for _, slot := range []string{"BboxInsideWeights", "BboxOutsideWeights"} {
		if err := makeRows(m, b.Out(slot), l.inside, 4*l.classes, offsets); err != nil {
			return err
		}
	}
	t := b.Out("MaxOverlapWithGT")
	if t == nil {
		return nil
	}
	m.size[0] = int64(len(l.largest))
	if err := tensor.Resize(t, tensor.Of[T](), m.size[:1]...); err != nil {
		return err
	}
	copy(tensor.Data[T](t), l.largest)
	tensor.CopyLoD(t, m.lod[:])
	return nil
}

// choose appends the regions of one image. earlier has their overlaps in the stage before, if there are any.
func (l *labelling[T]) choose(b *ops.Binding, rois, earlier, objects []T, classes, crowd []int32, scale T) error {
	l.boxes = append(l.boxes[:0], objects...)
	for i := 0; i < len(rois); i += 4 {
		w, h := rois[i+2]-rois[i], rois[i+3]-rois[i+1]
		if l.cascade && !(w > 0 && h > 0 && (earlier == nil || earlier[i/4] < 1)) {
			continue
		}
		for _, v := range rois[i:][:4] {
			l.boxes = append(l.boxes, v/scale)
		}
	}
	l.with, l.objects, l.without = l.with[:0], l.objects[:0], l.without[:0]
	l.overlaps = grow(l.overlaps, len(l.boxes)/4)
	for i := range l.overlaps {
		largest, object := T(0), int32(-1)
		for j := range classes {
			if v := overlap(l.boxes[4*i:][:4], objects[4*j:][:4], false); v > largest {
				largest, object = v, int32(j)
			}
		}
		if i < len(crowd) && crowd[i] != 0 {
			largest = -1
		}
		l.overlaps[i] = largest
		switch {
		case object >= 0 && largest >= l.on:
			l.with, l.objects = append(l.with, int32(i)), append(l.objects, object)
		case largest >= l.low && largest < l.high:
			l.without = append(l.without, int32(i))
		}
	}
	if !l.cascade {
		l.with = l.with[:l.sampler.takeBoth(l.with, l.objects, l.most)]
		l.without = l.sampler.take(l.without, l.size-len(l.with))
	}
	for k, i := range l.with {
		class, box := classes[l.objects[k]], l.boxes[4*i:][:4]
		if class < 0 || int(class) >= l.classes {
			return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("GtClasses")), fault.Gotf("class %d", class), fault.Wantf("0 to %d", l.classes-1))
		}
		at := l.append(box, class, scale, l.overlaps[i])
		if class == 0 {
			continue
		}
		if l.united {
			class = 1
		}
		at += 4 * int(class)
		for d, v := range encodePixels(box, objects[4*l.objects[k]:][:4]) {
			l.targets[at+d], l.inside[at+d] = v/T(l.weights[d]), 1
		}
	}
	for _, i := range l.without {
		l.append(l.boxes[4*i:][:4], 0, scale, l.overlaps[i])
	}
	return nil
}

// append appends a region without a code, and returns where its codes begin.
func (l *labelling[T]) append(box []T, class int32, scale, largest T) int {
	for _, v := range box {
		l.regions = append(l.regions, v*scale)
	}
	at := len(l.targets)
	for range 4 * l.classes {
		l.targets, l.inside = append(l.targets, 0), append(l.inside, 0)
	}
	l.labels, l.largest = append(l.labels, class), append(l.largest, largest)
	return at
}
