package reader

import (
	"errors"
	"fmt"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
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

// MaxPrefetch bounds the batches that a double buffer may prepare ahead, since memory for all is set aside at the start.
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
			{Name: "lod_levels", Kind: []int32{}, Doc: "0 for each tensor: samples are of one shape"},
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
		ops.Attr{Name: "seed", Default: int32(0), Doc: "key of the order; 0 is a seed like any other"})
	decorator(batchOp, "Joins samples into batches, whose dims are those of the samples after an open extent.", batched,
		ops.Attr{Name: "batch_size", Kind: int32(0), Doc: "samples of the global batch, over all trainers", Check: atLeastOne("batch_size", math.MaxInt32)},
		ops.Attr{Name: "drop_last", Default: false, Doc: "leave out a last batch that is smaller"})
	decorator(doubleBufferOp, "Prepares batches ahead, while the program computes.", same,
		ops.Attr{Name: "capacity", Default: int32(2), Doc: "batches that may be ready", Check: atLeastOne("capacity", MaxPrefetch)},
		ops.Attr{Name: "place", Default: "", Doc: "Fluid's: on which device batches wait; ignored, since there is one memory"})
	decorator(multiPassOp, "Reads the dataset several times, from its first record to its last.", same,
		ops.Attr{Name: "pass_num", Kind: int32(0), Doc: "how often", Check: atLeastOne("pass_num", math.MaxInt32)})
}

// decorator registers an op that makes a reader from a reader; fields gives what the new one yields.
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

// same is for decorators that yield what they get.
func same(_ *ops.Shapes, fields []program.Var) ([]program.Var, error) { return fields, nil }

func checkDataset(op *program.Op) error {
	if name, _ := op.Str("dataset"); name == "" {
		return errors.New("the name of a dataset")
	}
	return nil
}

// atLeastOne checks a count and says what is wanted.
func atLeastOne(name string, most int64) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, ok := op.Int(name); ok && (v < 1 || v > most) {
			return fmt.Errorf("1 to %d", most)
		}
		return nil
	}
}
