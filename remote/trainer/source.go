package trainer

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// tasks is the BatchSource of a job that reads its own data: the records of the tasks that the coordinator hands out.
//
// A task is reported finished only when every record of it has been trained, which is known at the call of Next: it says that the step of
// the batch before has ended well.
type tasks struct {
	reader      *executor.Reader
	part        dataset.Part // of each batch
	coordinator rpc.CoordinatorClient
	identity    wire.Identity
	rank        uint32
	patience    time.Duration // for a coordinator that does not answer
	shared      bool          // sync mode: every trainer is given every task, and takes its rows of each batch

	dataset string
	data    *dataset.Dataset

	pass  int
	round uint64
	next  func() (*dataset.Batch, error, bool) // of the segment that is open, else nil
	stop  func()
	batch executor.Batch
	last  bool  // all passes have been delivered
	delay int64 // how many records late a record may be delivered

	// The stream of records is read ahead of the steps, by another goroutine where the program has a double buffer.
	mu       sync.Mutex
	requests uint64    // to GetTask so far
	open     []segment // tasks given and not yet reported, in order
	read     int64     // records given in this segment
	trained  int64     // records of this segment whose step has ended
	end      ending    // why the segment ended
}

// segment is a task with the position of its end in the stream of records of the trainer.
type segment struct {
	task *rpc.Task
	end  int64
}

// ending says what follows a segment, which is a run of tasks without a pause.
type ending int

const (
	more    ending = iota // nothing: it has not ended
	pending               // tasks of the pass may come back from others
	passEnd
	dataEnd
)

// openTasks opens the dataset and reports it.
func openTasks(ctx context.Context, t *tasks) error {
	t.dataset, t.data = t.reader.Dataset()
	if t.shared {
		t.delay = int64(t.reader.ShuffleBuffer())
	}
	m := &rpc.Dataset{Name: t.dataset}
	for _, c := range t.data.Chunks() {
		m.Files = append(m.Files, &rpc.DataFile{Path: c.Path, FirstRecord: c.FirstRecord, Records: int64(c.Records)})
	}
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	return wire.Retry(ctx, func(attempt uint32) error {
		_, err := t.coordinator.ReportDataset(ctx, &rpc.ReportDatasetRequest{Id: t.identity.Of(t.rank, 0, attempt), Dataset: m})
		return err
	})
}

// Next implements executor.BatchSource.
func (t *tasks) Next(ctx context.Context) (*executor.Batch, error) {
	t.mu.Lock()
	t.trained += t.batch.GlobalRows
	t.mu.Unlock()
	t.batch = executor.Batch{}
	for {
		if t.next == nil {
			if t.last {
				return nil, io.EOF
			}
			t.mu.Lock()
			t.read, t.trained = 0, 0
			t.mu.Unlock()
			t.next, t.stop = iter.Pull2(t.reader.Batches(ctx, t.records(ctx), t.part))
		}
		b, err, ok := t.next()
		if err != nil {
			return nil, err
		}
		if ok {
			return t.deliver(b), nil
		}
		if err := t.endSegment(ctx); err != nil {
			return nil, err
		}
	}
}

func (t *tasks) deliver(b *dataset.Batch) *executor.Batch {
	t.batch = executor.Batch{Tensors: b.Tensors, GlobalRows: int64(b.GlobalRows), Pass: t.pass, Records: b.Records,
		Step: ops.Step{Round: t.round, RowOffset: int64(b.RowOffset), Rows: int64(b.Rows)}}
	if !t.shared {
		t.batch.Step.Lane = uint64(t.rank)
	}
	t.round++
	return &t.batch
}

// endSegment reports what is left and decides how to go on. Everything of the segment has been trained, and nobody reads ahead any more.
func (t *tasks) endSegment(ctx context.Context) error {
	t.Close()
	if len(t.open) > 0 {
		if _, err := t.ask(ctx, &rpc.GetTaskRequest{ReportOnly: true}); err != nil {
			return err
		}
	}
	switch t.end {
	case passEnd:
		t.pass++
	case dataEnd:
		t.last = true
	}
	t.end = more
	return nil
}

// Close ends what a segment that was not read to its end has started.
func (t *tasks) Close() {
	if t.stop != nil {
		t.stop()
	}
	t.next, t.stop = nil, nil
}

// records is the stream of records of one segment. In sync mode all trainers shuffle the same stream; in async mode each shuffles within its
// tasks, so that none takes more tasks than it trains.
func (t *tasks) records(ctx context.Context) iter.Seq2[dataset.Record, error] {
	if t.shared {
		return t.reader.Shuffle(t.tasksOf(ctx, func(r iter.Seq2[dataset.Record, error]) iter.Seq2[dataset.Record, error] { return r }), t.pass)
	}
	return t.tasksOf(ctx, func(r iter.Seq2[dataset.Record, error]) iter.Seq2[dataset.Record, error] {
		return t.reader.Shuffle(r, t.pass)
	})
}

// tasksOf joins the records of the tasks of a segment, each treated by order.
func (t *tasks) tasksOf(ctx context.Context, order func(iter.Seq2[dataset.Record, error]) iter.Seq2[dataset.Record, error]) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		for first := true; ; first = false {
			// Before the first task nothing of this trainer is unfinished, so it may wait for the others.
			r, err := t.ask(ctx, &rpc.GetTaskRequest{Wait: first})
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			if r.Task == nil {
				return
			}
			given := int64(0)
			for record, err := range order(t.data.Records(ctx, r.Task.Records[0].GetFrom(), r.Task.Records[0].GetTo())) {
				if errors.Is(err, fault.Corrupt) && !t.shared {
					if err = t.giveBack(ctx, r.Task, given, err); err == nil {
						break
					}
				}
				if !yield(record, err) || err != nil {
					return
				}
				given++
			}
		}
	}
}

// giveBack tells the coordinator that a task of an async job has records that cannot be read. The given ones before them are trained all the same;
// the task goes to another trainer, and is discarded when none can read it.
func (t *tasks) giveBack(ctx context.Context, task *rpc.Task, given int64, reason error) error {
	limited, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	err := wire.Retry(limited, func(attempt uint32) error {
		_, err := t.coordinator.TaskFailed(limited, &rpc.TaskFailedRequest{Id: t.identity.Of(t.rank, 0, attempt), Task: task, Reason: reason.Error()})
		return wire.FromStatus("coordinator", err)
	})
	if err != nil && !errors.Is(err, fault.Stale) { // stale: it has taken too long and is another's already
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(s segment) bool { return s.task == task })
	t.read -= task.Records[0].GetTo() - task.Records[0].GetFrom() - given
	return nil
}

// ask reports the tasks that are finished and, unless m is a mere report, takes in what it is answered.
func (t *tasks) ask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	t.mu.Lock()
	m.Dataset, m.Pass = t.dataset, int32(t.pass)
	for len(t.open) > 0 && (m.ReportOnly || t.open[0].end+t.delay <= t.trained) {
		m.Finished = append(m.Finished, t.open[0].task)
		t.open = t.open[1:]
	}
	number := t.requests
	t.requests++
	t.mu.Unlock()

	var r *rpc.GetTaskResponse
	err := wire.RetryWithin(ctx, t.patience, func(attempt uint32) error {
		m.Id = t.identity.Of(t.rank, number, attempt)
		var err error
		r, err = t.coordinator.GetTask(ctx, m, grpc.WaitForReady(false))
		return wire.FromStatus("coordinator", err)
	})
	if err != nil || m.ReportOnly {
		return r, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.EndOfData:
		t.end = dataEnd
	case r.EndOfPass:
		t.end = passEnd
	case r.Task == nil:
		t.end = pending
	default:
		t.read += r.Task.Records[0].GetTo() - r.Task.Records[0].GetFrom()
		t.open = append(t.open, segment{task: r.Task, end: t.read})
	}
	return r, nil
}
