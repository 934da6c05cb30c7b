package trainer

import (
	"context"
	"errors"
	"iter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

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
