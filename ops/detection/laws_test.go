package detection_test

import (
	"maps"
	"math"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/detection"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type (
	slots = map[string][]*tensor.Tensor
	attrs = map[string]program.Attr
	dims  = []int64
)

// of divides the rows of t into sequences at the offsets.
func of(t *tensor.Tensor, offsets ...int64) *tensor.Tensor {
	t.SetLoD([][]int64{offsets})
	return t
}

func image(h, w int64) *tensor.Tensor { return Spread(1, 1, 1, h, w) }

var (
	ln2   = math.Log(2)
	boxes = Floats(dims{2, 4}, 0, 0, 4, 4, 2, 2, 6, 4)

	boxCases = []Case{
		// One place in the middle of an image of 10 x 20: a square of side 2, boxes of ratio 4 and 1/4, and a square of side sqrt(2*8).
		{Type: "prior_box", Inputs: slots{"Input": One(image(1, 1)), "Image": One(image(10, 20))},
			Attrs: attrs{"min_sizes": []float32{2}, "max_sizes": []float32{8}, "aspect_ratios": []float32{4, 1}, "variances": []float32{1, 1, 2, 2}},
			Want: slots{"Boxes": One(Floats(dims{1, 1, 4, 4}, .45, .4, .55, .6, .4, .45, .6, .55, .475, .3, .525, .7, .4, .3, .6, .7)),
				"Variances": One(Floats(dims{1, 1, 4, 4}, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2))}},
		{Type: "prior_box", Name: "order, no flip", Inputs: slots{"Input": One(image(1, 2)), "Image": One(image(10, 20))},
			Attrs: attrs{"min_sizes": []float32{2}, "max_sizes": []float32{8}, "aspect_ratios": []float32{4}, "flip": false, "min_max_aspect_ratios_order": true},
			Want:  slots{"Boxes": One(Floats(dims{1, 2, 3, 4}, .2, .4, .3, .6, .15, .3, .35, .7, .15, .45, .35, .55, .7, .4, .8, .6, .65, .3, .85, .7, .65, .45, .85, .55))}},
		{Type: "prior_box", Name: "steps, no clip", Inputs: slots{"Input": One(image(1, 1)), "Image": One(image(10, 10))},
			Attrs: attrs{"min_sizes": []float32{4}, "step_w": float32(2), "step_h": float32(4), "offset": float32(0.25), "clip": false},
			Want:  slots{"Boxes": One(Floats(dims{1, 1, 1, 4}, -.15, -.1, .25, .3))}},
		{Type: "density_prior_box", Inputs: slots{"Input": One(image(1, 1)), "Image": One(image(8, 8))},
			Attrs: attrs{"fixed_sizes": []float32{2}, "fixed_ratios": []float32{1}, "densities": []int32{2}},
			Want:  slots{"Boxes": One(Floats(dims{1, 1, 4, 4}, .125, .125, .375, .375, .625, .125, .875, .375, .125, .625, .375, .875, .625, .625, .875, .875))}},
		{Type: "density_prior_box", Name: "rows", Inputs: slots{"Input": One(image(2, 1)), "Image": One(image(8, 8))},
			Attrs: attrs{"fixed_sizes": []float32{4, 2}, "fixed_ratios": []float32{1, 4}, "densities": []int32{1, 2}, "flatten_to_2d": true}},
		{Type: "anchor_generator", Inputs: slots{"Input": One(image(1, 2))},
			Attrs: attrs{"anchor_sizes": []float32{32}, "aspect_ratios": []float32{1}, "stride": []float32{16, 16}},
			Want:  slots{"Anchors": One(Floats(dims{1, 2, 1, 4}, -8, -8, 23, 23, 8, -8, 39, 23))}},
		{Type: "anchor_generator", Name: "ratios", Inputs: slots{"Input": One(image(2, 1))},
			Attrs: attrs{"anchor_sizes": []float32{32, 64}, "aspect_ratios": []float32{.5, 2}, "stride": []float32{16, 8}, "offset": float32(0)}},

		{Type: "iou_similarity", Inputs: slots{"X": One(of(Floats(dims{1, 4}, 0, 0, 4, 4), 0, 1)), "Y": One(Floats(dims{3, 4}, 2, 2, 6, 4, 0, 0, 4, 4, 5, 5, 6, 6))},
			Want: slots{"Out": One(Floats(dims{1, 3}, 0.2, 1, 0))}},
		{Type: "iou_similarity", Name: "pixels", Inputs: slots{"X": One(Floats(dims{1, 4}, 0, 0, 1, 1)), "Y": One(Floats(dims{1, 4}, 1, 0, 2, 1))},
			Attrs: attrs{"box_normalized": false}, Want: slots{"Out": One(Floats(dims{1, 1}, 1./3))}},
		{Type: "box_coder", Name: "encode", Inputs: slots{"PriorBox": One(boxes), "PriorBoxVar": One(Floats(dims{2, 4}, 1, 1, 1, 1, .5, 1, 2, 1)),
			"TargetBox": One(Floats(dims{1, 4}, 2, 0, 10, 4))},
			Want: slots{"OutputBox": One(Floats(dims{1, 2, 4}, 1, 0, ln2, 0, 1, -0.5, ln2/2, ln2))}},
		{Type: "box_coder", Name: "decode", Inputs: slots{"PriorBox": One(boxes), "TargetBox": One(Floats(dims{1, 2, 4}, 1, 0, ln2, 0, 0, 0, 0, 0))},
			Attrs: attrs{"code_type": "decode_center_size"}, Want: slots{"OutputBox": One(Floats(dims{1, 2, 4}, 2, 0, 10, 4, 2, 2, 6, 4))}},
		{Type: "box_coder", Name: "decode, rows, pixels", Inputs: slots{"PriorBox": One(boxes), "TargetBox": One(Spread(1, 2, 3, 4))},
			Attrs: attrs{"code_type": "decode_center_size", "axis": int32(1), "box_normalized": false, "variance": usual}},
		{Type: "box_coder", Name: "one variance", Inputs: slots{"PriorBox": One(boxes), "PriorBoxVar": One(Floats(dims{4}, 2, 1, 1, 1)), "TargetBox": One(Floats(dims{1, 2, 4}, 1, 0, 0, 0, 0, 0, 0, 0))},
			Attrs: attrs{"code_type": "decode_center_size"}, Want: slots{"OutputBox": One(Floats(dims{1, 2, 4}, 8, 0, 12, 4, 2, 2, 6, 4))}},
		{Type: "box_clip", Inputs: slots{"Input": One(of(Floats(dims{2, 4}, -3, 2, 30, 30, 1, 1, 3, 30), 0, 1, 2)), "ImInfo": One(Floats(dims{2, 3}, 20, 10, 2, 10, 10, 1))},
			Want: slots{"Output": One(Floats(dims{2, 4}, 0, 2, 4, 9, 1, 1, 3, 9))}},
		{Type: "polygon_box_transform", Inputs: slots{"Input": One(Floats(dims{1, 2, 2, 2}, 1, 1, 1, 1, 2, 2, 2, 2))},
			Want: slots{"Output": One(Floats(dims{1, 2, 2, 2}, -1, 3, -1, 3, -2, -2, 2, 2))}},

		// All logits are 0, so sigmoids are 1/2: each box lies in the middle of its place and is as large as the anchor.
		{Type: "yolo_box", Inputs: slots{"X": One(Floats(dims{1, 6, 1, 2}, make([]float64, 12)...)), "ImgSize": One(Int32s(dims{1, 2}, 32, 64))},
			Attrs: attrs{"anchors": []int32{16, 8}, "class_num": int32(1)},
			Want:  slots{"Boxes": One(Floats(dims{1, 2, 4}, 8, 12, 24, 20, 40, 12, 56, 20)), "Scores": One(Floats(dims{1, 2, 1}, .25, .25))}},
		// 1/2 to the powers of 1/4 and 3/4, times 1/2; the overlap of the second image is s(ln 3) = 3/4.
		{Type: "yolo_box", Name: "overlap", Inputs: slots{"X": One(Floats(dims{2, 7, 1, 1}, 0, 0, 0, 0, 0, 0, 0, math.Log(3), 0, 0, 0, 0, 0, 0)), "ImgSize": One(Int32s(dims{2, 2}, 3, 3, 3, 3))},
			Attrs: attrs{"anchors": []int32{1, 1}, "class_num": int32(1), "iou_aware": true, "iou_aware_factor": float32(0.75)},
			Want:  slots{"Scores": One(Floats(dims{2, 1, 1}, 0.25, math.Pow(0.5, 0.25)*math.Pow(0.75, 0.75)/2))}},
		{Type: "yolo_box", Name: "threshold", Inputs: slots{"X": One(Spread(1, 2, 14, 2, 1)), "ImgSize": One(Int32s(dims{2, 2}, 32, 64, 16, 16))},
			Attrs: attrs{"anchors": []int32{16, 8, 4, 4}, "class_num": int32(2), "conf_thresh": float32(0.5), "scale_x_y": float32(1.5), "clip_bbox": false}},

		// The second object takes the first box, because they are more similar than any others; the first object gets what is left.
		{Type: "bipartite_match", Inputs: slots{"DistMat": One(Floats(dims{2, 3}, .8, .3, .2, .9, .7, .6))},
			Want: slots{"ColToRowMatchIndices": One(Int32s(dims{1, 3}, 1, 0, -1)), "ColToRowMatchDist": One(Floats(dims{1, 3}, .9, .3, 0))}},
		{Type: "bipartite_match", Name: "per prediction", Inputs: slots{"DistMat": One(of(Floats(dims{3, 3}, .8, .3, .2, .9, .7, .6, .1, 0, .2), 0, 2, 3))},
			Attrs: attrs{"match_type": "per_prediction"},
			Want:  slots{"ColToRowMatchIndices": One(Int32s(dims{2, 3}, 1, 0, 1, -1, -1, 0)), "ColToRowMatchDist": One(Floats(dims{2, 3}, .9, .3, .6, 0, 0, .2))}},
		{Type: "target_assign", Inputs: slots{"X": One(of(Floats(dims{2, 1, 2}, 1, 2, 3, 4), 0, 1, 2)), "MatchIndices": One(Int32s(dims{2, 2}, 0, -1, -1, 0)),
			"NegIndices": One(of(Int32s(dims{1, 1}, 0), 0, 0, 1))}, Attrs: attrs{"mismatch_value": int32(9)},
			Want: slots{"Out": One(Floats(dims{2, 2, 2}, 1, 2, 9, 9, 9, 9, 3, 4))}},
		{Type: "target_assign", Name: "per box", Inputs: slots{"X": One(of(Floats(dims{2, 2, 1}, 1, 2, 3, 4), 0, 2)), "MatchIndices": One(Int32s(dims{1, 2}, 1, 0))},
			Want: slots{"Out": One(Floats(dims{1, 2, 1}, 3, 2))}},
	}

	usual = []float32{0.1, 0.1, 0.2, 0.2}
	twoOf = func(values ...float64) *tensor.Tensor { return of(Floats(dims{2, 4}, values...), 0, 1, 2) }
	pool2 = attrs{"pooled_height": int32(2), "pooled_width": int32(2)}

	regionCases = []Case{
		{Type: "roi_pool", Inputs: slots{"X": One(Floats(dims{1, 1, 2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)), "ROIs": One(of(Floats(dims{1, 4}, 0, 0, 2, 1), 0, 1))}, Attrs: pool2,
			Constant: []string{"ROIs"}, Want: slots{"Out": One(Floats(dims{1, 1, 2, 2}, 2, 3, 6, 7)), "Argmax": One(Ints(dims{1, 1, 2, 2}, 1, 2, 5, 6))}},
		{Type: "roi_pool", Name: "images", Inputs: slots{"X": One(Spread(1, 2, 2, 4, 3)), "ROIs": One(twoOf(0, 0, 5, 7, 2, 4, 30, 30))}, Constant: []string{"ROIs"},
			Attrs: attrs{"pooled_height": int32(2), "pooled_width": int32(3), "spatial_scale": float32(0.5)}},
		{Type: "roi_pool", Name: "numbers", Inputs: slots{"X": One(Spread(1, 2, 1, 4, 3)), "ROIs": One(Floats(dims{2, 4}, 0, 0, 2, 3, 1, 1, 2, 2)),
			"RoisNum": One(Int32s(dims{2}, 0, 2))}, Constant: []string{"ROIs"}, Attrs: pool2},
		// A point in the middle of each place of the region, which the four places around it share.
		{Type: "roi_align", Inputs: slots{"X": One(Floats(dims{1, 1, 2, 3}, 0, 2, 4, 10, 12, 14)), "ROIs": One(of(Floats(dims{1, 4}, 0, 0, 2, 1), 0, 1))},
			Attrs: attrs{"pooled_height": int32(1), "pooled_width": int32(2), "sampling_ratio": int32(1)}, Constant: []string{"ROIs"},
			Want: slots{"Out": One(Floats(dims{1, 1, 1, 2}, 6, 8))}},
		{Type: "roi_align", Name: "aligned", Inputs: slots{"X": One(Spread(2, 2, 2, 4, 3)), "ROIs": One(twoOf(0, 0, 5, 7, 2, 4, 9, 9))}, Constant: []string{"ROIs"},
			Attrs: attrs{"pooled_height": int32(2), "pooled_width": int32(3), "spatial_scale": float32(0.5), "aligned": true}},
		{Type: "psroi_pool", Inputs: slots{"X": One(Floats(dims{1, 2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)), "ROIs": One(of(Floats(dims{1, 4}, 0, 0, 1, 1), 0, 1))},
			Attrs: attrs{"output_channels": int32(1), "pooled_width": int32(2)}, Constant: []string{"ROIs"}, Want: slots{"Out": One(Floats(dims{1, 1, 1, 2}, 2, 7))}},
		{Type: "psroi_pool", Name: "images", Inputs: slots{"X": One(Spread(1, 2, 8, 4, 3)), "ROIs": One(Floats(dims{2, 4}, 0, 0, 5, 7, 2, 4, 30, 30)), "RoisNum": One(Int32s(dims{2}, 1, 1))},
			Attrs: attrs{"pooled_height": int32(2), "pooled_width": int32(2), "spatial_scale": float32(0.5), "output_channels": int32(2)}, Constant: []string{"ROIs"}},
		{Type: "prroi_pool", Inputs: slots{"X": One(Floats(dims{1, 1, 2, 3}, 0, 2, 4, 10, 12, 14)), "ROIs": One(of(Floats(dims{1, 4}, 0, 0, 2, 1), 0, 1))},
			Attrs: attrs{"pooled_width": int32(2)}, Constant: []string{"ROIs"}, Want: slots{"Out": One(Floats(dims{1, 1, 1, 2}, 6, 8))}},
		{Type: "prroi_pool", Name: "images", Inputs: slots{"X": One(Spread(1, 2, 2, 4, 3)), "ROIs": One(twoOf(0.3, 0.2, 3.7, 6.9, -1.3, 1.1, 9.3, 30.7))},
			Attrs: attrs{"pooled_height": int32(2), "pooled_width": int32(3), "spatial_scale": float32(0.5)}},
		{Type: "prroi_pool", Name: "numbers", Inputs: slots{"X": One(Spread(1, 2, 1, 4, 3)), "ROIs": One(Floats(dims{2, 4}, 0.5, 0.5, 2.2, 3.1, 1, 1, 1, 0)),
			"BatchRoINums": One(Ints(dims{2}, 2, 0))}, Constant: []string{"ROIs"}, Attrs: pool2},
		{Type: "box_decoder_and_assign", Inputs: slots{"PriorBox": One(Floats(dims{2, 4}, 0, 0, 9, 9, 1, 1, 3, 3)), "PriorBoxVar": One(Floats(dims{4}, 1, 1, 1, 1)),
			"TargetBox": One(Floats(dims{2, 8}, 0, 0, 0, 0, .1, 0, ln2, 9, 0, 0, 0, 0, 0, 0, 0, 0)), "BoxScore": One(Floats(dims{2, 2}, .9, .5, 0, -2))}, Attrs: attrs{"box_clip": float32(1)},
			Want: slots{"OutputAssignBox": One(Floats(dims{2, 4}, -4, 5-5*math.E, 15, 4+5*math.E, 1, 1, 3, 3))}},
		{Type: "yolov3_loss", Inputs: slots{"X": One(Floats(dims{1, 6, 1, 1}, make([]float64, 6)...)), "GTBox": One(Floats(dims{1, 2, 4}, .5, .5, .5, .5, 0, 0, 0, 0)), "GTLabel": One(Int32s(dims{1, 2}, 0, 0))},
			Attrs: attrs{"anchors": []int32{16, 16, 1, 1}, "anchor_mask": []int32{0}, "class_num": int32(1), "use_label_smooth": false}, Constant: []string{"X", "GTBox"}, NoFloat32: true,
			// x and y are right at half a place and cost ln 2 each, w and h nothing; so do confidence and class.
			Loss: []string{"Loss"}, Want: slots{"Loss": One(Floats(dims{1}, 2*1.75*ln2+2*ln2)), "GTMatchMask": One(Int32s(dims{1, 2}, 0, -1)), "ObjectnessMask": One(Floats(dims{1, 1, 1, 1}, 1))}},
		{Type: "yolov3_loss", Name: "images", Inputs: slots{"X": One(Spread(1, 2, 14, 3, 3)), "GTBox": One(Floats(dims{2, 2, 4}, .4, .3, .2, .3, .45, .35, .1, .4, .9, .1, .3, .2, .2, .7, .05, .05)),
			"GTLabel": One(Int32s(dims{2, 2}, 0, 1, 1, 5)), "GTScore": One(Floats(dims{2, 2}, .5, 1, .75, 1))}, Constant: []string{"GTBox", "GTScore"}, Loss: []string{"Loss"},
			Attrs: attrs{"anchors": []int32{10, 20, 30, 20, 5, 5}, "anchor_mask": []int32{0, 2}, "class_num": int32(2), "ignore_thresh": float32(0.2), "scale_x_y": float32(1.1)}},
		deformedCase("", Floats(dims{1, 2, 1, 1}, make([]float64, 2)...), attrs{"no_trans": true}, slots{"Output": One(Floats(dims{1, 1, 1, 1}, 2)), "TopCount": One(Floats(dims{1, 1, 1, 1}, 4))}),
		// The points of the bin lie at -1/2 and 1/2 along both axes; they move to the right by 1 and down by 1/4. What lies beyond the first row counts as in it.
		deformedCase("moved", Floats(dims{1, 2, 1, 1}, 2, 0.5), nil, slots{"Output": One(Floats(dims{1, 1, 1, 1}, 3.125))}),
		{Type: "deformable_psroi_pooling", Name: "images", Inputs: slots{"Input": One(Spread(1, 2, 8, 5, 4)), "ROIs": One(twoOf(1, 2, 6, 7, 2, 1, 5, 30)), "Trans": One(Spread(3, 2, 4, 2, 2))},
			Attrs: attrs{"no_trans": false, "spatial_scale": float32(0.5), "output_dim": int32(2), "group_size": []int32{2, 2}, "pooled_height": int32(3), "pooled_width": int32(2), "part_size": []int32{2, 2},
				"sample_per_part": int32(2), "trans_std": float32(0.3)}, Constant: []string{"ROIs"}, Loss: []string{"Output"}},
		// A rectangle of 2 x 3 places stays as it is.
		{Type: "roi_perspective_transform", Inputs: slots{"X": One(Floats(dims{1, 1, 2, 3}, 1, 2, 3, 4, 5, 6)), "ROIs": One(of(Floats(dims{1, 8}, 0, 0, 2, 0, 2, 1, 0, 1), 0, 1))},
			Attrs: attrs{"transformed_height": int32(2), "transformed_width": int32(4)}, Constant: []string{"ROIs"}, Outputs: map[string]int{"Out2InIdx": 0, "Out2InWeights": 0}, Loss: []string{"Out"},
			Want: slots{"Out": One(Floats(dims{1, 1, 2, 4}, 1, 2, 3, 0, 4, 5, 6, 0)), "Mask": One(Int32s(dims{1, 1, 2, 4}, 1, 1, 1, 0, 1, 1, 1, 0)), "TransformMatrix": One(Floats(dims{1, 9}, 1, 0, 0, 0, 1, 0, 0, 0, 1))}},
		{Type: "roi_perspective_transform", Name: "images", Inputs: slots{"X": One(Spread(2, 2, 2, 4, 5)), "ROIs": One(of(Floats(dims{2, 8}, 1, 0, 9, 3, 7, 8, 0, 6, -4, -4, 3, 1, 5, 9, 1, 4), 0, 1, 2))},
			Attrs: attrs{"transformed_height": int32(4), "transformed_width": int32(5), "spatial_scale": float32(0.5)}, Constant: []string{"ROIs"}, Loss: []string{"Out"}},
		{Type: "roi_align", Name: "numbers", Inputs: slots{"X": One(Spread(2, 2, 1, 4, 3)), "ROIs": One(Floats(dims{2, 4}, 0, 0, 2, 3, 1, 1, 20, 2)),
			"RoisNum": One(Int32s(dims{2}, 1, 1))}, Constant: []string{"ROIs"}, Attrs: pool2},
	}
)

// deformedCase pools one bin of 2 x 2 points over a map of 2 x 3 places.
func deformedCase(name string, trans *tensor.Tensor, own attrs, want slots) Case {
	c := Case{Type: "deformable_psroi_pooling", Name: name, Inputs: slots{"Input": One(Floats(dims{1, 1, 2, 3}, 1, 2, 3, 4, 5, 6)), "ROIs": One(of(Floats(dims{1, 4}, 0, 0, 1, 1), 0, 1)), "Trans": One(trans)},
		Constant: []string{"ROIs"}, Loss: []string{"Output"}, Want: want,
		Attrs: attrs{"no_trans": false, "spatial_scale": float32(1), "output_dim": int32(1), "group_size": []int32{1, 1}, "pooled_height": int32(1), "pooled_width": int32(1), "part_size": []int32{1, 1},
			"sample_per_part": int32(2), "trans_std": float32(0.25)}}
	maps.Copy(c.Attrs, own)
	return c
}

func allCases() []Case {
	return append(boxCases, regionCases...)
}

func TestLaws(t *testing.T) { Laws(t, "detection", allCases()) }

func TestCompiledOpsHaveTheBitsOfSingleOnes(t *testing.T) { compilecheck.Law(t, allCases()) }

func TestDetectionsThatDoNotFit(t *testing.T) {
	prior := func(name string, a attrs) Case {
		return Case{Type: "prior_box", Name: name, Inputs: slots{"Input": One(image(1, 1)), "Image": One(image(10, 20))}, Attrs: a}
	}
	region := func(name string, rois *tensor.Tensor, nums ...int32) Case {
		return Case{Type: "roi_align", Name: name, Inputs: slots{"X": One(image(4, 4)), "ROIs": One(rois), "RoisNum": One(Int32s(dims{1}, nums...))}}
	}
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{prior("no sizes", attrs{"min_sizes": []float32{}}), fault.InvalidArgument},
		{prior("small maximum", attrs{"min_sizes": []float32{3}, "max_sizes": []float32{2}}), fault.InvalidArgument},
		{prior("three variances", attrs{"min_sizes": []float32{3}, "variances": []float32{1, 1, 1}}), fault.InvalidArgument},
		{prior("negative ratio", attrs{"min_sizes": []float32{3}, "aspect_ratios": []float32{-1}}), fault.InvalidArgument},
		{region("more numbers than boxes", Floats(dims{1, 4}, 0, 0, 1, 1), 2), fault.InvalidArgument},
		{region("fewer numbers than boxes", Floats(dims{1, 4}, 0, 0, 1, 1), 0), fault.InvalidArgument},
		{region("negative number", Floats(dims{1, 4}, 0, 0, 1, 1), -1), fault.InvalidArgument},
		{Case{Type: "roi_align", Inputs: slots{"X": One(image(4, 4)), "ROIs": One(Floats(dims{1, 4}, 0, 0, 1, 1))}}, fault.InvalidArgument},
		{Case{Type: "target_assign", Name: "index", Inputs: slots{"X": One(of(Floats(dims{1, 1, 1}, 1), 0, 1)), "MatchIndices": One(Int32s(dims{1, 1}, 1))}}, fault.InvalidArgument},
		{Case{Type: "yolo_box", Name: "classes", Inputs: slots{"X": One(image(1, 2)), "ImgSize": One(Int32s(dims{1, 2}, 3, 3))},
			Attrs: attrs{"anchors": []int32{1, 1}, "class_num": int32(1)}}, fault.InvalidArgument},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "detection", allCases(), lawcheck.Program{Name: "single-shot detection", Build: func(m *layers.Model) {
		constant := func(values ...float32) layers.Variable {
			value, err := tensor.FromSlice(values, 3, 4)
			if err != nil {
				t.Fatal(err)
			}
			return layers.AssignValue(m, value)
		}
		x := layers.Data(m, "x", layers.Dims(5))
		codes, scores := layers.Reshape(layers.FC(x, 12), []int64{-1, 3, 4}), layers.Reshape(layers.FC(x, 6), []int64{-1, 3, 2})
		boxes, labels := layers.Data(m, "boxes", layers.Dims(4), layers.LoD(1)), layers.Data(m, "labels", layers.Dims(1), layers.DType(tensor.Int32), layers.LoD(1))
		priors, variances := constant(0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 0, 1, 0.5), constant(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		ssd := layers.DefaultSSD
		ssd.Sum = true
		optimizer.SGD(0.1).Minimize(layers.ReduceSum(layers.SSDLoss(codes, scores, boxes, labels, priors, variances, ssd)))
	}, Feed: func(round int64) executor.Feed {
		var x, boxes []float32
		var labels []int32
		offsets := []int64{0}
		for i := range int64(7) { // an image has one or two objects
			for k := range int64(5) {
				x = append(x, float32((i*3+k*k+round)%5)-2)
			}
			for k := range 1 + i%2 {
				corner := float32((i+k+round)%3) / 4
				boxes, labels = append(boxes, corner, corner, corner+0.5, corner+0.5), append(labels, 1)
			}
			offsets = append(offsets, int64(len(labels)))
		}
		feed := executor.Feed{"x": must(tensor.FromSlice(x, 7, 5)), "boxes": must(tensor.FromSlice(boxes, offsets[7], 4)), "labels": must(tensor.FromSlice(labels, offsets[7], 1))}
		feed["boxes"].SetLoD([][]int64{offsets})
		feed["labels"].SetLoD([][]int64{offsets})
		return feed
	}})
}
