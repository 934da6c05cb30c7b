package trainer

import (
	"context"
	"errors"
	"iter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// askRounds is how many rounds the tasks of one answer are for, where tasks are small. It bounds how late tasks are reported that have been trained,
// and how many are given beyond them.
const askRounds = 16

// refuse gives back a task that cannot be read. The coordinator then begins a generation whose segment counts with that.
func (s *ordered) refuse(ctx context.Context, reason error) error {
	if s.bad == nil || !errors.Is(reason, fault.Corrupt) {
		return reason
	}
	s.Close()
	if err := s.tasks.failed(ctx, s.bad, reason); err != nil {
		return err
	}
	return fault.E(fault.Superseded, fault.Gotf("task %d, which cannot be read: %v", s.bad.Id, reason))
}

// open begins to read the segment at the batch of the next round.
func (s *ordered) open(ctx context.Context) *batches {
	s.end, s.bad = more, nil
	ctx, cancel := context.WithCancel(ctx)
	next, stop := iter.Pull2(s.reader.Segment(ctx, executor.Segment{Pass: int(s.segment.pass), Part: s.part, First: int64(s.round - s.segment.first),
		Open: func(from int64) iter.Seq2[dataset.Record, error] { return s.from(ctx, from) }}))
	return &batches{next, stop, cancel}
}

// from is the stream of records of the segment from a place on.
func (s *ordered) from(ctx context.Context, place int64) iter.Seq2[dataset.Record, error] {
	s.records.begin(place) // those before may have been trained: that they are not counted only delays the reports
	return func(yield func(dataset.Record, error) bool) {
		for position := s.segment.skip.position(place); ; {
			r, err := s.tasks.get(ctx, s.segment.first, &rpc.GetTaskRequest{Pass: s.segment.pass, Position: position,
				Records: int64(askRounds * s.reader.Rows()), Finished: s.finished(false), Wait: true})
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			if s.end = endingOf(r); s.end != more {
				return
			}
			given, err := runOf(r, position, s.segment.skip)
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			for i, task := range given.tasks {
				s.records.give(task, given.records(i))
			}
			read := int64(0)
			for record, err := range s.files.records(ctx, given.whole, given.ranges) {
				if errors.Is(err, fault.Corrupt) {
					s.bad = given.holding(read)
				}
				if !yield(record, err) || err != nil {
					return
				}
				read++
			}
			position = given.to
		}
	}
}
