package bench

import (
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Reading is a workload that reads its batches from record files.
type Reading struct {
	Program *program.Program
	Fetch   string // variable that a step reports: the loss
	Rows    int64  // of a batch

	fields  []string // inputs in the order of a record
	batches []executor.Feed
}

// Dataset is the name of the dataset in the program of a Reading.
const Dataset = "train"

// NewReading builds the workload of that name, as New does, with a reader in place of feeds. It has the same parameters, and its records are the rows
// of the same batches. The batch of the program is the batch of the workload. Inputs are numbers or choices: sequences are refused.
func NewReading(name string) (*Reading, error) {
	fed := newBuilder()
	w, optimizer, err := build(name, fed)
	if err != nil {
		return nil, err
	}
	if optimizer == "" || len(fed.declared) == 0 || len(fed.declared) != len(fed.feeds[0]) {
		return nil, fault.E(fault.Unsupported, fault.Got("workload "+name), fault.Want("a model that trains on rows of numbers"))
	}
	first := w.Batches[0]
	rows := first[fed.declared[0]].Dims()[0]
	b := newBuilder()
	fields := make([]layers.FieldSpec, len(fed.declared))
	for i, input := range fed.declared {
		t := first[input]
		fields[i] = layers.Field(input, layers.Dims(t.Dims()[1:]...), layers.DType(t.DType()))
	}
	read := layers.Read(layers.DoubleBuffer(layers.Batch(layers.OpenDataset(b.Model, Dataset, fields...), int(rows))))
	b.inputs = map[string]layers.Variable{}
	for i, input := range fed.declared {
		b.inputs[input] = read[i]
	}
	reading, _, err := build(name, b)
	if err != nil {
		return nil, err
	}
	return &Reading{Program: reading.Program, Fetch: reading.Fetch, Rows: rows, fields: fed.declared, batches: w.Batches}, nil
}

// Write writes so many records into dir, from the rows of the batches in turn, and returns the binding of the dataset.
func (r *Reading) Write(dir string, records int64) (map[string][]string, error) {
	w, err := dataset.CreateShards(dir, Dataset, 1, recordio.Options{})
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	var record []byte
	row := make([]*tensor.Tensor, len(r.fields))
	for i := range records {
		feed := r.batches[i/r.Rows%int64(len(r.batches))]
		for j, name := range r.fields {
			if row[j], err = rowOf(feed[name], i%r.Rows); err != nil {
				return nil, err
			}
		}
		record = dataset.AppendRecord(record[:0], row...)
		if err := w.Write(record); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return map[string][]string{Dataset: {filepath.Join(dir, Dataset+"-*")}}, nil
}

// rowOf returns row i of a batch as the tensor of a record, which has no dimension for the rows.
func rowOf(batch *tensor.Tensor, i int64) (*tensor.Tensor, error) {
	row, err := batch.Rows(i, i+1)
	if err != nil {
		return nil, err
	}
	return row.Reshape(batch.Dims()[1:]...)
}

// Batches returns the number of different batches.
func (r *Reading) Batches() int { return len(r.batches) }

// RecordBytes returns the number of bytes of the values of a record.
func (r *Reading) RecordBytes() int {
	n := 0
	for _, t := range r.batches[0] {
		n += int(t.Bytes())
	}
	return n / int(r.Rows)
}
