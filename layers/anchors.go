package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Anchors are boxes in pixels that a network learns from, with what it makes of them.
type Anchors struct {
	Boxes  Variable // [anchors, 4]
	Codes  Variable // codes of boxes relative to them, as many for each image
	Scores Variable // of each of them, as many for each image
}

// Objects are the objects in the images of a batch.
type Objects struct {
	Boxes   Variable // [rows, 4] in pixels of the original image, those of an image a sequence
	Classes Variable // int32 [rows, 1], from 1
	Crowd   Variable // int32 [rows, 1]: 1 for those that are left out
	Images  Variable // [batch, 3]: height, width and scale of each image
}

// AnchorTargets are the codes and scores of the anchors that a loss looks at, beside what they should be.
type AnchorTargets struct {
	Codes, TargetCodes, Weights Variable // of anchors on objects; Weights is 0 for those that do not count
	Scores, Labels              Variable // of those and of anchors on background; Labels is int32 [rows, 1], 0 for background
	Found                       Variable // RetinanetTargetAssign: int32 [batch, 1], how many anchors of each image are on objects, and 1
}

// RPNTargets says which anchors RPNTargetAssign takes.
type RPNTargets struct {
	Size               int     // anchors of an image
	Share              float64 // of those on objects
	Straddle           float64 // pixels that an anchor may lie outside of the image; below 0 for any
	Positive, Negative float64 // overlaps: of anchors on objects, and what those on background lack
	First              bool    // take the first anchors, and not others in each step
}

// RPNTargetAssign chooses anchors that a region proposal network learns from. Only the run tells how many there are.
//
// Ops: rpn_target_assign, reshape2, gather.
func RPNTargetAssign(anchors Anchors, objects Objects, take RPNTargets) AnchorTargets {
	return anchorTargets("rpn_target_assign", anchors, objects, Attrs{"rpn_batch_size_per_im": take.Size, "rpn_fg_fraction": take.Share, "rpn_straddle_thresh": take.Straddle,
		"rpn_positive_overlap": take.Positive, "rpn_negative_overlap": take.Negative, "use_random": !take.First}, 1)
}

// RetinanetTargetAssign says of the anchors of a RetinaNet what it should make of them: of those whose overlap with an object is at least positive, and of those with
// overlaps below negative. Scores has a number for each class.
//
// Ops: retinanet_target_assign, reshape2, gather.
func RetinanetTargetAssign(anchors Anchors, objects Objects, classes int, positive, negative float64) AnchorTargets {
	return anchorTargets("retinanet_target_assign", anchors, objects, Attrs{"positive_overlap": positive, "negative_overlap": negative}, int64(classes))
}

func anchorTargets(opType string, anchors Anchors, objects Objects, attrs Attrs, width int64) AnchorTargets {
	in := In{"Anchor": {anchors.Boxes}, "GtBoxes": {objects.Boxes}, "IsCrowd": {objects.Crowd}, "ImInfo": {objects.Images}}
	out := []string{"LocationIndex", "ScoreIndex", "TargetBBox", "TargetLabel", "BBoxInsideWeight"}
	if opType == "retinanet_target_assign" {
		in["GtLabels"], out = []Variable{objects.Classes}, append(out, "ForegroundNumber")
	}
	l := start(opType, nil, nil, anchors.Boxes, anchors.Codes, anchors.Scores, objects.Boxes, objects.Crowd, objects.Images)
	made := l.multi(opType, in, attrs, out...)
	for _, v := range made {
		v.StopGradient()
	}
	t := AnchorTargets{Codes: Gather(Reshape(anchors.Codes, []int64{-1, 4}), made[0]), Scores: Gather(Reshape(anchors.Scores, []int64{-1, width}), made[1]),
		TargetCodes: made[2], Labels: made[3], Weights: made[4]}
	if len(made) > 5 {
		t.Found = made[5]
	}
	return t
}

// ProposalLabels says which regions GenerateProposalLabels takes.
type ProposalLabels struct {
	Size      int     // regions of an image
	Share     float64 // of those with an object
	Object    float64 // overlap of regions with an object
	High, Low float64 // overlaps that background lacks, and has
	Classes   int     // with background
	First     bool    // take the first regions, and not others in each step
}

// RegionTargets are regions that the second stage of a Faster R-CNN learns from.
type RegionTargets struct {
	Regions         Variable // [rows, 4], those of an image a sequence
	Labels          Variable // int32 [rows, 1]: their classes, 0 for background
	Codes           Variable // [rows, 4*classes]: the code of the object at the place of its class
	Inside, Outside Variable // [rows, 4*classes]: 1 where there is a code
}

// GenerateProposalLabels chooses regions that the second stage of a Faster R-CNN learns from, and says what they should become. Only the run tells how many there are.
//
// Op: generate_proposal_labels.
func GenerateProposalLabels(regions Variable, objects Objects, take ProposalLabels) RegionTargets {
	l := start("generate_proposal_labels", nil, nil, regions, objects.Boxes, objects.Classes, objects.Crowd, objects.Images)
	made := l.multi("generate_proposal_labels", In{"RpnRois": {regions}, "GtClasses": {objects.Classes}, "IsCrowd": {objects.Crowd}, "GtBoxes": {objects.Boxes}, "ImInfo": {objects.Images}},
		Attrs{"batch_size_per_im": take.Size, "fg_fraction": take.Share, "fg_thresh": take.Object, "bg_thresh_hi": take.High, "bg_thresh_lo": take.Low, "class_nums": take.Classes,
			"use_random": !take.First}, "Rois", "LabelsInt32", "BboxTargets", "BboxInsideWeights", "BboxOutsideWeights")
	for _, v := range made {
		v.StopGradient()
	}
	return RegionTargets{Regions: made[0], Labels: made[1], Codes: made[2], Inside: made[3], Outside: made[4]}
}

// SSD says how SSDLoss computes. DefaultSSD has the values of Fluid.
type SSD struct {
	Background int     // the class of boxes without object
	Overlap    float64 // of boxes with the object that they get
	Ratio      float64 // of boxes without object that count to those with one
	Below      float64 // the overlap of boxes without object
	Boxes      float64 // weight of the loss of boxes
	Classes    float64 // weight of the loss of classes
	Sum        bool    // do not divide by the number of boxes with an object
}

// DefaultSSD is what Fluid computes where a program does not say.
var DefaultSSD = SSD{Overlap: 0.5, Ratio: 3, Below: 0.5, Boxes: 1, Classes: 1}

// SSDLoss is the loss of single-shot detection (Liu et al. 2016) for each image, [batch, 1]: how far boxes are from the objects that they match, and how wrong the classes of
// these boxes are, and of those without object that are most wrong. codes [batch, boxes, 4] and scores [batch, boxes, classes] are what a network makes of the boxes priors
// [boxes, 4] with variances of the same dims. Objects are boxes [rows, 4] and int32 labels [rows, 1], those of an image a sequence.
//
// Ops: those of BipartiteMatch, TargetAssign, MineHardExamples, BoxEncode, SoftmaxWithCrossEntropy and SmoothL1.
func SSDLoss(codes, scores, boxes, labels, priors, variances Variable, of SSD) Variable {
	l := start("ssd_loss", nil, nil, codes, scores, boxes, labels, priors, variances)
	if l.failed {
		return l.fail()
	}
	count := scores.Dims()
	if len(count) != 3 {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(scores.Name()), fault.Gotf("dims %v", count), fault.Want("[batch, boxes, classes]")))
	}
	matches, overlaps := BipartiteMatch(IoUSimilarity(boxes, priors), of.Overlap)
	labels = Reshape(labels, []int64{0, -1, 1}).StopGradient()
	classes := func(assigned Variable) Variable {
		return Flatten(Cast(assigned, tensor.Int64), NumFlattenDims(2)).StopGradient()
	}
	first, _ := TargetAssign(labels, matches, of.Background)
	scores = Flatten(scores, NumFlattenDims(2))
	cost, _ := SoftmaxWithCrossEntropy(scores, classes(first))
	mined := l.multi("mine_hard_examples", In{"ClsLoss": {Reshape(cost, []int64{-1, count[1]}).StopGradient()}, "MatchIndices": {matches}, "MatchDist": {overlaps}},
		Attrs{"neg_pos_ratio": of.Ratio, "neg_dist_threshold": of.Below, "mining_type": "max_negative"}, "NegIndices", "UpdatedMatchIndices")
	target, near := TargetAssign(BoxEncode(boxes, priors, variances), mined[1], of.Background)
	assigned := l.multi("target_assign", In{"X": {labels}, "MatchIndices": {mined[1]}, "NegIndices": {mined[0]}}, Attrs{"mismatch_value": of.Background}, "Out", "OutWeight")
	cost, _ = SoftmaxWithCrossEntropy(scores, classes(assigned[0]))
	cost = Mul(cost, Flatten(assigned[1], NumFlattenDims(2)).StopGradient())
	distance := Mul(SmoothL1(Flatten(codes, NumFlattenDims(2)), Flatten(target, NumFlattenDims(2)).StopGradient(), 1), Flatten(near, NumFlattenDims(2)).StopGradient())
	loss := Reshape(Add(Scale(cost, of.Classes, 0), Scale(distance, of.Boxes, 0)), []int64{-1, count[1]})
	loss = ReduceSum(loss, Axes(1), KeepDims())
	if of.Sum {
		return loss
	}
	return Div(loss, ReduceSum(near))
}

// GenerateMaskLabels says what the masks of regions should be: regions [rows, 4] with classes labels, as GenerateProposalLabels gives them. outlines [points, 2] are polygons of the
// objects in pixels of the original image, with the LoD levels objects of images, polygons of objects, and points of polygons. It returns the regions with a mask, which of the
// regions of its image each is, int32 [rows, 1], and int32 masks [rows, classes*side*side]: 1, 0, or -1 for what does not count.
//
// Op: generate_mask_labels.
func GenerateMaskLabels(regions, labels, outlines Variable, objects Objects, classes, side int) (masked, index, masks Variable) {
	l := start("generate_mask_labels", nil, nil, regions, labels, outlines, objects.Classes, objects.Crowd, objects.Images)
	made := l.multi("generate_mask_labels", In{"Rois": {regions}, "LabelsInt32": {labels}, "GtSegms": {outlines}, "GtClasses": {objects.Classes}, "IsCrowd": {objects.Crowd}, "ImInfo": {objects.Images}},
		Attrs{"num_classes": classes, "resolution": side}, "MaskRois", "RoiHasMaskInt32", "MaskInt32")
	for _, v := range made {
		v.StopGradient()
	}
	return made[0], made[1], made[2]
}
