package layers

// How many rows the results of these layers have is known only when their ops have run. Layers that take them are compiled then, once for each number of rows, and
// so take more time in the first steps. On a cluster a loss may be a sum or mean over rows that WhereIndex and MaskedSelect choose by a mask with the rows of the batch. It cannot
// depend on the other layers.

// WhereIndex has a row of indices for each element of condition that is not 0, int64 [elements, rank].
//
// Options: Name. Op: where_index.
func WhereIndex(condition Variable, opts ...Option) Variable {
	l := start("where_index", opts, nil, condition)
	return l.result(l.op("where_index", In{"Condition": {condition}}, nil, "Out"))
}

// MaskedSelect has the elements of x where mask, bool of the same dims, is true.
//
// Options: Name. Op: masked_select.
func MaskedSelect(x, mask Variable, opts ...Option) Variable {
	l := start("masked_select", opts, nil, x, mask)
	return l.result(l.op("masked_select", In{"X": {x}, "Mask": {mask}}, nil, "Y"))
}

// SegmentPool makes one row of all rows of x with the same number of ids, whole numbers [rows] in ascending order from 0: their "SUM", "MEAN", "MAX" or "MIN". A number
// that no row has gives zeros.
//
// Options: Name. Op: segment_pool.
func SegmentPool(x, ids Variable, kind string, opts ...Option) Variable {
	l := start("segment_pool", opts, nil, x, ids)
	return l.result(l.multi("segment_pool", In{"X": {x}, "SegmentIds": {ids}}, Attrs{"pooltype": kind}, "Out", "SummedIds")[0])
}

// KeepBoxes has the rows of the boxes [rows, 4] that stay when each that overlaps a better one by more than most is dropped. The best box is the first one.
//
// Options: Name. Op: nms.
func KeepBoxes(boxes Variable, most float64, opts ...Option) Variable {
	l := start("keep_boxes", opts, nil, boxes)
	return l.result(l.op("nms", In{"Boxes": {boxes}}, Attrs{"iou_threshold": most}, "KeepBoxesIdxs"))
}

// Unique has the different elements of x, which has one axis, in the order in which they first occur. index says of each element of x which of them it is.
//
// Options: Name (of values). Op: unique.
func Unique(x Variable, opts ...Option) (values, index Variable) {
	l := start("unique", opts, nil, x)
	out := l.multi("unique", In{"X": {x}}, nil, "Out", "Index")
	return l.result(out[0]), out[1]
}

// UniqueWithCounts is Unique, and says how often each element occurs.
//
// Options: Name (of values). Op: unique_with_counts.
func UniqueWithCounts(x Variable, opts ...Option) (values, index, counts Variable) {
	l := start("unique_with_counts", opts, nil, x)
	out := l.multi("unique_with_counts", In{"X": {x}}, nil, "Out", "Index", "Count")
	return l.result(out[0]), out[1], out[2]
}

// BinCount counts how often each number of x occurs, which has one axis and whole numbers from 0: int64, as many as least or as the largest number says.
//
// Options: Name. Op: bincount.
func BinCount(x Variable, least int, opts ...Option) Variable {
	l := start("bincount", opts, nil, x)
	return l.result(l.op("bincount", In{"X": {x}}, Attrs{"minlength": least}, "Out"))
}

// UniqueConsecutive keeps the first of neighbours of x that are equal, and says how many neighbours each has been.
//
// Options: Name (of values). Op: unique_consecutive.
func UniqueConsecutive(x Variable, opts ...Option) (values, counts Variable) {
	return pairOp("unique_consecutive", In{"X": {x}}, nil, "Out", "Counts", opts)
}
