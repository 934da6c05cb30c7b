package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// data is the dataset of a trainer, which it opens and reports once.
type data struct {
	reader   *executor.Reader // nil before it is opened
	files    taskFiles
	reported bool
}

// open opens the dataset, unless it is open. A dataset that follows a folder begins empty: the coordinator says which files it has.
func (d *data) open(ctx context.Context, cfg *Config) (err error) {
	if d.reader != nil {
		return nil
	}
	globs := map[string][]string{}
	for _, b := range cfg.Spec.Data {
		globs[b.Dataset] = b.Globs
	}
	if follows(cfg.Spec) {
		d.reader, err = executor.NewReader(cfg.Program, globs, &dataset.Dataset{})
	} else {
		d.reader, err = executor.OpenReader(ctx, cfg.Program, globs)
	}
	if err == nil {
		_, d.files.data = d.reader.Dataset()
	}
	return err
}

// follows reports whether new files become tasks while the job runs.
func follows(spec *job.JobSpec) bool {
	return slices.ContainsFunc(spec.Data, (*job.DataBinding).GetFollow)
}

// close ends the connections to buckets. Nobody reads any more.
func (d *data) close() error {
	if d.reader == nil {
		return nil
	}
	return errors.Join(d.files.close(), d.reader.Close())
}

// openData opens the batches of a generation of a job that reads data.
func (g *generationRun) openData(ctx context.Context) (source, error) {
	if err := g.data.open(ctx, &g.cfg); err != nil {
		return nil, err
	}
	name, opened := g.data.reader.Dataset()
	calls := &taskCalls{coordinator: g.cfg.Coordinator, caller: g.caller, in: g.in, dataset: name}
	if !follows(g.cfg.Spec) && !g.data.reported {
		if err := calls.reportDataset(ctx, opened); err != nil {
			return nil, err
		}
		g.data.reported = true
	}
	read := newTaskReader(calls, g.data.reader, &g.data.files)
	if g.cfg.Sync {
		s, err := newSyncSource(read, g.cfg.Spec.MaxAhead > 0, g.comm.ahead)
		if err == nil {
			s.seeks = g.comm.verdicts.on
		}
		return s, err
	}
	return newAsyncSource(read, g.in.JoinResponse, ledger{g.settle, g.comm.rhythm.open, func(ctx context.Context) error { return g.comm.pace.rest(ctx, g.comm) }}), nil
}

// A taskReader is what the sources of sync and async jobs share: a stream of batches of the records of tasks, and which of the tasks are finished.
type taskReader struct {
	calls  *taskCalls
	reader *executor.Reader
	files  *taskFiles

	pass     int32
	round    id.Round       // of the next batch
	stream   *batchStream   // nil when none is open
	batch    executor.Batch // that was delivered last; empty when its step has been counted
	progress *taskProgress
	end      ending // what the stream has met; the steps know of it when they have trained all that was before
}

func newTaskReader(calls *taskCalls, reader *executor.Reader, files *taskFiles) taskReader {
	return taskReader{calls: calls, reader: reader, files: files, progress: &taskProgress{}}
}

// read returns the next batch of a stream that open begins; nil at the end of the stream, which is closed then.
func (r *taskReader) read(ctx context.Context, open func(context.Context) iter.Seq2[*dataset.Batch, error]) (*dataset.Batch, error) {
	if r.stream == nil {
		r.end = more
		ctx, cancel := context.WithCancel(ctx)
		next, stop := iter.Pull2(open(ctx))
		r.stream = &batchStream{next, stop, cancel}
	}
	b, err, ok := r.stream.next()
	if !ok {
		r.Close()
		return nil, nil
	}
	return b, err
}

// deliver makes b the batch of the next round. lane is that of its random numbers.
func (r *taskReader) deliver(b *dataset.Batch, lane id.Rank) *executor.Batch {
	r.batch = executor.Batch{Tensors: b.Tensors, GlobalRows: int64(b.GlobalRows), Pass: int(r.pass), Records: b.Records,
		Step: ops.Step{Round: uint64(r.round), Lane: uint64(lane), RowOffset: int64(b.RowOffset), Rows: int64(b.Rows)}}
	r.round++
	return &r.batch
}

// Number implements source.
func (r *taskReader) Number() id.Round { return id.Round(r.batch.Step.Round) }

// Close implements source.
func (r *taskReader) Close() {
	r.stream.close()
	r.stream = nil
}

// batchStream is a stream of batches that is read from, with what ends its reading ahead.
type batchStream struct {
	next   func() (*dataset.Batch, error, bool)
	stop   func()
	cancel context.CancelFunc
}

// close ends the stream. It cancels the calls that read ahead first, because their answers are not needed.
func (s *batchStream) close() {
	if s != nil {
		s.cancel()
		s.stop()
	}
}

// taskCalls are a trainer's calls about the tasks of a dataset, in one generation.
type taskCalls struct {
	coordinator rpc.CoordinatorClient
	caller      caller
	in          *generation
	dataset     string
}

// get reports finished tasks and, unless m only reports, asks for another. number is the round of its identity. A request with Wait waits at the
// coordinator, which knows and lists whom it waits for. The trainer refuses an answer to it without a task: else it would ask without end.
func (t *taskCalls) get(ctx context.Context, number id.Round, m *rpc.GetTaskRequest) (r *rpc.GetTaskResponse, err error) {
	m.Dataset = t.dataset
	target := callTarget{"coordinator", fmt.Sprintf("a task of pass %d", m.Pass)}
	err = t.caller.call(ctx, target, func(ctx context.Context, retry id.Retry) (err error) {
		m.Id = t.in.message(number, retry)
		r, err = t.coordinator.GetTask(ctx, m, grpc.WaitForReady(false))
		return err
	})
	if err == nil && m.Wait && endingOf(r) == pending {
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("no task of pass %d, and not its end", m.Pass),
			fault.Want("one of them, as the request waits"))
	}
	return r, err
}

// failed reports that a task has records that cannot be read.
func (t *taskCalls) failed(ctx context.Context, task *rpc.Task, reason error) error {
	target := callTarget{"coordinator", fmt.Sprintf("taking task %d back", task.Id)}
	return t.caller.call(ctx, target, func(ctx context.Context, retry id.Retry) error {
		_, err := t.coordinator.TaskFailed(ctx, &rpc.TaskFailedRequest{Id: t.in.message(0, retry), Task: task, Reason: reason.Error()},
			grpc.WaitForReady(false))
		return err
	})
}

// permit waits until a round may begin. It returns the first round that the answer does not cover; end reports that the data ends before the round.
func (t *taskCalls) permit(ctx context.Context, round id.Round) (until id.Round, end bool, err error) {
	var r *rpc.PermitResponse
	target := callTarget{"coordinator", fmt.Sprintf("permission to begin round %d", round)}
	err = t.caller.call(ctx, target, func(ctx context.Context, retry id.Retry) (err error) {
		r, err = t.coordinator.Permit(ctx, &rpc.PermitRequest{Id: t.in.message(round, retry)}, grpc.WaitForReady(false))
		return err
	})
	if err == nil && !r.End && r.Until <= uint64(round) {
		err = fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("permission up to round %d", r.Until), fault.Wantf("more than %d", round))
	}
	return id.Round(r.GetUntil()), r.GetEnd(), err
}

// reportDataset reports which files the dataset has.
func (t *taskCalls) reportDataset(ctx context.Context, data *dataset.Dataset) error {
	m := &rpc.Dataset{Name: t.dataset}
	for _, f := range data.Files() {
		m.Files = append(m.Files, &rpc.DataFile{Path: f.Path, FirstRecord: f.FirstRecord, Records: f.Records, Bytes: f.Bytes, Fingerprint: f.Fingerprint})
	}
	return t.caller.call(ctx, callTarget{"coordinator", "taking the dataset"}, func(ctx context.Context, retry id.Retry) error {
		return wire.ReportDataset(ctx, t.coordinator, &rpc.ReportDatasetRequest{Id: t.in.message(0, retry), Dataset: m}, grpc.WaitForReady(false))
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

// taskProgress keeps how far the tasks that a trainer was given are trained. A task is finished when the round of its last record has been committed,
// not when it has been read. The stream of records is read ahead of the steps, by another goroutine where the program has a double buffer:
// taskProgress is safe for concurrent use.
type taskProgress struct {
	mu      sync.Mutex
	open    []openTask
	given   int64 // position in the stream behind the last task
	trained int64 // position behind the last record whose step has ended
	delay   int64 // how many records late a record may be delivered

	low   chan struct{} // of atMost; nil: nobody waits
	lowAt int64
}

// openTask is a task that was given and not yet reported, with the position of its end in the stream.
type openTask struct {
	task *rpc.Task
	end  int64
}

// begin starts a stream at a position.
func (p *taskProgress) begin(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.given, p.trained, p.low = nil, at, at, nil
}

// give notes a task, of which so many records are in the stream.
func (p *taskProgress) give(task *rpc.Task, records int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given += records
	p.open = append(p.open, openTask{task, p.given})
}

// remove takes a task out that is not to be reported as finished.
func (p *taskProgress) remove(task *rpc.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(s openTask) bool { return s.task == task })
}

// train notes that the step of the next records has ended well.
func (p *taskProgress) train(records int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trained += records
	p.checkLow()
}

// atMost returns a channel that is closed when at most so many of the records that were given are still to be trained, without those that a shuffle buffer
// holds back. It replaces the channel of an earlier call.
func (p *taskProgress) atMost(records int64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	low := make(chan struct{})
	p.low, p.lowAt = low, records
	p.checkLow()
	return low
}

func (p *taskProgress) checkLow() {
	if p.low != nil && p.given-p.delay-p.trained <= p.lowAt {
		close(p.low)
		p.low = nil
	}
}

// reportAgain takes tasks back that finished has returned, because the report has failed.
func (p *taskProgress) reportAgain(tasks []*rpc.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, task := range slices.Backward(tasks) {
		p.open = slices.Insert(p.open, 0, openTask{task, -p.delay})
	}
}

// holding returns the task of a record among those that were given and not yet reported, nil if there is none.
func (p *taskProgress) holding(record int64) *rpc.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.open {
		for _, r := range o.task.Records {
			if r.From <= record && record < r.To {
				return o.task
			}
		}
	}
	return nil
}

// finished takes out the tasks that are finished: all of them when whole says that every record of the stream has been trained.
func (p *taskProgress) finished(whole bool) []*rpc.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tasks []*rpc.Task
	for len(p.open) > 0 && (whole || p.open[0].end+p.delay <= p.trained) {
		tasks = append(tasks, p.open[0].task)
		p.open = p.open[1:]
	}
	return tasks
}
