package trainer

import (
	"context"
	"errors"
	"io"
	"iter"
	"sort"

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

// A run is the consecutive tasks of one answer. It is read as if it were one task, so that a chunk that holds several of them is read once.
type run struct {
	tasks  []*rpc.Task
	ends   []int64 // of each task: how many records of the run lie before its end
	whole  *rpc.Task
	ranges []dataset.Range // of whole
	to     int64           // the record behind the last one
}

// runOf takes the tasks from a position on, without the records that the segment leaves out.
func runOf(r *rpc.GetTaskResponse, position int64, skip skips) (*run, error) {
	n := &run{whole: &rpc.Task{Id: r.Task.GetId()}, to: position}
	for _, t := range append([]*rpc.Task{r.Task}, r.Next...) {
		if len(t.GetRecords()) == 0 || t.Records[len(t.Records)-1].GetTo() <= n.to {
			return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("task %d without record %d", t.GetId(), n.to))
		}
		n.add(t, skip.cut(t.Records))
	}
	return n, nil
}

func (n *run) add(t *rpc.Task, ranges []dataset.Range) {
	end := count(ranges)
	if last := len(n.ends) - 1; last >= 0 {
		end += n.ends[last]
	}
	n.tasks, n.ends, n.to = append(n.tasks, t), append(n.ends, end), t.Records[len(t.Records)-1].To
	for _, r := range ranges {
		if last := len(n.ranges) - 1; last >= 0 && n.ranges[last].To == r.From {
			n.ranges[last].To = r.To
		} else {
			n.ranges = append(n.ranges, r)
		}
	}
	for _, f := range t.Files {
		if files := n.whole.Files; len(files) == 0 || files[len(files)-1].GetFirstRecord() < f.GetFirstRecord() {
			n.whole.Files = append(n.whole.Files, f)
		}
	}
}

// records returns how many records of the run are those of task i.
func (n *run) records(i int) int64 {
	if i == 0 {
		return n.ends[0]
	}
	return n.ends[i] - n.ends[i-1]
}

// holding returns the task of the record that follows the first read records of the run.
func (n *run) holding(read int64) *rpc.Task {
	i := sort.Search(len(n.ends), func(i int) bool { return n.ends[i] > read })
	return n.tasks[min(i, len(n.tasks)-1)]
}

// skips are ascending ranges of records that a segment leaves out.
type skips []*rpc.RecordRange

// position returns the number of the record that is at place n of those that are not left out.
func (s skips) position(n int64) int64 {
	for _, r := range s {
		if r.From > n {
			break
		}
		n += r.To - r.From
	}
	return n
}

// cut returns what ranges hold of the records that are not left out.
func (s skips) cut(ranges []*rpc.RecordRange) []dataset.Range {
	var kept []dataset.Range
	for _, r := range ranges {
		from := r.From
		for _, out := range s[sort.Search(len(s), func(i int) bool { return s[i].To > from }):] {
			if out.From >= r.To {
				break
			}
			if from < out.From {
				kept = append(kept, dataset.Range{From: from, To: out.From})
			}
			from = out.To
		}
		if from < r.To {
			kept = append(kept, dataset.Range{From: from, To: r.To})
		}
	}
	return kept
}

// count returns how many records ranges hold.
func count(ranges []dataset.Range) int64 {
	n := int64(0)
	for _, r := range ranges {
		n += r.To - r.From
	}
	return n
}
