package trainer

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// asyncSource is the source of an async job that reads data: whole batches of the records of the tasks that the trainer was given. Each trainer
// shuffles within its tasks, so that none takes more tasks than it trains.
//
// A step counts when its push is in the ledger. A push waits for the one before, so the records of a push count as trained when the next one has ended.
type asyncSource struct {
	taskReader
	ledger ledger

	pushed   int64    // records of the last push
	unpushed int64    // records of the steps that have ended after it
	requests id.Round // for tasks so far: a repeated one is known by its number
	last     bool     // all passes have been delivered

	// What the stream has met. The steps know of it when they have trained all that was before.
	bad       *rpc.Task // whose records cannot be read, for badReason
	badReason error
}

// A ledger is what a source knows of the pushes of its steps, while none is under way: those of Comm.
type ledger struct {
	settle func() error                // pushes what is not pushed, and waits until all is in the ledger. A drain does not end it
	open   func() bool                 // steps have ended that are not pushed
	rest   func(context.Context) error // says that no step follows for now, when everything is settled
}

// newAsyncSource begins with the pass and the step with which the job does, or its history.
func newAsyncSource(read taskReader, begin *rpc.JoinResponse, ledger ledger) *asyncSource {
	s := &asyncSource{taskReader: read, ledger: ledger}
	s.pass, s.round = begin.Segment.GetPass(), id.Round(begin.Round)
	return s
}

// Next implements executor.BatchSource.
func (s *asyncSource) Next(ctx context.Context) (*executor.Batch, error) {
	s.stepEnded()
	for !s.last {
		b, err := s.read(ctx, s.open)
		switch {
		case err != nil:
			return nil, err
		case b != nil:
			return s.deliver(b, s.calls.in.rank), nil
		}
		if err := s.streamEnded(ctx); err != nil {
			return nil, err
		}
		if err := s.ledger.rest(ctx); err != nil {
			return nil, err
		}
		switch s.end {
		case passEnd:
			s.pass++
		case dataEnd:
			s.last = true
		}
	}
	return nil, io.EOF
}

// stepEnded notes that the step of the last batch has ended well.
func (s *asyncSource) stepEnded() {
	s.unpushed += s.batch.GlobalRows
	s.batch = executor.Batch{}
	if s.unpushed > 0 && !s.ledger.open() {
		s.progress.train(s.pushed)
		s.pushed, s.unpushed = s.unpushed, 0
	}
}

// HandIn implements source.
func (s *asyncSource) HandIn(ctx context.Context) error {
	s.Close()
	s.stepEnded()
	return s.report(ctx, false)
}

// streamEnded reports the tasks of a stream that has ended. A task that cannot be read goes back when all that was read of it has been trained: it goes
// to another trainer without those records, and is discarded when none can read it.
func (s *asyncSource) streamEnded(ctx context.Context) error {
	bad := s.bad
	if bad == nil {
		return s.report(ctx, true)
	}
	s.progress.remove(bad)
	if err := s.report(ctx, true); err != nil {
		return err
	}
	err := s.calls.failed(ctx, bad, s.badReason)
	if errors.Is(err, fault.Stale) { // it has taken too long and is another's already
		return nil
	}
	return err
}

// report reports what is finished, while nobody reads ahead and every step has ended.
func (s *asyncSource) report(ctx context.Context, whole bool) error {
	if err := s.ledger.settle(); err != nil {
		return err
	}
	s.progress.train(s.pushed + s.unpushed)
	s.pushed, s.unpushed = 0, 0
	finished := s.progress.finished(whole)
	if len(finished) == 0 {
		return nil
	}
	_, err := s.get(ctx, &rpc.GetTaskRequest{Finished: finished, ReportOnly: true})
	return err
}

func (s *asyncSource) get(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	number := s.requests
	s.requests++
	m.Pass = s.pass
	return s.calls.get(ctx, number, m)
}

// open begins to read tasks. The stream ends where all tasks that are left are pending at other trainers: first the trainer trains and reports what it
// has.
func (s *asyncSource) open(ctx context.Context) iter.Seq2[*dataset.Batch, error] {
	s.progress.begin(0)
	s.bad = nil
	return s.reader.Batches(ctx, s.records(ctx), dataset.Part{})
}

// records is the stream of records of the tasks.
func (s *asyncSource) records(ctx context.Context) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		for first := true; ; first = false {
			// Before the first task nothing of this trainer is unfinished, so it may wait for the others.
			r, err := s.get(ctx, &rpc.GetTaskRequest{Finished: s.progress.finished(false), Wait: first})
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			if s.end = endingOf(r); s.end != more {
				return
			}
			list := wire.RangesOf(r.Task.Records)
			s.progress.give(r.Task, ranges.Count(list))
			for record, err := range s.shuffled(ctx, r.Task, list) {
				if errors.Is(err, fault.Corrupt) {
					s.end, s.bad, s.badReason = pending, r.Task, err
					return
				}
				if !yield(record, err) || err != nil {
					return
				}
			}
		}
	}
}

// shuffled is the records of a task, in the order of its whole range where the rest of that was trained before.
func (s *asyncSource) shuffled(ctx context.Context, task *rpc.Task, list []ranges.Range) iter.Seq2[dataset.Record, error] {
	if task.Within == nil || s.reader.ShuffleBuffer() < 2 {
		return s.reader.Shuffle(s.files.records(ctx, task, list), int(s.pass))
	}
	left := ranges.Of(list...)
	whole := s.reader.Shuffle(s.files.records(ctx, task, wire.RangesOf([]*rpc.RecordRange{task.Within})), int(s.pass))
	return func(yield func(dataset.Record, error) bool) {
		for record, err := range whole {
			if (err != nil || left.Has(record.Number)) && !yield(record, err) {
				return
			}
		}
	}
}
