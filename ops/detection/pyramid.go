package detection

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Networks with a pyramid of feature maps (Lin et al. 2017) pool each region from the map of the level that suits its size.

// mostLevels bounds the levels of a pyramid.
const mostLevels = 64

func init() {
	ops.Register(ops.Def{
		Type: "distribute_fpn_proposals", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Gives each region the level of a pyramid of feature maps that suits its size: floor(log2(sqrt(area)/refer_scale + 1e-6) + refer_level), from min_level to max_level.",
		Inputs: []ops.Slot{{Name: "FpnRois", Doc: "float boxes [rows, 4], those of an image a sequence, unless RoisNum is there"},
			{Name: "RoisNum", Doc: "int32 [N]: how many boxes each image has", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "MultiFpnRois", Doc: "boxes of each level, from min_level on, those of an image a sequence", Duplicable: true},
			{Name: "RestoreIndex", Doc: "int32 [rows, 1]: where each box stands in the boxes of all levels"},
			{Name: "MultiLevelRoIsNum", Doc: "int32 [N] for each level: how many of its boxes each image has", Duplicable: true, Dispensable: true}},
		Attrs: []ops.Attr{{Name: "min_level", Doc: "the lowest level", Kind: int32(0)}, {Name: "max_level", Doc: "the highest level", Kind: int32(0)},
			{Name: "refer_level", Doc: "the level of boxes of the size refer_scale", Kind: int32(0)}, {Name: "refer_scale", Doc: "side of a box, above 0", Kind: int32(0)},
			{Name: "pixel_offset", Doc: "whether a box includes the pixels of both sides", Default: true}},
		Infer:     inferDistribute,
		Bind:      byFloat("FpnRois", bindDistribute[float32], bindDistribute[float64]),
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type: "collect_fpn_proposals", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Takes the post_nms_topN regions with the largest scores of all levels of a pyramid and all images together; of equal scores those of lower levels. Those of an image stand in the order of their scores.",
		Inputs: []ops.Slot{{Name: "MultiLevelRois", Doc: "float boxes [rows, 4] of each level, those of an image a sequence", Duplicable: true},
			{Name: "MultiLevelScores", Doc: "[rows, 1] of each level, with the LoD of its boxes", Duplicable: true},
			{Name: "MultiLevelRoIsNum", Doc: "int32 [N] for each level: how many boxes each image has, in place of the LoD", Duplicable: true, Dispensable: true}},
		Outputs: []ops.Slot{{Name: "FpnRois", Doc: "[rows, 4], those of an image a sequence"}, {Name: "RoisNum", Doc: "int32 [N]: how many boxes each image has", Dispensable: true}},
		Attrs:   []ops.Attr{{Name: "post_nms_topN", Doc: "the most regions", Kind: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			rois := s.Ins("MultiLevelRois")
			if len(rois) == 0 || len(rois) != len(s.Ins("MultiLevelScores")) || s.Has("MultiLevelRoIsNum") && len(rois) != len(s.Ins("MultiLevelRoIsNum")) {
				return s.Errorf("MultiLevelRois", "boxes and scores of the same levels")
			}
			if err := s.IsFloat("MultiLevelRois"); err != nil {
				return err
			}
			if err := s.SameType("MultiLevelRois", "MultiLevelScores"); err != nil {
				return err
			}
			if s.Int("post_nms_topN") < 0 {
				return opkit.BadAttr(s, "post_nms_topN", "at least 0")
			}
			s.SetAt("FpnRois", 0, rowsMeta(rois[0].DType, 4))
			s.Set("RoisNum", tensor.Int32, program.Unknown)
			return nil
		},
		Bind:      byFloat("MultiLevelRois", bindCollect[float32], bindCollect[float64]),
		MixesRows: opkit.Mixes,
	})
}

func inferDistribute(s *ops.Shapes) error {
	if err := boxesOf(s, "FpnRois"); err != nil {
		return err
	}
	low, high := s.Int("min_level"), s.Int("max_level")
	if low < 0 || high < low || high > mostLevels {
		return opkit.BadAttr(s, "max_level", "min_level, which is %d, to %d", low, mostLevels)
	}
	if s.Int("refer_scale") < 1 {
		return opkit.BadAttr(s, "refer_scale", "at least 1")
	}
	for _, slot := range []string{"MultiFpnRois", "MultiLevelRoIsNum"} {
		if n := len(s.Outs(slot)); n != int(high-low+1) && (slot == "MultiFpnRois" || n > 0) {
			return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d variables in %s", n, slot), fault.Wantf("%d, one for each level", high-low+1))
		}
	}
	for i := range s.Outs("MultiFpnRois") {
		s.SetAt("MultiFpnRois", i, rowsMeta(s.In("FpnRois").DType, 4))
	}
	s.Set("RestoreIndex", tensor.Int32, s.In("FpnRois").Dims[0], 1)
	s.Set("MultiLevelRoIsNum", tensor.Int32, program.Unknown)
	return nil
}

func bindDistribute[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	rois, nums, restore := b.In("FpnRois"), b.In("RoisNum"), b.Out("RestoreIndex")
	outs, counts := b.Outs("MultiFpnRois"), b.Outs("MultiLevelRoIsNum")
	low, high, level, scale, normalized := b.Int("min_level"), b.Int("max_level"), float64(b.Int("refer_level")), float64(b.Int("refer_scale")), !b.Bool("pixel_offset")
	var m maker
	var offsets, made []int64
	var of []int64 // the level of each box
	var boxes []T
	var places []int32
	return func(context.Context) error {
		if err := sized(b, "FpnRois", rois, 4*int(rois.Dims()[0])); err != nil {
			return err
		}
		var err error
		if offsets, err = offsetsFrom(b, "FpnRois", rois, nums, offsets); err != nil {
			return err
		}
		n := rois.Len() / 4
		of, places = grow(of, n), grow(places, n)
		for i := range n {
			box := tensor.Data[T](rois)[4*i:][:4]
			area := 0.0
			if box[2] >= box[0] && box[3] >= box[1] {
				area = float64(span(box[0], box[2], normalized)) * float64(span(box[1], box[3], normalized))
			}
			at := math.Floor(math.Log2(math.Sqrt(area)/scale+1e-6) + level)
			of[i] = low
			if at > float64(low) { // not NaN
				of[i] = int64(min(at, float64(high)))
			}
		}
		at := int32(0)
		for k, out := range outs {
			boxes, made = boxes[:0], append(made[:0], 0)
			for image := range len(offsets) - 1 {
				for i := offsets[image]; i < offsets[image+1]; i++ {
					if of[i] == low+int64(k) {
						boxes = append(boxes, tensor.Data[T](rois)[4*i:][:4]...)
						places[i] = at
						at++
					}
				}
				made = append(made, int64(len(boxes)/4))
			}
			if err := makeRows(&m, out, boxes, 4, made); err != nil {
				return err
			}
			if k < len(counts) {
				if err := makeCounts(&m, counts[k], made); err != nil {
					return err
				}
			}
		}
		return makeRows(&m, restore, places, 1, nil)
	}, nil
}

// A scored is a region with its score, and where it stands.
type scored[T tensor.Float] struct {
	score       T
	image       int
	level, rank int32
}

func bindCollect[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	rois, scores, nums, out, counts := b.Ins("MultiLevelRois"), b.Ins("MultiLevelScores"), b.Ins("MultiLevelRoIsNum"), b.Out("FpnRois"), b.Out("RoisNum")
	most := int(b.Int("post_nms_topN"))
	var m maker
	var offsets, made []int64
	var all []scored[T]
	var boxes []T
	return func(context.Context) error {
		all = all[:0]
		images := 0
		for level, t := range rois {
			n := scores[level].Len()
			if err := sized(b, "MultiLevelRois", t, 4*n); err != nil {
				return err
			}
			var given *tensor.Tensor
			if len(nums) > 0 {
				given = nums[level]
			}
			var err error
			if offsets, err = offsetsFrom(b, "MultiLevelRois", t, given, offsets); err != nil {
				return err
			}
			if level > 0 && len(offsets)-1 != images {
				return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("%d images in level %d", len(offsets)-1, level), fault.Wantf("%d as in the first", images))
			}
			images = len(offsets) - 1
			for image := range images {
				for i := offsets[image]; i < offsets[image+1]; i++ {
					all = append(all, scored[T]{tensor.Data[T](scores[level])[i], image, int32(level), int32(i)})
				}
			}
		}
		slices.SortStableFunc(all, func(a, b scored[T]) int { return cmp.Compare(b.score, a.score) })
		all = all[:min(most, len(all))]
		slices.SortStableFunc(all, func(a, b scored[T]) int { return cmp.Compare(a.image, b.image) })
		boxes, made = boxes[:0], append(made[:0], 0)
		for image, at := 0, 0; image < images; image++ {
			for ; at < len(all) && all[at].image == image; at++ {
				boxes = append(boxes, tensor.Data[T](rois[all[at].level])[4*all[at].rank:][:4]...)
			}
			made = append(made, int64(at))
		}
		if err := makeRows(&m, out, boxes, 4, made); err != nil {
			return err
		}
		return makeCounts(&m, counts, made)
	}, nil
}
