package trainer

import (
	"context"
	"io"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
)

// ordered is the source of a sync job: the trainer's rows of every batch of the dataset, from the first round of a generation on. All trainers read
// the same order of records; which batch a round trains is a function of its number and of the segment that it lies in, so that a round which was
// given up is trained again by whoever is there.
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
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("round %d in a segment from round %d on", s.round, s.segment.first))
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
	finished := s.finished(whole)
	if len(finished) == 0 {
		return nil
	}
	_, err := s.tasks.get(ctx, s.segment.first, &rpc.GetTaskRequest{Pass: s.segment.pass, Finished: finished, ReportOnly: true})
	return err
}

// finished takes out what is finished: the last such task stands for those before it.
func (s *ordered) finished(whole bool) []*rpc.Task {
	tasks := s.records.finished(whole)
	return tasks[max(0, len(tasks)-1):]
}
