package trainer

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
)

// dispatched is the source of an async job: whole batches of the records of the tasks that the trainer was given. Each trainer shuffles within its
// tasks, so that none takes more tasks than it trains.
//
// A step counts when it is in the ledger, which is settled at the latest by the sends of the next one: so the records of a batch are trained when the
// next step has ended.
type dispatched struct {
	tasks  *tasks
	reader *executor.Reader
	files  *files
	settle func() error // waits until every step is in the ledger

	pass    int
	round   uint64
	stream  *batches
	batch   executor.Batch
	ended   int64  // records of the step that has ended last
	number  uint64 // of requests for tasks so far
	records progress
	end     ending
	bad     *rpc.Task // that ended the stream because of records that cannot be read, for reason
	reason  error
	last    bool // all passes have been delivered
}

// Next implements executor.BatchSource.
func (s *dispatched) Next(ctx context.Context) (*executor.Batch, error) {
	s.account()
	for {
		if s.stream == nil {
			if s.last {
				return nil, io.EOF
			}
			s.stream = s.open(ctx)
		}
		b, err, ok := s.stream.next()
		switch {
		case err != nil:
			return nil, err
		case ok:
			s.batch = executor.Batch{Tensors: b.Tensors, GlobalRows: int64(b.GlobalRows), Pass: s.pass, Records: b.Records,
				Step: ops.Step{Round: s.round, Lane: uint64(s.tasks.rank), RowOffset: int64(b.RowOffset), Rows: int64(b.Rows)}}
			s.round++
			return &s.batch, nil
		}
		s.Close()
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
		switch s.end {
		case passEnd:
			s.pass++
		case dataEnd:
			s.last = true
		}
	}
}

// account notes that the step of the last batch has ended well.
func (s *dispatched) account() {
	s.records.train(s.ended)
	s.ended, s.batch = s.batch.GlobalRows, executor.Batch{}
}

// HandIn implements source.
func (s *dispatched) HandIn(ctx context.Context) error {
	s.Close()
	s.account()
	return s.tell(ctx, false)
}

// Close implements source.
func (s *dispatched) Close() {
	s.stream.close()
	s.stream = nil
}

// pause reports the tasks of a stream that has ended. One that cannot be read goes back when all that was read of it has been trained: it goes to
// another trainer without those records, and is discarded when none can read it.
func (s *dispatched) pause(ctx context.Context) error {
	bad := s.bad
	if bad == nil {
		return s.tell(ctx, true)
	}
	s.bad = nil
	s.records.back(bad)
	if err := s.tell(ctx, true); err != nil {
		return err
	}
	err := s.tasks.failed(ctx, bad, s.reason)
	if errors.Is(err, fault.Stale) { // it has taken too long and is another's already
		return nil
	}
	return err
}

// tell reports what is finished, while nobody reads ahead and every step has ended.
func (s *dispatched) tell(ctx context.Context, whole bool) error {
	if err := s.settle(); err != nil {
		return err
	}
	s.records.train(s.ended)
	s.ended = 0
	finished := s.records.finished(whole)
	if len(finished) == 0 {
		return nil
	}
	_, err := s.get(ctx, &rpc.GetTaskRequest{Finished: finished, ReportOnly: true})
	return err
}

// get numbers a request, so that a repeated one is known.
func (s *dispatched) get(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	number := s.number
	s.number++
	m.Pass = int32(s.pass)
	return s.tasks.get(ctx, number, m)
}

// open begins to read the tasks that are there. The stream pauses where tasks are pending elsewhere: what it has given is to be trained and reported
// first.
func (s *dispatched) open(ctx context.Context) *batches {
	s.records.begin(0)
	s.ended, s.end = 0, more
	ctx, cancel := context.WithCancel(ctx)
	next, stop := iter.Pull2(s.reader.Batches(ctx, s.given(ctx), dataset.Part{}))
	return &batches{next, stop, cancel}
}

// given is the stream of records of the tasks.
func (s *dispatched) given(ctx context.Context) iter.Seq2[dataset.Record, error] {
	return func(yield func(dataset.Record, error) bool) {
		for first := true; ; first = false {
			// Before the first task nothing of this trainer is unfinished, so it may wait for the others.
			r, err := s.get(ctx, &rpc.GetTaskRequest{Finished: s.records.finished(false), Wait: first})
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			if s.end = endingOf(r); s.end != more {
				return
			}
			ranges := skips(nil).cut(r.Task.Records)
			s.records.give(r.Task, count(ranges))
			for record, err := range s.reader.Shuffle(s.files.records(ctx, r.Task, ranges), s.pass) {
				if errors.Is(err, fault.Corrupt) {
					s.end, s.bad, s.reason = pending, r.Task, err
					return
				}
				if !yield(record, err) || err != nil {
					return
				}
			}
		}
	}
}
