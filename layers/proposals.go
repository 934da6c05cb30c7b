package layers

import (
	"cmp"
	"math"

	"github.com/edl-go/edl/fault"
)

// How many rows the results of most of these layers have is known only when their ops have run, as for MulticlassNMS.

// Proposals says which regions GenerateProposals keeps.
type Proposals struct {
	BeforeNMS, AfterNMS int     // boxes of an image that are looked at, and that stay, those with the largest scores; 0 for all
	Threshold           float64 // the largest overlap of boxes that are both kept
	MinSize             float64 // the least side of a box in pixels of the original image
}

// GenerateProposals finds regions that may hold objects: scores [batch, anchors, height, width], deltas [batch, 4*anchors, height, width] are codes of boxes relative to
// anchors [height, width, anchors, 4] with variances of the same dims, and info [batch, 3] has height, width and scale of each image. It returns boxes [rows, 4], those
// of an image a sequence, and their scores [rows, 1].
//
// Options: Name. Op: generate_proposals.
func GenerateProposals(scores, deltas, info, anchors, variances Variable, keep Proposals, opts ...Option) (regions, probabilities Variable) {
	return pairOp("generate_proposals", In{"Scores": {scores}, "BboxDeltas": {deltas}, "ImInfo": {info}, "Anchors": {anchors}, "Variances": {variances}},
		Attrs{"pre_nms_topN": keep.BeforeNMS, "post_nms_topN": keep.AfterNMS, "nms_thresh": keep.Threshold, "min_size": keep.MinSize}, "RpnRois", "RpnRoiProbs", opts)
}

// DistributeFPNProposals gives each region [rows, 4], those of an image a sequence, the level of a pyramid of feature maps that suits its size: boxes of side scale
// belong to level refer, those twice as large to the next. It returns the regions of each level from low to high, and int32 [rows, 1], where each region stands in all
// of them.
//
// Op: distribute_fpn_proposals.
func DistributeFPNProposals(regions Variable, low, high, refer, scale int) (levels []Variable, restore Variable) {
	l := start("distribute_fpn_proposals", nil, nil, regions)
	if l.failed {
		return []Variable{l.fail()}, l.fail()
	}
	levels = NewVariables(l.model, "fpn_rois", min(max(high-low+1, 0), 64))
	out := OpInto(l.model, "distribute_fpn_proposals", In{"FpnRois": {regions}}, Attrs{"min_level": low, "max_level": high, "refer_level": refer, "refer_scale": scale},
		In{"MultiFpnRois": levels, "RestoreIndex": NewVariables(l.model, "restore_index", 1)})
	return out.All("MultiFpnRois"), out.One("RestoreIndex")
}

// CollectFPNProposals takes the most regions with the largest scores of all levels of a pyramid. regions and scores have a variable for each level.
//
// Options: Name. Op: collect_fpn_proposals.
func CollectFPNProposals(regions, scores []Variable, most int, opts ...Option) Variable {
	l := start("collect_fpn_proposals", opts, nil, append(append([]Variable{}, regions...), scores...)...)
	return l.result(l.op("collect_fpn_proposals", In{"MultiLevelRois": regions, "MultiLevelScores": scores}, Attrs{"post_nms_topN": most}, "FpnRois"))
}

// BoxDecoderAndAssign reads a box of each class relative to regions [rows, 4] from codes [rows, classes*4] with variances [4], and takes that of the class with the
// largest of scores [rows, classes], but for class 0. It returns the boxes of all classes and those that it takes.
//
// Options: Name. Op: box_decoder_and_assign.
func BoxDecoderAndAssign(regions, variances, codes, scores Variable, limit float64, opts ...Option) (decoded, assigned Variable) {
	return pairOp("box_decoder_and_assign", In{"PriorBox": {regions}, "PriorBoxVar": {variances}, "TargetBox": {codes}, "BoxScore": {scores}}, Attrs{"box_clip": limit},
		"DecodeBox", "OutputAssignBox", opts)
}

// MatrixNMS lowers the scores of boxes that overlap better ones, and keeps those above post. boxes, scores and the rows of the result are as in MulticlassNMS, whose
// Threshold does not count, but in descending order.
//
// Options: Name. Op: matrix_nms.
func MatrixNMS(boxes, scores Variable, keep NMS, post float64, opts ...Option) Variable {
	l := start("matrix_nms", opts, nil, boxes, scores)
	attrs := keep.attrs()
	delete(attrs, "nms_threshold")
	attrs["post_threshold"] = post
	return l.result(l.multi("matrix_nms", In{"BBoxes": {boxes}, "Scores": {scores}}, attrs, "Index", "Out")[1])
}

// LocalityAwareNMS merges neighbours that overlap, and keeps the best of the rest. boxes, scores and the rows of the result are as in MulticlassNMS.
//
// Options: Name. Op: locality_aware_nms.
func LocalityAwareNMS(boxes, scores Variable, keep NMS, opts ...Option) Variable {
	l := start("locality_aware_nms", opts, nil, boxes, scores)
	return l.result(l.op("locality_aware_nms", In{"BBoxes": {boxes}, "Scores": {scores}}, keep.attrs(), "Out"))
}

// RetinanetDetectionOutput finds objects in the output of a pyramid of feature maps: for each level deltas [batch, n, 4], scores [batch, n, classes] and anchors [n, 4].
// info [batch, 3] has height, width and scale of each image. The rows are as in MulticlassNMS, in descending order, and classes count from 1.
//
// Options: Name. Op: retinanet_detection_output.
func RetinanetDetectionOutput(deltas, scores, anchors []Variable, info Variable, keep NMS, opts ...Option) Variable {
	all := append(append(append([]Variable{info}, deltas...), scores...), anchors...)
	l := start("retinanet_detection_output", opts, nil, all...)
	return l.result(l.op("retinanet_detection_output", In{"BBoxes": deltas, "Scores": scores, "Anchors": anchors, "ImInfo": {info}},
		Attrs{"score_threshold": keep.ScoreThreshold, "nms_threshold": keep.Threshold, "nms_top_k": orAll(keep.TopK), "keep_top_k": keep.KeepTopK}, "Out"))
}

// Yolov3Loss is the loss of YOLO v3, [batch]: x is the output of the network, boxes [batch, n, 4] have centre, width and height of objects as shares of the image, labels
// int32 [batch, n] their classes. anchors are pairs of width and height in pixels of the input of the network, whose side is downsample times that of x, and mask says
// which of them x has. Boxes that overlap an object by more than ignore need no confidence of 0.
//
// Options: Name. Op: yolov3_loss.
func Yolov3Loss(x, boxes, labels Variable, anchors, mask []int, classes int, ignore float64, downsample int, opts ...Option) Variable {
	l := start("yolov3_loss", opts, nil, x, boxes, labels)
	return l.result(l.multi("yolov3_loss", In{"X": {x}, "GTBox": {boxes}, "GTLabel": {labels}}, Attrs{"anchors": anchors, "anchor_mask": mask, "class_num": classes,
		"ignore_thresh": ignore, "downsample_ratio": downsample}, "GTMatchMask", "ObjectnessMask", "Loss")[2])
}

// MineHardExamples chooses boxes without an object that a loss should look at: ratio times as many as boxes with one, of those whose similarity is below the threshold, with
// the largest losses [batch, boxes]. objects and similarities are what BipartiteMatch gives. It returns int32 [rows, 1], those of an image a sequence.
//
// Options: Name. Op: mine_hard_examples.
func MineHardExamples(losses, objects, similarities Variable, ratio, threshold float64, opts ...Option) Variable {
	l := start("mine_hard_examples", opts, nil, losses, objects, similarities)
	return l.result(l.multi("mine_hard_examples", In{"ClsLoss": {losses}, "MatchIndices": {objects}, "MatchDist": {similarities}},
		Attrs{"neg_pos_ratio": ratio, "neg_dist_threshold": threshold, "mining_type": "max_negative"}, "UpdatedMatchIndices", "NegIndices")[1])
}

// PSRoiPool is RoiPool with channels of its own for each bin, of which it takes the mean: x has channels*height*width channels.
//
// Options: Name. Op: psroi_pool.
func PSRoiPool(x, regions Variable, channels, height, width int, scale float64, opts ...Option) Variable {
	l := start("psroi_pool", opts, nil, x, regions)
	l.image(x)
	return l.result(l.op("psroi_pool", In{"X": {x}, "ROIs": {regions}},
		Attrs{"output_channels": channels, "pooled_height": height, "pooled_width": width, "spatial_scale": scale}, "Out"))
}

// PRRoiPool is RoiPool without rounding: it takes the mean of each bin of the map, interpolated between its places. Gradients flow to the sides of regions, too.
//
// Options: Name. Op: prroi_pool.
func PRRoiPool(x, regions Variable, height, width int, scale float64, opts ...Option) Variable {
	l := start("prroi_pool", opts, nil, x, regions)
	l.image(x)
	return l.result(l.op("prroi_pool", In{"X": {x}, "ROIs": {regions}}, Attrs{"pooled_height": height, "pooled_width": width, "spatial_scale": scale}, "Out"))
}

// A Deformation says how DeformableRoiPool divides regions. What is 0 counts as 1.
type Deformation struct {
	Height, Width     int // of what a region becomes
	Groups            [2]int
	Points            int     // of a bin along each axis
	Scale             float64 // size of x over that of the images
	Strength          float64 // factor of moves; 0 is 0.1
	PositionSensitive bool    // whether each bin has channels of its own, as in PSRoiPool
}

// DeformableRoiPool is RoiAlign whose bins move: moves [regions, 2, Height, Width] says how far each goes to the right and down, in sizes of the region and times Strength. With
// moves of more channels, classes of channels of x move apart. (Fluid: deformable_roi_pooling.)
//
// Options: Name. Op: deformable_psroi_pooling.
func DeformableRoiPool(x, regions, moves Variable, d Deformation, opts ...Option) Variable {
	l := start("deformable_psroi_pooling", opts, nil, x, regions, moves)
	l.image(x)
	if l.failed {
		return l.fail()
	}
	for _, n := range []*int{&d.Height, &d.Width, &d.Groups[0], &d.Groups[1], &d.Points} {
		*n = cmp.Or(*n, 1)
	}
	channels := x.v.Dims[1]
	if d.PositionSensitive {
		d.Groups = [2]int{d.Height, d.Width}
	}
	groups := int64(d.Groups[0]) * int64(d.Groups[1])
	if groups < 1 || channels%groups != 0 {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d channels in %d groups", channels, groups), fault.Want("groups that divide the channels")))
	}
	return l.result(l.multi("deformable_psroi_pooling", In{"Input": {x}, "ROIs": {regions}, "Trans": {moves}},
		Attrs{"no_trans": false, "spatial_scale": cmp.Or(d.Scale, 1), "output_dim": channels / groups, "group_size": d.Groups[:], "pooled_height": d.Height, "pooled_width": d.Width,
			"part_size": []int{d.Height, d.Width}, "sample_per_part": d.Points, "trans_std": cmp.Or(d.Strength, 0.1)}, "Output", "TopCount")[0])
}

// RoiPerspectiveTransform turns quadrilaterals of x into rectangles: regions [rows, 8] has x and y of their corners, from the upper left one clockwise. The results are the rectangles
// [rows, channels, height, width], which are 0 beyond the region; where they are not, int32 [rows, 1, height, width]; and the matrices [rows, 9] that take places of a rectangle to those of x.
//
// Options: Name. Op: roi_perspective_transform.
func RoiPerspectiveTransform(x, regions Variable, height, width int, scale float64, opts ...Option) (out, mask, matrix Variable) {
	l := start("roi_perspective_transform", opts, nil, x, regions)
	l.image(x)
	made := l.multi("roi_perspective_transform", In{"X": {x}, "ROIs": {regions}}, Attrs{"transformed_height": height, "transformed_width": width, "spatial_scale": scale}, "Out", "Mask", "TransformMatrix")
	return l.result(made[0]), made[1], made[2]
}

// DeformableConv is Conv2D whose window reads beside its places: offset [batch, 2*size*size, height, width of the result] has how far down and to the right for each
// element of the window, and mask [batch, size*size, height, width] what is read is multiplied by.
//
// Options: Stride, Padding, Dilation, Groups, Param, Bias, NoBias, Act, Name. Op: deformable_conv.
func DeformableConv(x, offset, mask Variable, filters, size int64, opts ...Option) Variable {
	l := start("deformable_conv", opts, []string{"Act", "Param", "Bias", "NoBias", "Stride", "Padding", "Dilation", "Groups"}, x, offset, mask)
	l.image(x)
	if l.failed {
		return l.fail()
	}
	channels := x.v.Dims[1]
	if !groupsDivide(l, channels, filters) {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), []int64{filters, channels / int64(l.groups), size, size}, Normal(0, math.Sqrt(2/float64(size*size*channels))))
	y := l.op("deformable_conv", In{"Input": {x}, "Offset": {offset}, "Mask": {mask}, "Filter": {w}},
		Attrs{"strides": l.stride, "paddings": l.padding, "dilations": l.dilation, "groups": l.groups}, "Output")
	return l.result(l.activate(l.addBias(y, 1)))
}
