package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/grpc"
)

// A source is where a trainer's batches come from in one generation.
type source interface {
	executor.BatchSource
	// HandIn reports the tasks that are finished with the step of the last batch, which has ended well. No batch is asked for after it.
	HandIn(ctx context.Context) error
	// Close ends what reads ahead.
	Close()
}

// tasks are a trainer's calls about the tasks of a dataset, in one generation.
type tasks struct {
	coordinator rpc.CoordinatorClient
	ask         asking
	rank        uint32
	of          *generation
	dataset     string
}

// get reports finished tasks and asks for another, unless m is a mere report. number is the round of its identity. A request that is to wait does so
// at the coordinator, which knows for whom and tells it: one that sends the trainer back is refused, for there would be no end of asking.
func (t *tasks) get(ctx context.Context, number uint64, m *rpc.GetTaskRequest) (r *rpc.GetTaskResponse, err error) {
	m.Dataset = t.dataset
	err = t.ask.call(ctx, question{"coordinator", fmt.Sprintf("a task of pass %d", m.Pass)}, func(ctx context.Context, attempt uint32) (err error) {
		m.Id = t.of.identity.Of(t.rank, number, attempt)
		r, err = t.coordinator.GetTask(ctx, m, grpc.WaitForReady(false))
		return err
	})
	if err == nil && m.Wait && endingOf(r) == pending {
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("no task of pass %d, and not its end", m.Pass),
			fault.Want("one of them, as the request waits"))
	}
	return r, err
}

// failed tells that a task has records that cannot be read.
func (t *tasks) failed(ctx context.Context, task *rpc.Task, reason error) error {
	return t.ask.call(ctx, question{"coordinator", fmt.Sprintf("taking task %d back", task.Id)}, func(ctx context.Context, attempt uint32) error {
		_, err := t.coordinator.TaskFailed(ctx, &rpc.TaskFailedRequest{Id: t.of.identity.Of(t.rank, 0, attempt), Task: task, Reason: reason.Error()},
			grpc.WaitForReady(false))
		return err
	})
}

// report tells which files the dataset has.
func (t *tasks) report(ctx context.Context, data *dataset.Dataset) error {
	m := &rpc.Dataset{Name: t.dataset}
	for _, f := range data.Files() {
		m.Files = append(m.Files, &rpc.DataFile{Path: f.Path, FirstRecord: f.FirstRecord, Records: f.Records, Bytes: f.Bytes, Fingerprint: f.Fingerprint})
	}
	return t.ask.call(ctx, question{"coordinator", "taking the dataset"}, func(ctx context.Context, attempt uint32) error {
		id := t.of.identity.Of(t.rank, 0, attempt)
		return wire.ReportDataset(ctx, t.coordinator, &rpc.ReportDatasetRequest{Id: id, Dataset: m}, grpc.WaitForReady(false))
	})
}

// ending says what follows a stream of records.
type ending int

const (
	more    ending = iota // the rest of it: it has not ended
	pending               // async: tasks of the pass may come back from others; never the answer to a request that waits
	passEnd
	dataEnd
)

func endingOf(r *rpc.GetTaskResponse) ending {
	switch {
	case r.EndOfData:
		return dataEnd
	case r.EndOfPass:
		return passEnd
	case r.Task == nil:
		return pending
	}
	return more
}

// batches is a stream of batches that is read from, with what ends its reading ahead.
type batches struct {
	next   func() (*dataset.Batch, error, bool)
	stop   func()
	cancel context.CancelFunc
}

// close ends the stream. The calls that read ahead are cancelled first: nobody waits for their answers.
func (b *batches) close() {
	if b != nil {
		b.cancel()
		b.stop()
	}
}

// progress keeps how far the tasks that a trainer was given are trained. A task is finished when the round of its last record has been committed, not
// when it has been read. The stream of records is read ahead of the steps, by another goroutine where the program has a double buffer: progress is
// safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	open    []span
	given   int64 // position in the stream behind the last task
	trained int64 // position behind the last record whose step has ended
	delay   int64 // how many records late a record may be delivered
}

// span is a task that was given and not yet reported, with the position of its end in the stream.
type span struct {
	task *rpc.Task
	end  int64
}

// begin starts a stream at a position.
func (p *progress) begin(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.given, p.trained = nil, at, at
}

// give notes a task, of which so many records are in the stream.
func (p *progress) give(task *rpc.Task, records int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given += records
	p.open = append(p.open, span{task, p.given})
}

// back takes a task out that is not to be reported as finished.
func (p *progress) back(task *rpc.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(s span) bool { return s.task == task })
}

// train notes that the step of the next records has ended well.
func (p *progress) train(records int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trained += records
}

// finished takes out the tasks that are finished: all of them when whole says that every record of the stream has been trained.
func (p *progress) finished(whole bool) []*rpc.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tasks []*rpc.Task
	for len(p.open) > 0 && (whole || p.open[0].end+p.delay <= p.trained) {
		tasks = append(tasks, p.open[0].task)
		p.open = p.open[1:]
	}
	return tasks
}

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

func (c *sampleCheck) sample(r dataset.Record) error {
	streams, err := dataset.ParseRecord(r.Bytes, c.streams)
	if err != nil {
		return fault.E(fault.KindOf(err), fault.Atf("%s: record %d", r.File, r.Number), fault.Cause(err))
	}
	c.streams = streams
	return nil
}
