package detection

import (
	"cmp"
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerNMS("multiclass_nms", "", nil)
	index := ops.Slot{Name: "Index", Doc: "int32 [rows, 1]: which box of BBoxes each is, counted over the batch"}
	registerNMS("multiclass_nms2", " It tells where the boxes come from.", []ops.Slot{index})
	registerNMS("multiclass_nms3", " It tells where the boxes come from, and how many each image has.", []ops.Slot{index,
		{Name: "NmsRoisNum", Doc: "int32 [N]: the number of rows of each image"}})
}

// registerNMS adds one generation of multiclass_nms. How many rows an output has is known only when the op has run.
func registerNMS(name, note string, more []ops.Slot) {
	empty := "; without rows [1, 1] with the number -1"
	if more != nil {
		empty = ""
	}
	ops.Register(ops.Def{
		Type: name, Class: ops.Control,
		Doc: "Keeps the best of boxes that overlap (non-maximum suppression), for each class of each image: takes the nms_top_k boxes whose scores are largest and above " +
			"score_threshold, in descending order, and drops a box whose overlap with one that is kept is above nms_threshold. Of what all classes keep, the keep_top_k with the " +
			"largest scores stay." + note,
		Inputs: []ops.Slot{{Name: "BBoxes", Doc: "float [N, M, 4], boxes"}, {Name: "Scores", Doc: "[N, classes, M]"}},
		Outputs: append([]ops.Slot{{Name: "Out", Doc: "[rows, 6], those of an image a sequence, class by class: class, score, and the box" + empty}},
			more...),
		Attrs: []ops.Attr{
			{Name: "background_label", Doc: "a class that is left out; -1 for none", Default: int32(0)},
			{Name: "score_threshold", Doc: "the score that a box must exceed", Kind: float32(0)},
			{Name: "nms_top_k", Doc: "number of boxes of a class that are looked at; -1 for all", Kind: int32(0)},
			{Name: "nms_threshold", Doc: "the largest overlap of boxes that are both kept", Default: float32(0.3)},
			{Name: "nms_eta", Doc: "what nms_threshold is multiplied by after each box that is kept, as long as it is above 0.5", Default: float32(1)},
			{Name: "keep_top_k", Doc: "the most boxes of an image; -1 for all", Kind: int32(0)},
			{Name: "normalized", Doc: normalizedAttr.Doc, Default: true}},
		Infer:     inferNMS,
		Bind:      bindNMS,
		MixesRows: bothDivided("BBoxes", "Scores"),
	})
}

func inferNMS(s *ops.Shapes) error {
	boxes, scores := s.In("BBoxes"), s.In("Scores")
	if len(boxes.Dims) == 3 && len(scores.Dims) == 2 {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Scores")), fault.Gotf("scores %v", scores.Dims), fault.Want("scores [N, classes, M]"))
	}
	if err := nmsInputs(s); err != nil {
		return err
	}
	if !(s.Float("nms_eta") > 0 && s.Float("nms_eta") <= 1) {
		return opkit.BadAttr(s, "nms_eta", "above 0, at most 1")
	}
	s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: boxes.DType, Dims: []int64{program.Unknown, program.Unknown}, LoDLevel: 1})
	s.SetAt("Index", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{program.Unknown, 1}, LoDLevel: 1})
	s.Set("NmsRoisNum", tensor.Int32, boxes.Dims[0])
	return nil
}

func bindNMS(b *ops.Binding) (ops.Kernel, error) {
	if b.In("BBoxes").DType() == tensor.Float64 {
		return bindSuppression[float64](b)
	}
	return bindSuppression[float32](b)
}

// A detection is a box that is kept.
type detection[T tensor.Float] struct {
	score      T
	class, box int32 // the box counts within its image
}

// A suppression holds what multiclass_nms needs for one image, and reuses it for the next.
type suppression[T tensor.Float] struct {
	background, topK, keep         int
	scoreLimit, overlapLimit, fade T
	normalized                     bool

	candidates, kept []detection[T] // of one class, of the image
}

func newSuppression[T tensor.Float](b *ops.Binding) *suppression[T] {
	return &suppression[T]{background: int(b.Int("background_label")), topK: int(b.Int("nms_top_k")), keep: int(b.Int("keep_top_k")),
		scoreLimit: T(b.Float("score_threshold")), overlapLimit: T(b.Float("nms_threshold")), fade: T(b.Float("nms_eta")), normalized: b.Bool("normalized")}
}

func descending[T tensor.Float](a, b detection[T]) int { return cmp.Compare(b.score, a.score) }

func byClass[T tensor.Float](a, b detection[T]) int { return cmp.Compare(a.class, b.class) }

// image finds what is kept of one image.
func (s *suppression[T]) image(boxes, scores []T, classes, count int) []detection[T] {
	s.kept = s.kept[:0]
	for class := range classes {
		if class != s.background {
			s.class(boxes, scores[class*count:][:count], int32(class))
		}
	}
	return s.limited()
}

// limited drops all but the best of what is kept of an image.
func (s *suppression[T]) limited() []detection[T] {
	if s.keep >= 0 && len(s.kept) > s.keep {
		slices.SortStableFunc(s.kept, descending[T])
		s.kept = s.kept[:s.keep]
		slices.SortStableFunc(s.kept, byClass[T])
	}
	return s.kept
}

// class adds what is kept of one class.
func (s *suppression[T]) class(boxes, scores []T, class int32) {
	s.candidates = s.candidates[:0]
	for box, score := range scores {
		if score > s.scoreLimit {
			s.candidates = append(s.candidates, detection[T]{score, class, int32(box)})
		}
	}
	slices.SortStableFunc(s.candidates, descending[T])
	if s.topK >= 0 && len(s.candidates) > s.topK {
		s.candidates = s.candidates[:s.topK]
	}
	s.kept = suppress(s.kept, s.candidates, boxes, s.overlapLimit, s.fade, s.normalized)
}

// suppress appends the candidates, the best first, that overlap none of those that it has appended by more than limit. fade lowers the limit after each, while it is
// above 0.5.
func suppress[T tensor.Float](kept, candidates []detection[T], boxes []T, limit, fade T, normalized bool) []detection[T] {
	first := len(kept)
next:
	for _, c := range candidates {
		for _, k := range kept[first:] {
			if overlap(boxes[4*c.box:][:4], boxes[4*k.box:][:4], normalized) > limit {
				continue next
			}
		}
		kept = append(kept, c)
		if fade < 1 && limit > 0.5 {
			limit *= fade
		}
	}
	return kept
}

func bindSuppression[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	boxes, scores, out, index, nums := b.In("BBoxes"), b.In("Scores"), b.Out("Out"), b.Out("Index"), b.Out("NmsRoisNum")
	s := newSuppression[T](b)
	indexed := len(b.Op().Outputs["Index"]) > 0
	var rows []T
	var places []int32
	offsets := []int64{0}
	lod, size := [][]int64{nil}, []int64{0, 0}
	return func(context.Context) error {
		dims := scores.Dims()
		images, classes, count := int(dims[0]), int(dims[1]), int(dims[2])
		rows, places, offsets = rows[:0], places[:0], offsets[:1]
		for i := range images {
			image := tensor.Data[T](boxes)[i*count*4:][:count*4]
			kept := s.image(image, tensor.Data[T](scores)[i*classes*count:][:classes*count], classes, count)
			for _, k := range kept {
				rows = append(append(rows, T(k.class), k.score), image[4*k.box:][:4]...)
				places = append(places, int32(i*count)+k.box)
			}
			offsets = append(offsets, int64(len(places)))
			if nums != nil {
				nums.Int32s()[i] = int32(len(kept))
			}
		}
		n, width := int64(len(places)), int64(6)
		if n == 0 && !indexed { // as Fluid says that there is nothing
			rows, n, width, offsets = append(rows, -1), 1, 1, append(offsets[:1], 1)
		}
		lod[0] = offsets
		if out != nil {
			size[0], size[1] = n, width
			if err := tensor.Resize(out, boxes.DType(), size...); err != nil {
				return err
			}
			copy(tensor.Data[T](out), rows)
			tensor.CopyLoD(out, lod)
		}
		if index != nil {
			size[0], size[1] = n, 1
			if err := tensor.Resize(index, tensor.Int32, size...); err != nil {
				return err
			}
			copy(index.Int32s(), places)
			tensor.CopyLoD(index, lod)
		}
		return nil
	}, nil
}
