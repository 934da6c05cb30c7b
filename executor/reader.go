package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
)

// A Reader makes batches of record files as the read op of a program describes it.
type Reader struct {
	pipeline reader.Pipeline
	data     *dataset.Dataset
	batcher  *dataset.Batcher
}

// OpenReader opens the dataset that p reads. data binds dataset names to globs of record files, as dataset.Open takes them, and must name what
// p reads and nothing else; the files hold at least one record.
func OpenReader(ctx context.Context, p *program.Program, data map[string][]string) (*Reader, error) {
	r, err := NewReader(p, data, nil)
	if err != nil {
		return nil, err
	}
	globs := data[r.pipeline.Dataset]
	if r.data, err = dataset.Open(ctx, globs); err != nil {
		return nil, err
	}
	if r.data.NumRecords() == 0 {
		return nil, errors.Join(fault.E(fault.NotFound, fault.At("dataset "+fault.Quote(r.pipeline.Dataset)),
			fault.Got("no records in "+strings.Join(globs, ", ")), fault.Want("at least one")), r.Close())
	}
	return r, nil
}

// NewReader returns a reader of a dataset that may be empty and grow. data is what OpenReader takes; only its names matter.
func NewReader(p *program.Program, data map[string][]string, d *dataset.Dataset) (*Reader, error) {
	read, err := ReadOp(p)
	if err != nil {
		return nil, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return nil, err
	}
	if err := checkBound(read, pipeline.Dataset, data); err != nil {
		return nil, err
	}
	fields := make([]dataset.Field, len(pipeline.Fields))
	for i, f := range pipeline.Fields {
		fields[i] = dataset.Field{Name: f.Name, DType: f.DType, Dims: f.Dims}
	}
	slots := 1
	if pipeline.Prefetch > 0 {
		slots = pipeline.Prefetch + 2
	}
	batcher, err := dataset.NewBatcher(dataset.BatchOptions{Fields: fields, Rows: pipeline.Batch, DropLast: pipeline.DropLast, Slots: slots})
	if err != nil {
		return nil, err
	}
	return &Reader{pipeline: pipeline, data: d, batcher: batcher}, nil
}

// Dataset returns the name of the dataset in the program, and its files.
func (r *Reader) Dataset() (string, *dataset.Dataset) { return r.pipeline.Dataset, r.data }

// Passes is how often the program reads the dataset.
func (r *Reader) Passes() int { return r.pipeline.Passes }

// Rows is the size of a global batch.
func (r *Reader) Rows() int { return r.pipeline.Batch }

// ShuffleBuffer is how many records are shuffled at a time, 0 for none: a record is delivered at most so many records late.
func (r *Reader) ShuffleBuffer() int { return r.pipeline.ShuffleBuffer }

// Shuffle permutes records as the program says. pass makes each pass a different permutation.
func (r *Reader) Shuffle(records iter.Seq2[dataset.Record, error], pass int) iter.Seq2[dataset.Record, error] {
	return dataset.Shuffle(records, r.pipeline.ShuffleBuffer, uint64(r.pipeline.ShuffleSeed), uint64(pass))
}

// Batches decodes a part of each batch of records, ahead of their use where the program says so. One iteration may run at a time.
func (r *Reader) Batches(ctx context.Context, records iter.Seq2[dataset.Record, error], part dataset.Part) iter.Seq2[*dataset.Batch, error] {
	batches := r.batcher.Batches(records, part)
	if r.pipeline.Prefetch > 0 {
		batches = dataset.Prefetch(ctx, batches, r.pipeline.Prefetch)
	}
	return batches
}

// Close ends the connections to the buckets of the dataset. Iterations must have ended.
func (r *Reader) Close() error { return r.data.Close() }

// NumRecords returns how many records one pass reads.
func (r *Reader) NumRecords() int64 { return r.data.NumRecords() }

// String names the dataset.
func (r *Reader) String() string {
	return fmt.Sprintf("dataset %s of %d records", fault.Quote(r.pipeline.Dataset), r.data.NumRecords())
}

// checkBound compares the dataset that a program reads with those that the run binds.
func checkBound(read *program.Op, name string, data map[string][]string) error {
	bound := strings.Join(slices.Sorted(maps.Keys(data)), ", ")
	if _, ok := data[name]; !ok {
		if bound == "" {
			bound = "none"
		}
		return ops.At(read, fault.E(fault.NotFound, fault.Got("no files for the dataset "+fault.Quote(name)+" (bound: "+bound+")"),
			fault.Want("globs of record files"), fault.Hint("bind it with --data "+name+"=GLOB, or in TrainOptions.Data")))
	}
	if len(data) > 1 {
		return fault.E(fault.InvalidArgument, fault.Got("files for the datasets "+bound),
			fault.Want("only "+fault.Quote(name)+", which the program reads"))
	}
	return nil
}
