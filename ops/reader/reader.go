// Package reader registers the ops that bring data into a program and out of it. It also reads from a program how its data is prepared.
//
// A reader variable is a stream of samples. create_recordio_file_reader makes one from a dataset, which the program names and the job binds to
// files. Decorators make a reader from a reader: create_shuffle_reader, create_batch_reader, create_double_buffer_reader and
// create_multi_pass_reader. The op read takes the next batch from the last reader. These ops compute nothing. PipelineOf turns the chain of readers
// of a read op into a Pipeline, and an executor that knows the files runs it.
//
// All samples have one shape, such as [784]. A batch has an open extent in front: [-1 784]. A field of sequences (lod_levels) has one sequence in each
// sample; in a batch the rows of all sequences follow each other, and a LoD says where each begins. A shuffle works on samples, so it comes before the
// batch. The other decorators may stand anywhere, each at most once. A pass ends with its records wherever create_multi_pass_reader stands: no
// shuffle buffer and no batch contains records of two passes.
//
// The ops feed and fetch are Fluid's border between a program and its caller, as saved models have them.
package reader

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Op types of the package, and the slot in which decorators take the reader that they decorate.
const (
	recordIOOp     = "create_recordio_file_reader"
	shuffleOp      = "create_shuffle_reader"
	batchOp        = "create_batch_reader"
	doubleBufferOp = "create_double_buffer_reader"
	multiPassOp    = "create_multi_pass_reader"
	readOp         = "read"

	underlying = "UnderlyingReader"
)

// MaxPrefetch is how many batches a double buffer may prepare ahead at most. The executor allocates memory for all of them at the start.
const MaxPrefetch = 1024

func init() {
	ops.Register(ops.Def{
		Type:    recordIOOp,
		Class:   ops.Read,
		Doc:     "Reads the samples of a dataset of record files. Each record holds one tensor per entry of ranks.",
		Outputs: []ops.Slot{{Name: "Out", Doc: "reader of samples"}},
		Attrs: []ops.Attr{
			{Name: "dataset", Kind: "", Doc: "logical name of the dataset, which the job binds to files", Check: checkDataset},
			{Name: "shape_concat", Kind: []int32{}, Doc: "dims of all tensors of a sample, one after another, without the batch"},
			{Name: "ranks", Kind: []int32{}, Doc: "how many entries of shape_concat belong to each tensor"},
			{Name: "lod_levels", Kind: []int32{}, Doc: "how many levels of sequences each tensor has: 0 if all samples have one shape"},
			{Name: "dtypes", Kind: []int32{}, Doc: "element type of each tensor, as Fluid numbers it"},
		},
		Infer: func(s *ops.Shapes) error {
			fields, err := fieldsOf(s)
			if err != nil {
				return err
			}
			s.SetAt("Out", 0, ops.Meta{Kind: program.Reader, Fields: fields})
			return nil
		},
	})
	decorator(shuffleOp, "Yields the samples of a buffer in an order drawn from the seed and the number of the pass, then refills it.", same,
		ops.Attr{Name: "buffer_size", Kind: int32(0), Doc: "samples that are shuffled at a time", Check: atLeastOne("buffer_size", math.MaxInt32)},
		ops.Attr{Name: "seed", Default: int32(0), Doc: "key of the order; 0 is a seed like any other"},
		ops.Attr{Name: "group_size", Default: int32(1), Doc: "samples that follow each other and stay together, as a batch of sequences of like length; it divides buffer_size", Check: checkGroups})
	decorator(batchOp, "Joins samples into batches, whose dims are those of the samples after an open extent.", batched,
		ops.Attr{Name: "batch_size", Kind: int32(0), Doc: "samples of the global batch, over all trainers", Check: atLeastOne("batch_size", math.MaxInt32)},
		ops.Attr{Name: "drop_last", Default: false, Doc: "leave out a last batch that is smaller"})
	decorator(doubleBufferOp, "Prepares batches ahead, while the program computes.", same,
		ops.Attr{Name: "capacity", Default: int32(2), Doc: "batches that may be ready", Check: atLeastOne("capacity", MaxPrefetch)},
		ops.Attr{Name: "place", Default: "", Doc: "in Fluid, the device that keeps the batches; ignored"})
	decorator(multiPassOp, "Reads the dataset several times, from its first record to its last.", same,
		ops.Attr{Name: "pass_num", Kind: int32(0), Doc: "how often", Check: atLeastOne("pass_num", math.MaxInt32)})
}

// decorator registers an op that makes a reader from a reader. fields returns the fields of the new reader.
func decorator(opType, doc string, fields func(*ops.Shapes, []program.Var) ([]program.Var, error), attrs ...ops.Attr) {
	ops.Register(ops.Def{
		Type:    opType,
		Class:   ops.Read,
		Doc:     doc,
		Inputs:  []ops.Slot{{Name: underlying, Doc: "reader to decorate"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the decorated reader"}},
		Attrs:   attrs,
		Infer: func(s *ops.Shapes) error {
			yields, err := readerIn(s, underlying)
			if err != nil {
				return err
			}
			if yields, err = fields(s, yields); err != nil {
				return err
			}
			s.SetAt("Out", 0, ops.Meta{Kind: program.Reader, Fields: yields})
			return nil
		},
	})
}

// same is for decorators that do not change the fields.
func same(_ *ops.Shapes, fields []program.Var) ([]program.Var, error) { return fields, nil }

func checkDataset(op *program.Op) error {
	if name, _ := op.Str("dataset"); name == "" {
		return errors.New("the name of a dataset")
	}
	return nil
}

// checkGroups checks that a buffer of a shuffle holds whole groups.
func checkGroups(op *program.Op) error {
	group, _ := op.Int("group_size")
	if buffer, ok := op.Int("buffer_size"); group < 1 || ok && buffer%group != 0 {
		return errors.New("1 or more, and a divisor of buffer_size")
	}
	return nil
}

// atLeastOne checks a count. Its error is the legal range.
func atLeastOne(name string, most int64) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, ok := op.Int(name); ok && (v < 1 || v > most) {
			return fmt.Errorf("1 to %d", most)
		}
		return nil
	}
}

func init() {
	ops.Register(ops.Def{
		Type:    readOp,
		Class:   ops.Read,
		Doc:     "Takes the next batch of a reader. The run ends after the last batch.",
		Inputs:  []ops.Slot{{Name: "Reader", Doc: "reader of batches"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "one tensor for each field of the reader", Duplicable: true}},
		Infer:   inferRead,
	})
}

func inferRead(s *ops.Shapes) error {
	fields, err := readerIn(s, "Reader")
	if err != nil {
		return err
	}
	if n := len(s.Outs("Out")); n != len(fields) {
		return fault.E(fault.InvalidProgram, fault.Var(s.Op().In("Reader")), fault.Gotf("%d variables in Out", n),
			fault.Wantf("%d, one for each field of the reader", len(fields)))
	}
	for i, f := range fields {
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: f.DType, Dims: f.Dims, LoDLevel: f.LoDLevel})
	}
	return nil
}

// maxSampleRank leaves one axis for the batch.
const maxSampleRank = tensor.MaxRank - 1

// fieldsOf reads the fields of a sample from shape_concat, ranks, lod_levels and dtypes.
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
			return nil, opkit.BadAttr(s, "shape_concat", "extents of at least 1, without the batch")
		}
		dtype := tensor.DType(dtypes[i])
		if int64(dtype) != dtypes[i] || !dtype.Computable() {
			return nil, opkit.BadAttr(s, "dtypes", "bool 0, int32 2, int64 3, float32 5 or float64 6")
		}
		if levels[i] < 0 || levels[i] > tensor.MaxLoDLevel {
			return nil, opkit.BadAttr(s, "lod_levels", "0 to %d", tensor.MaxLoDLevel)
		}
		fields[i] = program.Var{Kind: program.LoDTensor, DType: dtype, Dims: slices.Clone(dims), LoDLevel: int(levels[i])}
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

// batched puts an open extent before the dims of every field.
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
