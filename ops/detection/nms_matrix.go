package detection

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "matrix_nms", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Lowers the scores of boxes that overlap better ones (Wang et al. 2020, SOLOv2): of the nms_top_k boxes of a class with the largest scores above score_threshold, box i keeps its " +
			"score times the least of (1 - o_ij)/(1 - m_j) over the better boxes j, with o_ij their overlap and m_j the largest of box j with a better one; with use_gaussian of " +
			"exp((m_j**2 - o_ij**2)*gaussian_sigma). Boxes whose score is then above post_threshold stay, the keep_top_k with the largest scores of an image.",
		Inputs: []ops.Slot{{Name: "BBoxes", Doc: "float [N, M, 4], boxes"}, {Name: "Scores", Doc: "[N, classes, M]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows, 6], those of an image a sequence, in descending order: class, score, and the box"},
			{Name: "Index", Doc: "int32 [rows, 1]: which box of BBoxes each is, counted over the batch"},
			{Name: "RoisNum", Doc: "int32 [N]: how many boxes each image has", Dispensable: true}},
		Attrs: []ops.Attr{{Name: "background_label", Doc: "a class that is left out; -1 for none", Default: int32(0)},
			{Name: "score_threshold", Doc: "the score that a box must exceed", Kind: float32(0)},
			{Name: "post_threshold", Doc: "the lowered score that a box must exceed", Default: float32(0)},
			{Name: "nms_top_k", Doc: "number of boxes of a class that are looked at; -1 for all", Kind: int32(0)},
			{Name: "keep_top_k", Doc: "the most boxes of an image; -1 for all", Kind: int32(0)},
			{Name: "normalized", Doc: normalizedAttr.Doc, Default: true},
			{Name: "use_gaussian", Doc: "whether scores decay by the normal distribution", Default: false},
			{Name: "gaussian_sigma", Doc: "how fast they decay then", Default: float32(2)}},
		Infer: func(s *ops.Shapes) error {
			if err := nmsInputs(s); err != nil {
				return err
			}
			dtype := s.In("BBoxes").DType
			s.SetAt("Out", 0, rowsMeta(dtype, 6))
			s.SetAt("Index", 0, rowsMeta(tensor.Int32, 1))
			s.Set("RoisNum", tensor.Int32, s.In("BBoxes").Dims[0])
			return nil
		},
		Bind:      byFloat("BBoxes", bindMatrixNMS[float32], bindMatrixNMS[float64]),
		MixesRows: bothDivided("BBoxes", "Scores"),
	})
	ops.Register(ops.Def{
		Type: "locality_aware_nms", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Merges neighbours that overlap, and keeps the best of the rest (Zhou et al. 2017, EAST): goes over the boxes of an image in their order, and merges a box whose overlap with the one " +
			"before is above nms_threshold into it, with the scores as weights and their sum as its score. The rest is as multiclass_nms.",
		Inputs:  []ops.Slot{{Name: "BBoxes", Doc: "float [N, M, 4], boxes"}, {Name: "Scores", Doc: "[N, classes, M]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows, 6], those of an image a sequence, class by class: class, score, and the box; without rows [1, 1] with the number -1"}},
		Attrs: []ops.Attr{{Name: "background_label", Doc: "a class that is left out; -1 for none", Default: int32(-1)},
			{Name: "score_threshold", Doc: "the score that a box must exceed", Kind: float32(0)},
			{Name: "nms_top_k", Doc: "number of boxes of a class that are looked at; -1 for all", Kind: int32(0)},
			{Name: "nms_threshold", Doc: "the largest overlap of boxes that are both kept", Default: float32(0.3)},
			{Name: "nms_eta", Doc: "what nms_threshold is multiplied by after each box that is kept, as long as it is above 0.5", Default: float32(1)},
			{Name: "keep_top_k", Doc: "the most boxes of an image; -1 for all", Kind: int32(0)},
			{Name: "normalized", Doc: normalizedAttr.Doc, Default: true}},
		Infer:     inferNMS,
		Bind:      byFloat("BBoxes", bindLocalityNMS[float32], bindLocalityNMS[float64]),
		MixesRows: bothDivided("BBoxes", "Scores"),
	})
}

// A decaying holds what matrix_nms needs for one image.
type decaying[T tensor.Float] struct {
	background, topK, keep int
	least, after, sigma    float64
	normalized, gaussian   bool

	candidates, kept []detection[T]
	most             []float64 // the largest overlap of each candidate with a better one
}

func (d *decaying[T]) class(boxes, scores []T, class int32) {
	d.candidates = d.candidates[:0]
	for box, score := range scores {
		if float64(score) > d.least {
			d.candidates = append(d.candidates, detection[T]{score, class, int32(box)})
		}
	}
	slices.SortStableFunc(d.candidates, descending[T])
	if d.topK >= 0 && len(d.candidates) > d.topK {
		d.candidates = d.candidates[:d.topK]
	}
	d.most = grow(d.most, len(d.candidates))
	for i, c := range d.candidates {
		d.most[i] = 0
		decay := 1.0
		for j, better := range d.candidates[:i] {
			o := float64(overlap(boxes[4*c.box:][:4], boxes[4*better.box:][:4], d.normalized))
			d.most[i] = max(d.most[i], o)
			if d.gaussian {
				decay = min(decay, math.Exp((d.most[j]*d.most[j]-o*o)*d.sigma))
			} else {
				decay = min(decay, (1-o)/(1-d.most[j]))
			}
		}
		if score := float64(c.score) * decay; score > d.after {
			d.kept = append(d.kept, detection[T]{T(score), class, c.box})
		}
	}
}

func bindMatrixNMS[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	boxes, scores, out, index, nums := b.In("BBoxes"), b.In("Scores"), b.Out("Out"), b.Out("Index"), b.Out("RoisNum")
	d := &decaying[T]{background: int(b.Int("background_label")), topK: int(b.Int("nms_top_k")), keep: int(b.Int("keep_top_k")), least: b.Float("score_threshold"),
		after: b.Float("post_threshold"), sigma: b.Float("gaussian_sigma"), normalized: b.Bool("normalized"), gaussian: b.Bool("use_gaussian")}
	var rows []T
	var places []int32
	var m maker
	offsets := []int64{0}
	return func(context.Context) error {
		dims := scores.Dims()
		images, classes, count := int(dims[0]), int(dims[1]), int(dims[2])
		if err := sized(b, "BBoxes", boxes, 4*images*count); err != nil {
			return err
		}
		rows, places, offsets = rows[:0], places[:0], offsets[:1]
		for i := range images {
			image := tensor.Data[T](boxes)[i*count*4:][:count*4]
			d.kept = d.kept[:0]
			for class := range classes {
				if class != d.background {
					d.class(image, tensor.Data[T](scores)[(i*classes+class)*count:][:count], int32(class))
				}
			}
			slices.SortStableFunc(d.kept, descending[T])
			if d.keep >= 0 && len(d.kept) > d.keep {
				d.kept = d.kept[:d.keep]
			}
			for _, k := range d.kept {
				rows, places = append(append(rows, T(k.class), k.score), image[4*k.box:][:4]...), append(places, int32(i*count)+k.box)
			}
			offsets = append(offsets, int64(len(places)))
		}
		if err := makeRows(&m, out, rows, 6, offsets); err != nil {
			return err
		}
		if err := makeRows(&m, index, places, 1, offsets); err != nil {
			return err
		}
		return makeCounts(&m, nums, offsets)
	}, nil
}

func bindLocalityNMS[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	boxes, scores, out := b.In("BBoxes"), b.In("Scores"), b.Out("Out")
	s := newSuppression[T](b)
	least := s.scoreLimit
	s.scoreLimit = T(math.Inf(-1)) // merged boxes alone have a score
	var merged, weights, rows []T
	var m maker
	offsets := []int64{0}
	return func(context.Context) error {
		dims := scores.Dims()
		images, classes, count := int(dims[0]), int(dims[1]), int(dims[2])
		if err := sized(b, "BBoxes", boxes, 4*images*count); err != nil {
			return err
		}
		rows, offsets = rows[:0], offsets[:1]
		merged, weights = grow(merged, 4*count), grow(weights, count)
		for i := range images {
			copy(merged, tensor.Data[T](boxes)[i*count*4:][:count*4])
			s.kept = s.kept[:0]
			for class := range classes { // each class goes on with the boxes that the class before has merged, as in Fluid
				if class == s.background {
					continue
				}
				copy(weights, tensor.Data[T](scores)[(i*classes+class)*count:][:count])
				mergeNeighbours(merged, weights, s.overlapLimit, least, s.normalized)
				s.class(merged, weights, int32(class))
			}
			for _, k := range s.limited() {
				rows = append(append(rows, T(k.class), k.score), merged[4*k.box:][:4]...)
			}
			offsets = append(offsets, int64(len(rows)/6))
		}
		if len(rows) == 0 { // as Fluid says that there is nothing
			rows = append(rows, -1)
			return makeRows(&m, out, rows, 1, append(offsets[:1], 1))
		}
		return makeRows(&m, out, rows, 6, offsets)
	}, nil
}

// mergeNeighbours merges boxes into those before them, and adds up their scores. What is not above least, or has been merged, gets the score minus infinity.
func mergeNeighbours[T tensor.Float](boxes, scores []T, limit, least T, normalized bool) {
	last := -1
	for i := range scores {
		box := boxes[4*i:][:4]
		if last >= 0 {
			if to := boxes[4*last:][:4]; overlap(box, to, normalized) > limit {
				for k := range to {
					to[k] = (box[k]*scores[i] + to[k]*scores[last]) / (scores[i] + scores[last])
				}
				scores[last] += scores[i]
				scores[i] = T(math.Inf(-1))
				continue
			}
		}
		last = i
	}
	for i, v := range scores {
		if !(v > least) {
			scores[i] = T(math.Inf(-1))
		}
	}
}

// nmsInputs checks boxes [N, M, 4] and scores [N, classes, M].
func nmsInputs(s *ops.Shapes) error {
	if err := s.IsFloat("BBoxes"); err != nil {
		return err
	}
	if err := s.SameType("BBoxes", "Scores"); err != nil {
		return err
	}
	if err := s.Rank("BBoxes", 3); err != nil {
		return err
	}
	boxes, scores := s.In("BBoxes"), s.In("Scores")
	if boxes.Dims[2] > 4 {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("BBoxes")), fault.Gotf("boxes of %d numbers", boxes.Dims[2]), fault.Want("4"))
	}
	if !ops.Compatible(boxes.Dims, []int64{boxes.Dims[0], boxes.Dims[1], 4}) {
		return s.Errorf("BBoxes", "dims [N, M, 4]")
	}
	if len(scores.Dims) != 3 || !opkit.Agree(scores.Dims[0], boxes.Dims[0]) || !opkit.Agree(scores.Dims[2], boxes.Dims[1]) {
		return s.Errorf("Scores", "dims [N, classes, M] for boxes %v", boxes.Dims)
	}
	return nil
}
