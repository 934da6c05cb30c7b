package trainer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sort"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// taskFiles are the files that hold the records of tasks. One recordReader of them exists at a time.
type taskFiles struct {
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

// records yields the records of list, which are those of a task, in order. A record that is no sample of tensors is fault.Corrupt, as a damaged chunk is.
func (f *taskFiles) records(ctx context.Context, task *rpc.Task, list []ranges.Range) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		check := sampleCheck{}
		read := f.reader(ctx)
		defer read.close()
		read.add(task.Files)
		for record, err := range read.records(list) {
			if err == nil {
				err = check.sample(record)
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// reader returns a reader of the records of a stream of tasks. It can be used until ctx ends. The caller closes it.
func (f *taskFiles) reader(ctx context.Context) *recordReader {
	return &recordReader{ctx: ctx, files: f, loader: f.data.Loader(ctx)}
}

// A recordReader reads records of tasks by their numbers. It keeps the chunk that it has read last. One iteration runs at a time.
type recordReader struct {
	ctx    context.Context
	files  *taskFiles
	loader *dataset.Loader // of files.data, or of the file

	named []*rpc.DataFile // the files of the tasks, in order; empty where tasks name no files
	file  *rpc.DataFile   // of named, that loader reads; nil: none
}

// add makes the files of the next tasks of the stream known, and forgets those before the file that is read.
func (r *recordReader) add(files []*rpc.DataFile) {
	for len(r.named) > 0 && r.file != nil && r.named[0].FirstRecord < r.file.FirstRecord {
		r.named = r.named[1:]
	}
	for _, f := range files {
		if last := len(r.named) - 1; last < 0 || r.named[last].FirstRecord < f.FirstRecord {
			r.named = append(r.named, f)
		}
	}
}

func (r *recordReader) close() { _ = r.loader.Close() } // files that were only read have nothing to lose

// records yields the records of list in its order.
func (r *recordReader) records(list []ranges.Range) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		for record, err := range r.inFiles(list) {
			if !yield(record, stillThere(err)) {
				return
			}
		}
	}
}

// stillThere says what to do where err is that of a file which is gone: it was there when the job took it up.
func stillThere(err error) error {
	if !errors.Is(err, fault.NotFound) {
		return err
	}
	return fault.E(fault.NotFound, fault.Cause(err), fault.Want("each file of the data to stay until its records are trained"),
		fault.Hint(`put it back, and go on from the last checkpoint with "edl jobs resume JOB"; or begin anew without it`))
}

// inFiles is records, with the errors of those who read files.
func (r *recordReader) inFiles(list []ranges.Range) iter.Seq2[dataset.Record, error] {
	if len(r.named) == 0 {
		return r.loader.Records(list)
	}
	return func(yield func(dataset.Record, error) bool) {
		for _, of := range list {
			for of.Len() > 0 {
				first, end, err := r.open(of.From)
				if err != nil {
					yield(dataset.Record{}, err)
					return
				}
				end = min(end, of.To)
				for record, err := range r.loader.Records([]ranges.Range{{From: of.From - first, To: end - first}}) {
					record.Number += first
					if !yield(record, err) || err != nil {
						return
					}
				}
				of.From = end
			}
		}
	}
}

// open opens the file of a record, unless it is open, and returns which records it has.
func (r *recordReader) open(record int64) (first, end int64, err error) {
	i := sort.Search(len(r.named), func(i int) bool { return r.named[i].FirstRecord+r.named[i].Records > record })
	if i == len(r.named) || r.named[i].FirstRecord > record {
		return 0, 0, fault.E(fault.NotFound, fault.At("tasks"), fault.Gotf("no file of record %d", record), fault.Want("the files of all their records"))
	}
	file := r.named[i]
	if file != r.file {
		r.close()
		r.file = nil
		data, err := r.files.open(r.ctx, file)
		if err != nil {
			return 0, 0, err
		}
		r.loader, r.file = data.Loader(r.ctx), file
	}
	return file.FirstRecord, file.FirstRecord + file.Records, nil
}

// open indexes a file that a task names; it must be the one that the coordinator has seen.
func (f *taskFiles) open(ctx context.Context, file *rpc.DataFile) (*dataset.Dataset, error) {
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
		_ = f.named[0].data.Close() // it is not read any more: one reader exists at a time, and it has come to this file
		f.named = slices.Delete(f.named, 0, 1)
	}
	f.named = append(f.named, namedFile{file, data})
	return data, nil
}

// close closes the files that tasks have named. No iteration runs.
func (f *taskFiles) close() (err error) {
	for _, have := range f.named {
		err = errors.Join(err, have.data.Close())
	}
	f.named = nil
	return err
}

// sampleCheck parses records before they are shuffled. So an async trainer knows in which task a record is damaged.
type sampleCheck struct{ streams []tensor.Stream }

func (c *sampleCheck) sample(r dataset.Record) error {
	streams, err := dataset.ParseRecord(r.Bytes, c.streams)
	if err != nil {
		return fault.E(fault.KindOf(err), fault.Atf("%s: record %d", r.File, r.Number), fault.Cause(err))
	}
	c.streams = streams
	return nil
}
