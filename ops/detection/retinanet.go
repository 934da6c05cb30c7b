package detection

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "retinanet_detection_output", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Finds objects in the output of a pyramid of feature maps (Lin et al. 2017, RetinaNet): takes the nms_top_k scores of each level that are largest and above score_threshold, above 0 in the last " +
			"level; reads their boxes relative to the anchors, in pixels of the original image, limited to it; drops those that overlap a better one of their class by more than nms_threshold; and keeps " +
			"the keep_top_k with the largest scores. Classes count from 1.",
		Inputs: []ops.Slot{{Name: "BBoxes", Doc: "float [N, M, 4] of each level: codes of boxes", Duplicable: true}, {Name: "Scores", Doc: "[N, M, classes] of each level", Duplicable: true},
			{Name: "Anchors", Doc: "[M, 4] of each level", Duplicable: true}, {Name: "ImInfo", Doc: "[N, 3]: height, width and scale of each image"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows, 6], those of an image a sequence, in descending order: class, score, and the box"}},
		Attrs: []ops.Attr{{Name: "score_threshold", Doc: "the score that a box must exceed", Kind: float32(0)},
			{Name: "nms_top_k", Doc: "scores of a level that are looked at; -1 for all", Kind: int32(0)},
			{Name: "nms_threshold", Doc: "the largest overlap of boxes that are both kept", Kind: float32(0)},
			{Name: "nms_eta", Doc: "what nms_threshold is multiplied by after each box that is kept, as long as it is above 0.5", Default: float32(1)},
			{Name: "keep_top_k", Doc: "the most boxes of an image", Kind: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			boxes := s.Ins("BBoxes")
			if len(boxes) == 0 || len(boxes) != len(s.Ins("Scores")) || len(boxes) != len(s.Ins("Anchors")) {
				return s.Errorf("BBoxes", "boxes, scores and anchors of the same levels")
			}
			if err := s.IsFloat("BBoxes"); err != nil {
				return err
			}
			if err := s.SameType("BBoxes", "Scores", "Anchors", "ImInfo"); err != nil {
				return err
			}
			for i, m := range s.Ins("Scores") {
				if len(m.Dims) != 3 || len(boxes[i].Dims) != 3 {
					return s.Errorf("Scores", "dims [N, M, classes], and boxes [N, M, 4]")
				}
			}
			if !(s.Float("nms_eta") > 0) {
				return opkit.UnsupportedAttr(s, "nms_eta", "above 0; from 1 on the threshold stays")
			}
			if s.Int("keep_top_k") < 0 {
				return opkit.BadAttr(s, "keep_top_k", "at least 0")
			}
			s.SetAt("Out", 0, rowsMeta(boxes[0].DType, 6))
			return nil
		},
		Bind:      byFloat("BBoxes", bindRetina[float32], bindRetina[float64]),
		MixesRows: opkit.Mixes,
	})
}

func bindRetina[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	boxes, scores, anchors, info, out := b.Ins("BBoxes"), b.Ins("Scores"), b.Ins("Anchors"), b.In("ImInfo"), b.Out("Out")
	least, fade, topK, keep := T(b.Float("score_threshold")), T(b.Float("nms_eta")), int(b.Int("nms_top_k")), int(b.Int("keep_top_k"))
	limit := T(b.Float("nms_threshold"))
	var found, best, kept []detection[T] // box counts in decoded
	var decoded, rows []T
	var m maker
	offsets := []int64{0}
	one := []T{1, 1, 1, 1}
	return func(context.Context) error {
		images := int(scores[0].Dims()[0])
		if err := sized(b, "ImInfo", info, 3*images); err != nil {
			return err
		}
		rows, offsets = rows[:0], offsets[:1]
		for i := range images {
			image := tensor.Data[T](info)[3*i:][:3]
			found, decoded = found[:0], decoded[:0]
			for level, t := range scores {
				count, classes := int(t.Dims()[1]), int(t.Dims()[2])
				for _, err := range []error{sized(b, "Scores", t, images*count*classes), sized(b, "BBoxes", boxes[level], images*count*4), sized(b, "Anchors", anchors[level], count*4)} {
					if err != nil {
						return err
					}
				}
				threshold := least
				if level == len(scores)-1 {
					threshold = 0
				}
				best = best[:0]
				for at, s := range tensor.Data[T](t)[i*count*classes:][:count*classes] {
					if s > threshold {
						best = append(best, detection[T]{s, int32(at % classes), int32(at / classes)})
					}
				}
				slices.SortStableFunc(best, descending[T])
				if topK >= 0 && len(best) > topK {
					best = best[:topK]
				}
				for _, d := range best {
					var box [4]T
					decodeRegion(box[:], tensor.Data[T](boxes[level])[(i*count+int(d.box))*4:][:4], tensor.Data[T](anchors[level])[4*d.box:][:4], one, T(math.Inf(1)))
					for k, v := range box {
						side := T(math.Round(float64(image[1-k%2] / image[2])))
						decoded = append(decoded, max(min(v/image[2], side-1), 0))
					}
					found = append(found, detection[T]{d.score, d.class, int32(len(decoded)/4 - 1)})
				}
			}
			slices.SortStableFunc(found, byClass[T])
			kept = kept[:0]
			for first := 0; first < len(found); {
				end := first
				for end < len(found) && found[end].class == found[first].class {
					end++
				}
				slices.SortStableFunc(found[first:end], descending[T])
				kept = suppress(kept, found[first:end], decoded, limit, fade, false)
				first = end
			}
			slices.SortStableFunc(kept, descending[T])
			for _, k := range kept[:min(keep, len(kept))] {
				rows = append(append(rows, T(k.class)+1, k.score), decoded[4*k.box:][:4]...)
			}
			offsets = append(offsets, int64(len(rows)/6))
		}
		return makeRows(&m, out, rows, 6, offsets)
	}, nil
}
