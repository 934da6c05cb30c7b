package layers

// In these layers a box is four numbers: left, top, right and bottom.

// PriorBoxes says which boxes PriorBox lays around each place of a feature map. Sizes are in pixels.
type PriorBoxes struct {
	MinSizes     []float64 // sides of squares
	MaxSizes     []float64 // a larger size for each of MinSizes, for a square of side √(min·max); or none
	AspectRatios []float64 // width over height of further boxes, in addition to 1
	Flip         bool      // 1/ratio, too
	Clip         bool      // boxes end at the border of the image
	Variances    []float64 // four numbers that codes of boxes are divided by; nil for 0.1, 0.1, 0.2, 0.2
}

// PriorBox lays boxes over images [batch, channels, height, width], around each place of a feature map of them. It returns the boxes [height, width, boxes of a
// place, 4] of the map, as shares of the image, and their variances.
//
// Options: Name. Op: prior_box.
func PriorBox(feature, image Variable, boxes PriorBoxes, opts ...Option) (priors, variances Variable) {
	attrs := Attrs{"min_sizes": boxes.MinSizes, "flip": boxes.Flip, "clip": boxes.Clip}
	setLists(attrs, map[string][]float64{"max_sizes": boxes.MaxSizes, "aspect_ratios": boxes.AspectRatios, "variances": boxes.Variances})
	return pairOp("prior_box", In{"Input": {feature}, "Image": {image}}, attrs, "Boxes", "Variances", opts)
}

// DensityPriorBox lays density x density boxes around each place of a feature map for each size and ratio, densities[i] for sizes[i]. The results are those of
// PriorBox.
//
// Options: Name. Op: density_prior_box.
func DensityPriorBox(feature, image Variable, sizes, ratios []float64, densities []int, opts ...Option) (priors, variances Variable) {
	return pairOp("density_prior_box", In{"Input": {feature}, "Image": {image}},
		Attrs{"fixed_sizes": sizes, "fixed_ratios": ratios, "densities": densities}, "Boxes", "Variances", opts)
}

// AnchorGenerator lays boxes around each place of a feature map, one for each size and ratio of height over width, in pixels of the image. Places are stride
// pixels apart, to the right and down. It returns the boxes [height, width, boxes of a place, 4] and their variances.
//
// Options: Name. Op: anchor_generator.
func AnchorGenerator(feature Variable, sizes, ratios []float64, strideX, strideY float64, opts ...Option) (anchors, variances Variable) {
	return pairOp("anchor_generator", In{"Input": {feature}},
		Attrs{"anchor_sizes": sizes, "aspect_ratios": ratios, "stride": []float64{strideX, strideY}}, "Anchors", "Variances", opts)
}

// IoUSimilarity is the overlap of boxes x [n, 4] and y [m, 4]: [n, m], the area that two share over the area that they cover together.
//
// Options: Name. Op: iou_similarity.
func IoUSimilarity(x, y Variable, opts ...Option) Variable {
	l := start("iou_similarity", opts, nil, x, y)
	return l.result(l.op("iou_similarity", In{"X": {x}, "Y": {y}}, nil, "Out"))
}

// BoxEncode writes boxes [n, 4] relative to priors [m, 4]: codes [n, m, 4], divided by the variances [m, 4] of the priors.
//
// Options: Name. Op: box_coder.
func BoxEncode(boxes, priors, variances Variable, opts ...Option) Variable {
	return boxCoder("encode_center_size", boxes, priors, variances, opts)
}

// BoxDecode reads the boxes of codes [n, m, 4] relative to priors [m, 4] with variances [m, 4].
//
// Options: Name. Op: box_coder.
func BoxDecode(codes, priors, variances Variable, opts ...Option) Variable {
	return boxCoder("decode_center_size", codes, priors, variances, opts)
}

func boxCoder(code string, target, priors, variances Variable, opts []Option) Variable {
	l := start("box_coder", opts, nil, target, priors, variances)
	return l.result(l.op("box_coder", In{"PriorBox": {priors}, "PriorBoxVar": {variances}, "TargetBox": {target}}, Attrs{"code_type": code}, "OutputBox"))
}

// BoxClip limits boxes, those of an image a sequence, to their images. info [batch, 3] has height, width and scale of each image.
//
// Options: Name. Op: box_clip.
func BoxClip(boxes, info Variable, opts ...Option) Variable {
	l := start("box_clip", opts, nil, boxes, info)
	return l.result(l.op("box_clip", In{"Input": {boxes}, "ImInfo": {info}}, nil, "Output"))
}

// PolygonBoxTransform turns the distances of a feature map [batch, channels, height, width] to corners of quadrangles, as the network EAST gives them, into
// places of the image, which is four times as large.
//
// Options: Name. Op: polygon_box_transform.
func PolygonBoxTransform(x Variable, opts ...Option) Variable {
	l := start("polygon_box_transform", opts, nil, x)
	l.image(x)
	return l.result(l.op("polygon_box_transform", In{"Input": {x}}, nil, "Output"))
}

// YoloBox reads boxes [batch, n, 4] in pixels, and scores [batch, n, classes], from the output x of YOLO v3. size is int32 [batch, 2], height and width of each image.
// anchors are pairs of width and height, in pixels of the input of the network, whose side is downsample times that of x. Boxes below the threshold are zeros.
//
// Options: Name. Op: yolo_box.
func YoloBox(x, size Variable, anchors []int, classes int, threshold float64, downsample int, opts ...Option) (boxes, scores Variable) {
	return pairOp("yolo_box", In{"X": {x}, "ImgSize": {size}},
		Attrs{"anchors": anchors, "class_num": classes, "conf_thresh": threshold, "downsample_ratio": downsample}, "Boxes", "Scores", opts)
}

// BipartiteMatch gives each object of an image a box of its own. similarity has a row for each object, those of an image a sequence, and a column for each
// box. It returns the object of each box, int32 [batch, boxes], -1 for none, and the similarity of each match. With a threshold above 0, boxes without match
// get the most similar object, if its similarity is at least the threshold.
//
// Options: Name. Op: bipartite_match.
func BipartiteMatch(similarity Variable, threshold float64, opts ...Option) (objects, similarities Variable) {
	attrs := Attrs{"match_type": "bipartite"}
	if threshold > 0 {
		attrs = Attrs{"match_type": "per_prediction", "dist_threshold": threshold}
	}
	return pairOp("bipartite_match", In{"DistMat": {similarity}}, attrs, "ColToRowMatchIndices", "ColToRowMatchDist", opts)
}

// TargetAssign takes for each box the row of x that its object has: x [rows, 1 or boxes, width] holds rows for the objects, those of an image a sequence, and
// objects is what BipartiteMatch gives. It returns the rows [batch, boxes, width] and weights [batch, boxes, 1]: 1, or 0 for boxes without object, which get
// mismatch.
//
// Options: Name. Op: target_assign.
func TargetAssign(x, objects Variable, mismatch int, opts ...Option) (rows, weights Variable) {
	return pairOp("target_assign", In{"X": {x}, "MatchIndices": {objects}}, Attrs{"mismatch_value": mismatch}, "Out", "OutWeight", opts)
}

// RoiPool makes maps [regions, channels, height, width] of one size from regions of feature maps x, taking the largest element of each bin. regions are boxes in pixels of
// the images, those of an image a sequence; scale is the size of x over that of the images.
//
// Options: Name. Op: roi_pool.
func RoiPool(x, regions Variable, height, width int, scale float64, opts ...Option) Variable {
	l := start("roi_pool", opts, nil, x, regions)
	l.image(x)
	return l.result(l.multi("roi_pool", In{"X": {x}, "ROIs": {regions}},
		Attrs{"pooled_height": height, "pooled_width": width, "spatial_scale": scale}, "Argmax", "Out")[1])
}

// RoiAlign is RoiPool that takes the mean of points, interpolated between places, in each bin: samples² points, or with 0 about as many as places.
//
// Options: Name. Op: roi_align.
func RoiAlign(x, regions Variable, height, width int, scale float64, samples int, opts ...Option) Variable {
	l := start("roi_align", opts, nil, x, regions)
	l.image(x)
	return l.result(l.op("roi_align", In{"X": {x}, "ROIs": {regions}},
		Attrs{"pooled_height": height, "pooled_width": width, "spatial_scale": scale, "sampling_ratio": samples}, "Out"))
}

// setLists sets the attributes whose lists are not nil.
func setLists(attrs Attrs, lists map[string][]float64) {
	for name, list := range lists {
		if list != nil {
			attrs[name] = list
		}
	}
}

// pairOp is a layer of one op with two results, of which the first takes the name of the layer.
func pairOp(opType string, in In, attrs Attrs, first, second string, opts []Option) (a, b Variable) {
	var inputs []Variable
	for _, slot := range sortedSlots(in) {
		inputs = append(inputs, in[slot]...)
	}
	l := start(opType, opts, nil, inputs...)
	out := l.multi(opType, in, attrs, first, second)
	return l.result(out[0]), out[1]
}

// NMS says which boxes MulticlassNMS keeps.
type NMS struct {
	ScoreThreshold float64 // the score that a box must exceed
	Threshold      float64 // the largest overlap of boxes that are both kept
	TopK           int     // boxes of a class that are looked at, those with the largest scores; 0 for all
	KeepTopK       int     // the most boxes of an image; 0 for all
	Background     int     // a class that is left out; -1 for none
	Pixels         bool    // coordinates are pixels, and not shares of the image
}

// MulticlassNMS keeps the best of boxes [batch, n, 4] that overlap, for each class of scores [batch, classes, n]. It returns a row for each box that is kept: class,
// score, left, top, right and bottom. The rows of an image are a sequence. Only the run tells how many rows there are, so few layers take the result: fetch it.
//
// Options: Name. Op: multiclass_nms2.
func MulticlassNMS(boxes, scores Variable, keep NMS, opts ...Option) Variable {
	l := start("multiclass_nms", opts, nil, boxes, scores)
	return l.result(l.multi("multiclass_nms2", In{"BBoxes": {boxes}, "Scores": {scores}}, keep.attrs(), "Index", "Out")[1])
}

// attrs are the attributes of ops that suppress boxes.
func (keep NMS) attrs() Attrs {
	return Attrs{"score_threshold": keep.ScoreThreshold, "nms_threshold": keep.Threshold, "nms_top_k": orAll(keep.TopK), "keep_top_k": orAll(keep.KeepTopK),
		"background_label": keep.Background, "normalized": !keep.Pixels}
}

// orAll is a number of boxes for an op, for which -1 is all.
func orAll(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// A DetectionScore says how DetectionMAP compares detections with objects.
type DetectionScore struct {
	Classes       int     // number of classes
	Overlap       float64 // what a right detection exceeds; 0 for 0.5
	SkipDifficult bool    // leave difficult objects out
	ElevenPoints  bool    // take the mean over recalls of 0, 0.1, ... 1, as the challenge of 2007 did, and not the area
}

// DetectionMAP is the mean average precision of detections, which a layer such as MulticlassNMS has found: rows of class, score, left, top, right and bottom. The rows of label
// are class, 1 if the object is difficult, else 0, left, top, right and bottom, or without the second number. Coordinates are shares of the image, and the rows of an image
// are a sequence. The result is [1].
//
// Options: Name. Op: detection_map.
func DetectionMAP(detections, label Variable, score DetectionScore, opts ...Option) Variable {
	l := start("detection_map", opts, nil, detections, label)
	attrs := Attrs{"class_num": score.Classes, "overlap_threshold": 0.5, "evaluate_difficult": !score.SkipDifficult}
	if score.Overlap != 0 {
		attrs["overlap_threshold"] = score.Overlap
	}
	if score.ElevenPoints {
		attrs["ap_type"] = "11point"
	}
	return l.result(l.multi("detection_map", In{"DetectRes": {detections}, "Label": {label}}, attrs, "MAP", "AccumPosCount", "AccumTruePos", "AccumFalsePos")[0])
}
