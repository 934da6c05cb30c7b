package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// files read the records of tasks. One iteration runs at a time.
type files struct {
	data  *dataset.Dataset // empty where the dataset follows a folder: then tasks name their files
	named []namedFile      // those that were opened last
}

// namedFile is a file that a task has named, as a dataset of its own: its records are numbered from 0.
type namedFile struct {
	*rpc.DataFile
	data *dataset.Dataset
}

// maxNamed bounds the files whose indexes are kept.
const maxNamed = 16

// records yields the records of ranges in order. A record that is no sample of tensors is fault.Corrupt, as a damaged chunk is.
func (f *files) records(ctx context.Context, task *rpc.Task, ranges []dataset.Range) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		check := sampleCheck{}
		for _, r := range ranges {
			for record, err := range f.read(ctx, task, r) {
				if err == nil {
					err = check.sample(record)
				}
				if !yield(record, err) || err != nil {
					return
				}
			}
		}
	}
}

// read yields the records of one range.
func (f *files) read(ctx context.Context, task *rpc.Task, r dataset.Range) iter.Seq2[dataset.Record, error] {
	if len(task.Files) == 0 {
		return f.data.Records(ctx, r.From, r.To)
	}
	return func(yield func(dataset.Record, error) bool) {
		at := r.From
		for _, file := range task.Files {
			first, end := max(at, file.FirstRecord), min(r.To, file.FirstRecord+file.Records)
			if first != at || first >= end {
				continue
			}
			at = end
			data, err := f.open(ctx, file)
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			for record, err := range data.Records(ctx, first-file.FirstRecord, end-file.FirstRecord) {
				record.Number += file.FirstRecord
				if !yield(record, err) || err != nil {
					return
				}
			}
		}
		if at < r.To {
			yield(dataset.Record{}, fault.E(fault.NotFound, fault.Atf("task %d", task.Id), fault.Gotf("no file of record %d", at),
				fault.Want("the files of all its records")))
		}
	}
}

// open indexes a file that a task names; it must be the one that the coordinator has seen.
func (f *files) open(ctx context.Context, file *rpc.DataFile) (*dataset.Dataset, error) {
	for _, have := range f.named {
		if have.Path == file.Path && have.Fingerprint == file.Fingerprint {
			return have.data, nil
		}
	}
	data := &dataset.Dataset{}
	if err := data.Add(ctx, file.Path, dataset.FileInfo{Records: file.Records, Bytes: file.Bytes, Fingerprint: file.Fingerprint}); err != nil {
		_ = data.Close()
		return nil, err
	}
	if len(f.named) == maxNamed {
		_ = f.named[0].data.Close() // nobody reads it: one iteration runs at a time, and it has come to this file
		f.named = slices.Delete(f.named, 0, 1)
	}
	f.named = append(f.named, namedFile{file, data})
	return data, nil
}

// close closes the files that tasks have named. No iteration runs.
func (f *files) close() (err error) {
	for _, have := range f.named {
		err = errors.Join(err, have.data.Close())
	}
	f.named = nil
	return err
}

// sampleCheck parses records, whoever decodes them, so that all trainers find the same ones damaged.
type sampleCheck struct{ streams []tensor.Stream }

func (c *sampleCheck) sample(r dataset.Record) (err error) {
	c.streams, err = dataset.ParseRecord(r.Bytes, c.streams)
	return fault.Wrap(fault.KindOf(err), fmt.Sprintf("%s: record %d", r.File, r.Number), err)
}
