package layers

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
// score, left, top, right and bottom. The rows of an image are a sequence. How many there are is known only when the op has run, so few layers take the result: fetch it.
//
// Options: Name. Op: multiclass_nms2.
func MulticlassNMS(boxes, scores Variable, keep NMS, opts ...Option) Variable {
	l := start("multiclass_nms", opts, nil, boxes, scores)
	all := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	return l.result(l.multi("multiclass_nms2", In{"BBoxes": {boxes}, "Scores": {scores}}, Attrs{"score_threshold": keep.ScoreThreshold,
		"nms_threshold": keep.Threshold, "nms_top_k": all(keep.TopK), "keep_top_k": all(keep.KeepTopK), "background_label": keep.Background,
		"normalized": !keep.Pixels}, "Index", "Out")[1])
}
