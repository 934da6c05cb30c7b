package detection

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "mine_hard_examples", Class: ops.Control,
		Doc: "Chooses boxes without an object that a loss should look at, those with the largest losses. max_negative: of boxes without match whose MatchDist is below neg_dist_threshold, neg_pos_ratio " +
			"times as many as boxes with one. hard_example: of all boxes sample_size; boxes with a match that are not chosen lose it.",
		Inputs: []ops.Slot{{Name: "ClsLoss", Doc: "float [N, M]: the loss of each box"}, {Name: "LocLoss", Doc: "[N, M]: added to ClsLoss for hard_example", Dispensable: true},
			{Name: "MatchIndices", Doc: "int32 [N, M]: the object of each box, or -1"}, {Name: "MatchDist", Doc: "[N, M]: how similar they are"}},
		Outputs: []ops.Slot{{Name: "NegIndices", Doc: "int32 [rows, 1]: the boxes that are chosen, those of an image a sequence, in ascending order"},
			{Name: "UpdatedMatchIndices", Doc: "as MatchIndices"}},
		Attrs: []ops.Attr{{Name: "neg_pos_ratio", Doc: "for max_negative, above 0", Default: float32(1)}, {Name: "neg_dist_threshold", Doc: "for max_negative, between 0 and 1", Default: float32(0.5)},
			{Name: "sample_size", Doc: "for hard_example, from 1", Default: int32(0)},
			{Name: "mining_type", Doc: "max_negative or hard_example", Default: "max_negative", Check: func(op *program.Op) error {
				if kind, _ := op.Str("mining_type"); kind == "max_negative" || kind == "hard_example" {
					return nil
				}
				return errors.New("max_negative or hard_example")
			}}},
		Infer:     inferMine,
		Bind:      byFloat("ClsLoss", bindMine[float32], bindMine[float64]),
		MixesRows: opkit.MixesUnlike,
	})
}

func inferMine(s *ops.Shapes) error {
	if err := s.IsFloat("ClsLoss"); err != nil {
		return err
	}
	if err := s.Rank("ClsLoss", 2); err != nil {
		return err
	}
	for _, slot := range []string{"LocLoss", "MatchIndices", "MatchDist"} {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, s.In("ClsLoss").Dims) {
			return s.Errorf(slot, "dims %v as in ClsLoss", s.In("ClsLoss").Dims)
		}
	}
	if err := opkit.CheckType(s, "MatchIndices", s.In("MatchIndices").DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	switch {
	case s.Str("mining_type") == "hard_example" && s.Int("sample_size") < 1:
		return opkit.BadAttr(s, "sample_size", "at least 1")
	case s.Str("mining_type") == "max_negative" && !(s.Float("neg_pos_ratio") > 0):
		return opkit.BadAttr(s, "neg_pos_ratio", "above 0")
	case s.Str("mining_type") == "max_negative" && !(s.Float("neg_dist_threshold") > 0 && s.Float("neg_dist_threshold") < 1):
		return opkit.BadAttr(s, "neg_dist_threshold", "between 0 and 1")
	}
	s.SetAt("NegIndices", 0, rowsMeta(tensor.Int32, 1))
	s.Set("UpdatedMatchIndices", tensor.Int32, s.In("ClsLoss").Dims...)
	return s.SameType("ClsLoss", "LocLoss", "MatchDist")
}

func bindMine[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	loss, more, matches, dist, negatives, updated := b.In("ClsLoss"), b.In("LocLoss"), b.In("MatchIndices"), b.In("MatchDist"), b.Out("NegIndices"), b.Out("UpdatedMatchIndices")
	hard, ratio, threshold, size := b.Str("mining_type") == "hard_example", b.Float("neg_pos_ratio"), T(b.Float("neg_dist_threshold")), int(b.Int("sample_size"))
	var candidates []detection[T]
	var chosen, kept []int32
	var m maker
	offsets := []int64{0}
	return func(context.Context) error {
		images, boxes := int(loss.Dims()[0]), int(loss.Dims()[1])
		for _, t := range []*tensor.Tensor{more, matches, dist} {
			if t != nil {
				if err := sized(b, "an input", t, images*boxes); err != nil {
					return err
				}
			}
		}
		chosen, offsets, kept = chosen[:0], offsets[:1], append(kept[:0], matches.Int32s()...)
		for i := range images {
			candidates = candidates[:0]
			positive, first := 0, len(chosen)
			for k := range boxes {
				at := i*boxes + k
				matched := kept[at] != -1
				if matched {
					positive++
				}
				if !hard && (matched || !(tensor.Data[T](dist)[at] < threshold)) {
					continue
				}
				cost := tensor.Data[T](loss)[at]
				if hard && more != nil {
					cost += tensor.Data[T](more)[at]
				}
				candidates = append(candidates, detection[T]{score: cost, box: int32(k)})
			}
			n := size
			if !hard {
				n = int(min(float64(positive)*ratio, float64(boxes)))
			}
			slices.SortStableFunc(candidates, descending[T])
			candidates = candidates[:min(n, len(candidates))]
			slices.SortFunc(candidates, func(a, b detection[T]) int { return cmp.Compare(a.box, b.box) })
			for _, c := range candidates {
				if kept[i*boxes+int(c.box)] < 0 {
					chosen = append(chosen, c.box)
				}
			}
			if hard {
				for k, next := 0, 0; k < boxes; k++ {
					if next < len(candidates) && int(candidates[next].box) == k {
						next++
					} else {
						kept[i*boxes+k] = -1
					}
				}
			}
			offsets = append(offsets, offsets[len(offsets)-1]+int64(len(chosen)-first))
		}
		if err := makeRows(&m, negatives, chosen, 1, offsets); err != nil {
			return err
		}
		if updated != nil {
			if err := tensor.Resize(updated, tensor.Int32, matches.Dims()...); err != nil {
				return err
			}
			copy(updated.Int32s(), kept)
		}
		return nil
	}, nil
}
