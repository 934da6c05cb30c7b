package trainer

import (
	"context"
	"errors"
	"io"
	"iter"
	"sort"
	"sync/atomic"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// syncSource is the source of a sync job that reads data: the trainer's rows of every batch of the dataset, from the first round of a generation on.
// All trainers read the same order of records. Which batch a round trains is a function of its number and of the segment that it lies in, so the
// members of the next generation train a round again that was given up.
//
// For example, a segment of pass 2 has first round 40 and first batch 3, and begins with 10 records that it skips. Batches have 5 rows and there is no
// shuffle. Round 42 then trains batch 5 of what is left: the records 35 to 39 of the dataset. Of two trainers the first has 35 and 36, the second the
// rest.
type syncSource struct {
	taskReader
	part    dataset.Part // of this trainer
	segment segment

	endRound  atomic.Uint64 // the first round that is not trained; noEnd: not known
	permits   bool          // rounds need permission
	permitted id.Round      // the first round without it
}

// segment says which batch a round trains. Its pass is that of the taskReader.
type segment struct {
	firstRound id.Round
	firstBatch int64
	skip       ranges.Set
}

// noEnd stands for a job that ends with its data.
const noEnd = ^uint64(0)

// newSyncSource begins where the generation does.
func newSyncSource(read taskReader, permits bool) (*syncSource, error) {
	in := read.calls.in
	g := in.Segment
	s := &syncSource{taskReader: read, part: dataset.Part{Index: int(in.Position), Of: int(in.Trainers)}, permits: permits,
		segment: segment{id.Round(g.GetFirstRound()), int64(g.GetFirstBatch()), ranges.Of(wire.RangesOf(g.GetSkip())...)}}
	s.round, s.pass = id.Round(in.Round), g.GetPass()
	s.progress.delay = int64(s.reader.ShuffleBuffer())
	s.endRound.Store(noEnd)
	s.noteEnd(in.EndRound)
	if s.round < s.segment.firstRound || s.segment.firstBatch < 0 {
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("round %d in a segment from round %d and batch %d on", s.round,
			s.segment.firstRound, g.GetFirstBatch()))
	}
	return s, nil
}

// Next implements executor.BatchSource.
func (s *syncSource) Next(ctx context.Context) (*executor.Batch, error) {
	s.stepEnded()
	if err := s.mayBegin(ctx); err != nil {
		return nil, err
	}
	for {
		b, err := s.read(ctx, s.open)
		switch {
		case err != nil:
			return nil, s.giveBack(ctx, err)
		case b != nil && uint64(s.round) >= s.endRound.Load(): // the stream has met the end of the job
			return nil, s.endEarly(ctx)
		case b != nil:
			return s.deliver(b, 0), nil
		}
		if err := s.report(ctx, true); err != nil {
			return nil, err
		}
		if s.end == dataEnd {
			return nil, io.EOF
		}
		// All trainers end a pass with the same round, and report that by asking for the next.
		s.pass++
		s.segment = segment{firstRound: s.round}
	}
}

// mayBegin returns when the next round may begin, or io.EOF where the job ends before it.
func (s *syncSource) mayBegin(ctx context.Context) error {
	if s.permits && s.round >= s.permitted {
		until, end, err := s.calls.permit(ctx, s.round)
		if err != nil {
			return err
		}
		if s.permitted = until; end {
			s.endRound.Store(uint64(s.round))
		}
	}
	if uint64(s.round) >= s.endRound.Load() {
		return s.endEarly(ctx)
	}
	return nil
}

// endEarly ends the data before the next round.
func (s *syncSource) endEarly(ctx context.Context) error {
	if err := s.HandIn(ctx); err != nil {
		return err
	}
	return io.EOF
}

// noteEnd notes what an answer says about the end of the job.
func (s *syncSource) noteEnd(round *uint64) {
	if round != nil {
		s.endRound.Store(*round)
	}
}

// stepEnded notes that the step of the last batch has ended well.
func (s *syncSource) stepEnded() {
	s.progress.train(s.batch.GlobalRows)
	s.batch = executor.Batch{}
}

// HandIn implements source.
func (s *syncSource) HandIn(ctx context.Context) error {
	s.Close()
	s.stepEnded()
	return s.report(ctx, false)
}

// report reports what is finished, while nobody reads ahead.
func (s *syncSource) report(ctx context.Context, whole bool) error {
	finished := s.finished(whole)
	if len(finished) == 0 {
		return nil
	}
	_, err := s.calls.get(ctx, s.segment.firstRound, &rpc.GetTaskRequest{Pass: s.pass, Finished: finished, ReportOnly: true})
	return err
}

// finished takes out what is finished: the last such task stands for those before it.
func (s *syncSource) finished(whole bool) []*rpc.Task {
	tasks := s.progress.finished(whole)
	return tasks[max(0, len(tasks)-1):]
}

// giveBack reports a task that cannot be read. The coordinator then begins a generation whose segment leaves it out.
func (s *syncSource) giveBack(ctx context.Context, reason error) error {
	if s.bad == nil || !errors.Is(reason, fault.Corrupt) {
		return reason
	}
	s.Close()
	if err := s.calls.failed(ctx, s.bad, reason); err != nil {
		return err
	}
	return fault.E(fault.Superseded, fault.Gotf("task %d, which cannot be read: %v", s.bad.Id, reason))
}

// open begins to read the segment at the batch of the next round.
func (s *syncSource) open(ctx context.Context) iter.Seq2[*dataset.Batch, error] {
	return s.reader.Segment(ctx, executor.Segment{Pass: int(s.pass), Part: s.part, First: s.segment.firstBatch + int64(s.round-s.segment.firstRound),
		Open: func(from int64) iter.Seq2[dataset.Record, error] { return s.recordsFrom(ctx, from) }})
}

// askRounds is how many rounds the tasks of one answer are for, where tasks are small. It bounds how late tasks are reported that have been trained,
// and how many are given beyond them.
const askRounds = 16

// recordsFrom is the stream of records of the segment from a place on.
func (s *syncSource) recordsFrom(ctx context.Context, place int64) iter.Seq2[dataset.Record, error] {
	s.progress.begin(place) // records before it may have been trained; that they are not counted only delays the reports
	return func(yield func(dataset.Record, error) bool) {
		for position := s.segment.skip.Outside(place); ; {
			r, err := s.calls.get(ctx, s.segment.firstRound, &rpc.GetTaskRequest{Pass: s.pass, Position: position,
				Records: int64(askRounds * s.reader.Rows()), Finished: s.finished(false), Wait: true})
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			s.noteEnd(r.EndRound)
			if s.end = endingOf(r); s.end != more {
				return
			}
			given, err := taskRunOf(r, position, s.segment.skip)
			if err != nil {
				yield(dataset.Record{}, err)
				return
			}
			for i, task := range given.tasks {
				s.progress.give(task, given.records(i))
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

// A taskRun is the consecutive tasks of one answer. It is read as if it were one task, so that a chunk that holds several of them is read once.
type taskRun struct {
	tasks  []*rpc.Task
	ends   []int64 // of each task: how many records of the run lie before its end
	whole  *rpc.Task
	ranges []ranges.Range // of whole
	to     int64          // the record behind the last one
}

// taskRunOf takes the tasks from a position on, without the records that the segment leaves out.
func taskRunOf(r *rpc.GetTaskResponse, position int64, skip ranges.Set) (*taskRun, error) {
	n := &taskRun{whole: &rpc.Task{Id: r.Task.GetId()}, to: position}
	for _, t := range append([]*rpc.Task{r.Task}, r.Next...) {
		if len(t.GetRecords()) == 0 || t.Records[len(t.Records)-1].GetTo() <= n.to {
			return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("task %d without record %d", t.GetId(), n.to))
		}
		n.add(t, ranges.Subtract(wire.RangesOf(t.Records), skip))
	}
	return n, nil
}

func (n *taskRun) add(t *rpc.Task, list []ranges.Range) {
	end := ranges.Count(list)
	if last := len(n.ends) - 1; last >= 0 {
		end += n.ends[last]
	}
	n.tasks, n.ends, n.to = append(n.tasks, t), append(n.ends, end), t.Records[len(t.Records)-1].To
	for _, r := range list {
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
func (n *taskRun) records(i int) int64 {
	if i == 0 {
		return n.ends[0]
	}
	return n.ends[i] - n.ends[i-1]
}

// holding returns the task of the record that follows the first read records of the run.
func (n *taskRun) holding(read int64) *rpc.Task {
	i := sort.Search(len(n.ends), func(i int) bool { return n.ends[i] > read })
	return n.tasks[min(i, len(n.tasks)-1)]
}
