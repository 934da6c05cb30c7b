package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// GatherTree reads the sequences that a beam search has found back from their ends: ids and parents [steps, batch, beams], where a parent is the beam of the step before that a
// beam goes on from.
//
// Options: Name. Op: gather_tree.
func GatherTree(ids, parents Variable, opts ...Option) Variable {
	l := start("gather_tree", opts, nil, ids, parents)
	return l.result(l.op("gather_tree", In{"Ids": {ids}, "Parents": {parents}}, nil, "Out"))
}

// SimilarityFocus marks with 1 where the matrices at some places of an axis of x [batch, a, b, c] are largest, each row and column once, and has 0 elsewhere.
//
// Options: Name. Op: similarity_focus.
func SimilarityFocus(x Variable, axis int, indexes []int, opts ...Option) Variable {
	l := start("similarity_focus", opts, nil, x)
	return l.result(l.op("similarity_focus", In{"X": {x}}, Attrs{"axis": axis, "indexes": indexes}, "Out"))
}

// PartialConcat puts columns [first, first+n) of matrices of one shape side by side. An n of -1 is all that follow.
//
// Options: Name. Op: partial_concat.
func PartialConcat(xs []Variable, first, n int, opts ...Option) Variable {
	return partial("partial_concat", xs, first, n, opts)
}

// PartialSum adds up columns [first, first+n) of matrices of one shape. An n of -1 is all that follow.
//
// Options: Name. Op: partial_sum.
func PartialSum(xs []Variable, first, n int, opts ...Option) Variable {
	return partial("partial_sum", xs, first, n, opts)
}

func partial(opType string, xs []Variable, first, n int, opts []Option) Variable {
	l := start(opType, opts, nil, xs...)
	return l.result(l.op(opType, In{"X": xs}, Attrs{"start_index": first, "length": n}, "Out"))
}

// Multinomial draws n numbers of columns for each row of x, new ones in each step, with probabilities in proportion to the elements of the row: int64 [rows, n]. Without replacement no
// column is drawn twice.
//
// Options: Name. Op: multinomial.
func Multinomial(x Variable, n int, replacement bool, opts ...Option) Variable {
	l := start("multinomial", opts, nil, x)
	return l.result(l.op("multinomial", In{"X": {x}}, Attrs{"num_samples": n, "replacement": replacement}, "Out"))
}

// ShuffleBatch puts the rows of x in a random order, a new one in each step. Trainers of a cluster cannot divide its batch.
//
// Options: Name. Op: shuffle_batch.
func ShuffleBatch(x Variable, opts ...Option) Variable {
	l := start("shuffle_batch", opts, nil, x)
	if l.failed {
		return l.fail()
	}
	seed := l.op("fill_constant", nil, Attrs{"shape": []int64{1}, "dtype": tensor.Int64, "value": 0}, "Out")
	return l.result(l.multi("shuffle_batch", In{"X": {x}, "Seed": {seed}}, Attrs{"startup_seed": int32(l.model.seed)}, "SeedOut", "ShuffleIdx", "Out")[2])
}

// RandomCrop cuts a part of the given extents out of each record of x, at a random place, a new one in each step. The extents are those of the last axes.
// In testing the middle is cut.
//
// Options: IsTest, Name. Op: random_crop.
func RandomCrop(x Variable, extents []int64, opts ...Option) Variable {
	l := start("random_crop", opts, []string{"IsTest"}, x)
	if l.failed {
		return l.fail()
	}
	seed := l.op("fill_constant", nil, Attrs{"shape": []int64{1}, "dtype": tensor.Int64, "value": 0}, "Out")
	return l.result(l.multi("random_crop", In{"X": {x}, "Seed": {seed}}, Attrs{"shape": extents, "startup_seed": int32(l.model.seed), "is_test": l.isTest}, "SeedOut", "Out")[1])
}

// RandomFlip turns each record of x around with a probability, along axes, of which 0 is that of records: []int{3} swaps left and right of images [rows, channels, height,
// width]. The choice is that of Dropout: it follows from the model's seed, the op, the step and the place in the global batch, so a batch that is split over machines is
// flipped in the same places. In testing nothing is flipped.
//
// Options: IsTest, Name. Ops: fill_constant_batch_size_like, dropout, cast, reverse, multiplex.
func RandomFlip(x Variable, axes []int, probability float64, opts ...Option) Variable {
	l := start("multiplex", opts, []string{"IsTest"}, x)
	if l.failed {
		return l.fail()
	}
	for _, axis := range axes {
		at, ok := l.resolveAxis(x, axis)
		if !ok {
			return l.fail()
		}
		if at == 0 {
			return l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("axis %d, that of records, which would change places", axis), fault.Want("axes of a record, such as 3, the width of images")))
		}
	}
	ones := l.op("fill_constant_batch_size_like", In{"Input": {x}}, Attrs{"shape": []int64{program.Unknown, 1}, "dtype": tensor.Float32, "value": 1.0}, "Out")
	kept := l.multi("dropout", In{"X": {ones}}, Attrs{"dropout_prob": probability, "is_test": l.isTest, "seed": l.model.seed, "fix_seed": true,
		"dropout_implementation": "upscale_in_train"}, "Out", "Mask")[0]
	stays := l.op("cast", In{"X": {kept}}, Attrs{"in_dtype": tensor.Float32, "out_dtype": tensor.Bool}, "Out")
	index := l.op("cast", In{"X": {stays}}, Attrs{"in_dtype": tensor.Bool, "out_dtype": tensor.Int32}, "Out")
	flipped := l.op("reverse", In{"X": {x}}, Attrs{"axis": axes}, "Out")
	return l.result(l.op("multiplex", In{"X": {flipped, x}, "Ids": {index}}, nil, "Out"))
}
