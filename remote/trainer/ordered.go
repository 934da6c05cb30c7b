package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
)

// ordered is the source of a sync job: the trainer's rows of every batch of the dataset, from the first round of a generation on. All trainers read the
// same order of records; which batch a round trains is a function of its number and of the segment that it lies in, so that a round which was given up
// is trained again by whoever is there.
type ordered struct {
	tasks  *tasks
	reader *executor.Reader
	files  *files
	part   dataset.Part

	segment struct {
		pass  int32
		first uint64 // round
		skip  skips
	}
	round   uint64 // of the next batch
	stream  *batches
	batch   executor.Batch
	records progress
	// What the stream has met, known to the steps when they have trained all that was before it.
	end ending
	bad *rpc.Task
}

// newOrdered begins where a generation does.
func newOrdered(t *tasks, reader *executor.Reader, f *files) (*ordered, error) {
	s := &ordered{tasks: t, reader: reader, files: f, part: dataset.Part{Index: int(t.of.Position), Of: int(t.of.Trainers)}, round: t.of.Round}
	s.segment.pass, s.segment.first, s.segment.skip = t.of.Segment.GetPass(), t.of.Segment.GetFirstRound(), t.of.Segment.GetSkip()
	s.records.delay = int64(reader.ShuffleBuffer())
	if s.round < s.segment.first {
		return nil, &fault.Fault{Kind: fault.Internal, Where: "coordinator", Got: fmt.Sprintf("round %d in a segment from round %d on", s.round, s.segment.first)}
	}
	return s, nil
}

// Next implements executor.BatchSource.
func (s *ordered) Next(ctx context.Context) (*executor.Batch, error) {
	s.account()
	for {
		if s.stream == nil {
			s.stream = s.open(ctx)
		}
		b, err, ok := s.stream.next()
		switch {
		case err != nil:
			return nil, s.refuse(ctx, err)
		case ok:
			s.batch = executor.Batch{Tensors: b.Tensors, GlobalRows: int64(b.GlobalRows), Pass: int(s.segment.pass), Records: b.Records,
				Step: ops.Step{Round: s.round, RowOffset: int64(b.RowOffset), Rows: int64(b.Rows)}}
			s.round++
			return &s.batch, nil
		}
		s.Close()
		if err := s.tell(ctx, true); err != nil {
			return nil, err
		}
		if s.end == dataEnd {
			return nil, io.EOF
		}
		// All trainers end a pass with the same round, and say so by asking for the next.
		s.segment.pass, s.segment.first, s.segment.skip = s.segment.pass+1, s.round, nil
	}
}

// account notes that the step of the last batch has ended well.
func (s *ordered) account() {
	s.records.train(s.batch.GlobalRows)
	s.batch = executor.Batch{}
}

// HandIn implements source.
func (s *ordered) HandIn(ctx context.Context) error {
	s.Close()
	s.account()
	return s.tell(ctx, false)
}

// Close implements source.
func (s *ordered) Close() {
	s.stream.close()
	s.stream = nil
}

// tell reports what is finished, while nobody reads ahead.
func (s *ordered) tell(ctx context.Context, whole bool) error {
	finished := s.records.finished(whole)
	if len(finished) == 0 {
		return nil
	}
	_, err := s.tasks.get(ctx, s.segment.first, &rpc.GetTaskRequest{Pass: s.segment.pass, Finished: finished, ReportOnly: true})
	return err
}

// refuse gives back a task that cannot be read. The coordinator then begins a generation whose segment counts with that.
func (s *ordered) refuse(ctx context.Context, reason error) error {
	if s.bad == nil || !errors.Is(reason, fault.Corrupt) {
		return reason
	}
	s.Close()
	if err := s.tasks.failed(ctx, s.bad, reason); err != nil {
		return err
	}
	return &fault.Fault{Kind: fault.Superseded, Got: fmt.Sprintf("task %d, which cannot be read: %v", s.bad.Id, reason)}
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
			r, err := s.tasks.get(ctx, s.segment.first, &rpc.GetTaskRequest{Pass: s.segment.pass, Position: position, Finished: s.records.finished(false), Wait: true})
			if err == nil && r.Task != nil && (len(r.Task.Records) == 0 || r.Task.Records[len(r.Task.Records)-1].To <= position) {
				err = &fault.Fault{Kind: fault.Internal, Where: "coordinator", Got: fmt.Sprintf("task %d without record %d", r.Task.Id, position)}
			}
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			if s.end = endingOf(r); s.end == passEnd || s.end == dataEnd {
				return
			} else if s.end == pending {
				continue
			}
			ranges := s.segment.skip.cut(r.Task.Records)
			s.records.give(r.Task, count(ranges))
			for record, err := range s.files.records(ctx, r.Task, ranges) {
				if errors.Is(err, fault.Corrupt) {
					s.bad = r.Task
				}
				if !yield(record, err) || err != nil {
					return
				}
			}
			position = r.Task.Records[len(r.Task.Records)-1].To
		}
	}
}
