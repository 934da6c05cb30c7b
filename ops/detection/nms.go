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
	registerNMS("multiclass_nms", "", nil, nil)
	index := ops.Slot{Name: "Index", Doc: "int32 [rows, 1]: which box of BBoxes each is, counted over the batch and the classes that have boxes of their own"}
	registerNMS("multiclass_nms2", " It tells where the boxes come from.", nil, []ops.Slot{index})
	registerNMS("multiclass_nms3", " It tells where the boxes come from, and how many each image has.",
		[]ops.Slot{{Name: "RoisNum", Doc: "int32 [N], with boxes for each class: the number of rows of each image, in place of sequences", Dispensable: true}},
		[]ops.Slot{index, {Name: "NmsRoisNum", Doc: "int32 [N]: the number of rows of each image"}})
}

// registerNMS adds one generation of multiclass_nms. How many rows an output has is known only when the op has run.
func registerNMS(name, note string, counts, more []ops.Slot) {
	empty := "; without rows [1, 1] with the number -1"
	if more != nil {
		empty = ""
	}
	ops.Register(ops.Def{
		Type: name, Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Keeps the best of boxes that overlap (non-maximum suppression), for each class of each image: takes the nms_top_k boxes whose scores are largest and above " +
			"score_threshold, in descending order, and drops a box whose overlap with one that is kept is above nms_threshold. Of what all classes keep, the keep_top_k with the " +
			"largest scores stay." + note,
		Inputs: append([]ops.Slot{{Name: "BBoxes", Doc: "float [N, M, 4], boxes; or [rows, classes, 4], a box for each class, of which an image has a sequence"},
			{Name: "Scores", Doc: "[N, classes, M], or [rows, classes]"}}, counts...),
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
		Infer: inferNMS,
		Bind:  bindNMS,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return len(s.In("Scores").Dims) == 2 || bothDivided("BBoxes", "Scores")(s, divided)
		},
	})
}

func inferNMS(s *ops.Shapes) error {
	boxes, scores := s.In("BBoxes"), s.In("Scores")
	images := boxes.Dims
	if len(scores.Dims) == 2 {
		images = []int64{program.Unknown}
		if err := classBoxes(s); err != nil {
			return err
		}
	} else if err := nmsInputs(s); err != nil {
		return err
	}
	if !(s.Float("nms_eta") > 0) {
		return opkit.UnsupportedAttr(s, "nms_eta", "above 0; from 1 on the threshold stays")
	}
	s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: boxes.DType, Dims: []int64{program.Unknown, program.Unknown}, LoDLevel: 1})
	s.SetAt("Index", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{program.Unknown, 1}, LoDLevel: 1})
	s.SetAt("NmsRoisNum", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: images[:1]})
	return nil
}

// classBoxes checks boxes for each class, and their scores.
func classBoxes(s *ops.Shapes) error {
	if err := s.IsFloat("BBoxes"); err != nil {
		return err
	}
	if err := s.SameType("BBoxes", "Scores"); err != nil {
		return err
	}
	scores := s.In("Scores").Dims
	if !ops.Compatible(s.In("BBoxes").Dims, []int64{scores[0], scores[1], 4}) {
		return s.Errorf("BBoxes", "dims [rows, classes, 4] for scores %v", scores)
	}
	if counts := s.In("RoisNum"); s.Has("RoisNum") && (counts.DType != tensor.Int32 || len(counts.Dims) != 1) {
		return s.Errorf("RoisNum", "a vector of int32")
	}
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
	boxes, scores    []T            // of one class, if each has its own
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

// rows is image for boxes [rows, classes, 4] and scores [rows, classes].
func (s *suppression[T]) rows(boxes, scores []T, classes int) []detection[T] {
	s.kept = s.kept[:0]
	for class := range classes {
		if class == s.background {
			continue
		}
		s.boxes, s.scores = s.boxes[:0], s.scores[:0]
		for at := class; at < len(scores); at += classes {
			s.boxes, s.scores = append(s.boxes, boxes[4*at:][:4]...), append(s.scores, scores[at])
		}
		s.class(s.boxes, s.scores, int32(class))
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
	var ends []int64 // of the rows of each image, if classes have boxes of their own
	return func(context.Context) (err error) {
		dims := scores.Dims()
		images, classes, count, each := int(dims[0]), int(dims[1]), 0, len(dims) == 2
		if !each {
			count = int(dims[2])
		} else if ends, err = rowsOfImages(b, ends[:0], dims[0]); err != nil {
			return err
		} else {
			images = len(ends)
		}
		rows, places, offsets = rows[:0], places[:0], offsets[:1]
		if size[0] = int64(images); nums != nil && !slices.Equal(nums.Dims(), size[:1]) {
			if err := tensor.Resize(nums, tensor.Int32, size[:1]...); err != nil {
				return err
			}
		}
		first := 0
		for i := range images {
			var kept []detection[T]
			image := tensor.Data[T](boxes)
			if each {
				to := int(ends[i])
				image = image[first*classes*4 : to*classes*4]
				kept = s.rows(image, tensor.Data[T](scores)[first*classes:to*classes], classes)
			} else {
				image = image[i*count*4:][:count*4]
				kept = s.image(image, tensor.Data[T](scores)[i*classes*count:][:classes*count], classes, count)
			}
			for _, k := range kept {
				at, before := int(k.box), first
				if each {
					at, before = at*classes+int(k.class), first*classes
				}
				rows = append(append(rows, T(k.class), k.score), image[4*at:][:4]...)
				places = append(places, int32(before+at))
			}
			if first += count; each {
				first = int(ends[i])
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

// rowsOfImages appends where the rows of each image end: as RoisNum says, else as the sequences of the boxes; without both they are of one image.
func rowsOfImages(b *ops.Binding, ends []int64, rows int64) ([]int64, error) {
	if counts := b.In("RoisNum"); counts != nil {
		end := int64(0)
		for _, n := range counts.Int32s() {
			if end += int64(n); n < 0 || end > rows {
				return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("RoisNum")), fault.Gotf("images of %v rows", counts.Int32s()), fault.Wantf("%d in all", rows))
			}
			ends = append(ends, end)
		}
		return ends, nil
	}
	lod := b.In("BBoxes").LoD()
	if len(lod) == 0 {
		lod = b.In("Scores").LoD()
	}
	if len(lod) == 0 {
		return append(ends, rows), nil
	}
	offsets := lod[len(lod)-1]
	if len(offsets) == 0 || offsets[len(offsets)-1] != rows {
		return nil, fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Var(b.Op().In("BBoxes")), fault.Gotf("sequences that do not end at row %d", rows), fault.Want("those of the rows"))
	}
	return append(ends, offsets[1:]...), nil
}
