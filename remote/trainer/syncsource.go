package trainer

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
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
// All trainers follow the same order of records. Which batch a round trains is a function of its number and of the segment that it lies in, so the
// members of the next generation train a round again that was given up.
//
// The order is one of record numbers. A trainer computes which numbers its rows have, and reads only the chunks that hold them. So damage is found only by
// the trainers whose rows it hits. One of them reports the task, and the generation ends for all.
//
// For example, a segment of pass 2 has first round 40 and first batch 3, and begins with 10 records that it skips. Batches have 5 rows and there is no
// shuffle. Round 42 then trains batch 5 of what is left: the records 35 to 39 of the dataset. Of two trainers the first has 35 and 36, the second the
// rest.
type syncSource struct {
	taskReader
	part    dataset.Part // of this trainer
	segment segment

	endRound  atomic.Uint64 // the first round that is not trained; noEnd: not known
	seeks     bool          // passes may begin without this trainer
	ahead     *ahead        // is told of batches that are read ahead; may be nil
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
func newSyncSource(read taskReader, permits bool, ahead *ahead) (*syncSource, error) {
	in := read.calls.in
	g := in.Segment
	s := &syncSource{taskReader: read, part: dataset.Part{Index: int(in.Position), Of: int(in.Trainers)}, permits: permits, ahead: ahead,
		segment: segmentOf(g)}
	s.round, s.pass = id.Round(in.Round), g.GetPass()
	s.progress.delay = int64(s.reader.ShuffleBuffer())
	s.endRound.Store(noEnd)
	s.noteEnd(in.EndRound)
	return s, s.checkSegment()
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
		if s.seeks {
			if err := s.seek(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// seek finds the next pass where that may have begun with an earlier round, because others have gone on without this trainer. It returns io.EOF after the
// last one.
func (s *syncSource) seek(ctx context.Context) error {
	for {
		r, err := s.calls.get(ctx, s.round, &rpc.GetTaskRequest{Pass: s.pass, Records: 1, Wait: true})
		switch {
		case err != nil:
			return err
		case r.EndOfData:
			return io.EOF
		case r.EndOfPass:
			s.pass++
			continue
		case r.Segment == nil:
			return fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("tasks of pass %d without their segment", s.pass))
		}
		s.noteEnd(r.EndRound)
		s.segment = segmentOf(r.Segment)
		return s.checkSegment()
	}
}

func segmentOf(g *rpc.Segment) segment {
	return segment{id.Round(g.GetFirstRound()), int64(g.GetFirstBatch()), ranges.Of(wire.RangesOf(g.GetSkip())...)}
}

// checkSegment refuses a segment that begins after the next round.
func (s *syncSource) checkSegment() error {
	if s.round < s.segment.firstRound || s.segment.firstBatch < 0 {
		return fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("round %d in a segment from round %d and batch %d on", s.round,
			s.segment.firstRound, s.segment.firstBatch))
	}
	return nil
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

// untake gives back the batch that Next has delivered last and whose step has not begun. Nobody calls Next after that.
func (s *syncSource) untake() {
	s.round--
	s.batch = executor.Batch{}
}

// beginsPass reports whether the round of the batch that Next has delivered last is the first of a pass.
func (s *syncSource) beginsPass() bool {
	return s.batch.Step.Round == uint64(s.segment.firstRound) && s.segment.firstBatch == 0 && len(s.segment.skip) == 0
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

// giveBack reports the task of a record that cannot be read. The coordinator then begins a generation whose segment leaves the task out, if it has failed
// too often.
func (s *syncSource) giveBack(ctx context.Context, reason error) error {
	record, ok := dataset.RecordOf(reason)
	if !ok || !errors.Is(reason, fault.Corrupt) {
		return reason
	}
	s.Close()
	task := s.progress.holding(record)
	if task == nil {
		return reason
	}
	if err := s.calls.failed(ctx, task, reason); err != nil {
		return err
	}
	return fault.E(fault.Superseded, fault.Gotf("task %d, which cannot be read: %v", task.Id, reason))
}

// open begins to read the segment at the batch of the next round.
func (s *syncSource) open(ctx context.Context) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		read := s.files.reader(ctx)
		defer read.close()
		var decoded func(place int64, b *dataset.Batch)
		if first := s.round; s.ahead != nil {
			decoded = func(place int64, b *dataset.Batch) { s.ahead.note(ctx, first+id.Round(place), b) }
		}
		for b, err := range s.reader.Segment(ctx, executor.Segment{Pass: int(s.pass), Part: s.part, Read: read.records, Decoded: decoded,
			First: s.segment.firstBatch + int64(s.round-s.segment.firstRound),
			Order: func(from int64) iter.Seq2[[]ranges.Range, error] { return s.order(ctx, from, read) }}) {
			if !yield(b, err) {
				return
			}
		}
	}
}

// askRounds is how many rounds the tasks of one answer are for, where tasks are small. It bounds how late tasks are reported that have been trained.
const askRounds = 16

// aheadRounds is how many rounds are left of the tasks that were given when the trainer asks for more, so that no round waits for the coordinator and its
// store. Where tasks are small, askRounds + aheadRounds rounds at most are given beyond those that have been trained, and what a shuffle buffer holds back.
const aheadRounds = 8

// order is the stream of record numbers of the segment from a place on. It makes the files of the records known to read. The trainer asks for tasks while
// it trains those before. Nobody has a task in sync mode, so one that it has heard of and does not train need not be given back.
func (s *syncSource) order(ctx context.Context, place int64, read *recordReader) iter.Seq2[[]ranges.Range, error] {
	s.progress.begin(place) // records before it may have been trained; that they are not counted only delays the reports
	return func(yield func([]ranges.Range, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		position := s.segment.skip.Outside(place)
		for r, err := s.ask(ctx, position, true); ; {
			if err != nil {
				yield(nil, err)
				return
			}
			s.noteEnd(r.EndRound)
			if s.end = endingOf(r); s.end != more {
				return
			}
			var given *taskRun
			if given, err = taskRunOf(r, position, s.segment.skip); err != nil {
				yield(nil, err)
				return
			}
			for i, task := range given.tasks {
				s.progress.give(task, given.records[i])
			}
			read.add(given.files)
			position = given.to
			soon, wanted := s.progress.atMost(int64(aheadRounds*s.reader.Rows())), make(chan struct{})
			asking.Go(func() {
				wait := false
				select {
				case <-soon:
				case <-wanted:
					wait = true
				case <-ctx.Done(): // the error says so
				}
				r, err = s.ask(ctx, position, wait)
			})
			if !yield(given.ranges, nil) {
				return
			}
			close(wanted)
			asking.Wait()
			if err == nil && endingOf(r) == pending { // by now everything before has been read: the trainer may wait
				r, err = s.ask(ctx, position, true)
			}
		}
	}
}

// ask asks for the tasks from a position on, and reports what is finished.
func (s *syncSource) ask(ctx context.Context, position int64, wait bool) (*rpc.GetTaskResponse, error) {
	finished := s.finished(false)
	r, err := s.calls.get(ctx, s.segment.firstRound, &rpc.GetTaskRequest{Pass: s.pass, Position: position,
		Records: int64(askRounds * s.reader.Rows()), Finished: finished, Wait: wait})
	if err != nil {
		s.progress.reportAgain(finished)
	}
	return r, err
}

// A taskRun is the consecutive tasks of one answer.
type taskRun struct {
	tasks   []*rpc.Task
	records []int64         // how many records of the run are those of each task
	ranges  []ranges.Range  // of the records of all tasks
	files   []*rpc.DataFile // that hold them, where tasks name their files
	to      int64           // the record behind the last one
}

// taskRunOf takes the tasks from a position on, without the records that the segment leaves out.
func taskRunOf(r *rpc.GetTaskResponse, position int64, skip ranges.Set) (*taskRun, error) {
	n := &taskRun{to: position}
	for _, t := range append([]*rpc.Task{r.Task}, r.Next...) {
		if len(t.GetRecords()) == 0 || t.Records[len(t.Records)-1].GetTo() <= n.to {
			return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("task %d without record %d", t.GetId(), n.to))
		}
		n.add(t, ranges.Subtract(wire.RangesOf(t.Records), skip))
	}
	return n, nil
}

func (n *taskRun) add(t *rpc.Task, list []ranges.Range) {
	n.tasks, n.records, n.to = append(n.tasks, t), append(n.records, ranges.Count(list)), t.Records[len(t.Records)-1].To
	for _, r := range list {
		if last := len(n.ranges) - 1; last >= 0 && n.ranges[last].To == r.From {
			n.ranges[last].To = r.To
		} else {
			n.ranges = append(n.ranges, r)
		}
	}
	for _, f := range t.Files {
		if last := len(n.files) - 1; last < 0 || n.files[last].GetFirstRecord() < f.GetFirstRecord() {
			n.files = append(n.files, f)
		}
	}
}
