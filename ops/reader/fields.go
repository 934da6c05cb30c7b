package reader

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// maxSampleRank leaves room for the batch.
const maxSampleRank = tensor.MaxRank - 1

// fieldsOf reads what one sample of a file holds from shape_concat, ranks, lod_levels and dtypes.
func fieldsOf(s *ops.Shapes) ([]program.Var, error) {
	ranks, levels, dtypes := s.Ints("ranks"), s.Ints("lod_levels"), s.Ints("dtypes")
	shapes := s.Ints("shape_concat")
	if len(ranks) == 0 {
		return nil, opkit.BadAttr(s, "ranks", "a rank for each tensor of a sample, at least one")
	}
	if len(levels) != len(ranks) {
		return nil, opkit.BadAttr(s, "lod_levels", "%d numbers, one for each of ranks", len(ranks))
	}
	if len(dtypes) != len(ranks) {
		return nil, opkit.BadAttr(s, "dtypes", "%d numbers, one for each of ranks", len(ranks))
	}
	fields := make([]program.Var, len(ranks))
	for i, rank := range ranks {
		if rank < 0 || rank > maxSampleRank || rank > int64(len(shapes)) {
			return nil, opkit.BadAttr(s, "ranks", "ranks from 0 to %d whose sum is the length of shape_concat", maxSampleRank)
		}
		dims := shapes[:rank]
		shapes = shapes[rank:]
		if n, ok := tensor.Count(dims); !ok || n == 0 {
			return nil, opkit.BadAttr(s, "shape_concat", "extents of at least 1: samples of one shape, without the batch")
		}
		dtype := tensor.DType(dtypes[i])
		if int64(dtype) != dtypes[i] || !dtype.Computable() {
			return nil, opkit.BadAttr(s, "dtypes", "bool 0, int32 2, int64 3, float32 5 or float64 6")
		}
		if levels[i] != 0 {
			return nil, opkit.UnsupportedAttr(s, "lod_levels", "0: samples of one shape")
		}
		fields[i] = program.Var{Kind: program.LoDTensor, DType: dtype, Dims: slices.Clone(dims)}
	}
	if len(shapes) > 0 {
		return nil, opkit.BadAttr(s, "ranks", "ranks whose sum is the length of shape_concat")
	}
	return fields, nil
}

// readerIn returns the fields of the reader in a slot.
func readerIn(s *ops.Shapes, slot string) ([]program.Var, error) {
	m := s.In(slot)
	if m.Kind != program.Reader || len(m.Fields) == 0 {
		return nil, fault.E(fault.TypeMismatch, fault.Var(s.Op().In(slot)), fault.Gotf("%s %v of %d fields", slot, m, len(m.Fields)),
			fault.Want("a reader of at least one field"))
	}
	return m.Fields, nil
}

// batched puts an open extent in front of the dims of every field.
func batched(s *ops.Shapes, samples []program.Var) ([]program.Var, error) {
	batch := slices.Clone(samples)
	for i := range batch {
		if len(batch[i].Dims) > maxSampleRank {
			return nil, s.Errorf(underlying, "fields of rank %d or less", maxSampleRank)
		}
		batch[i].Dims = slices.Concat([]int64{program.Unknown}, batch[i].Dims)
	}
	return batch, nil
}
