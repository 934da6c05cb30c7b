package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/wire"
)

// reading is a sync job whose batches have 5 records.
func reading(t *testing.T, trainers int) coordinator.Config {
	cfg := config(trainers)
	cfg.Program = testkit.Reading(t, 5, optimizer.SGD(0.1)).Program
	return cfg
}

// finish lets the job end after a step, -1 for as soon as possible, and returns how many steps it will have.
func (s userCalls) finish(after int) (uint64, error) {
	m := &rpc.FinishDataRequest{Id: idOf(0, 0, 0)}
	if after >= 0 {
		m.AfterStep = proto.Uint64(uint64(after))
	}
	r, err := s.client.Finish(s.home.t.Context(), m)
	return r.GetSteps(), err
}

// read asks for tasks as the trainer of a rank, before a round.
func (s trainerCalls) read(generation uint64, rank uint32, round uint64, position, records int64) *rpc.GetTaskResponse {
	s.home.t.Helper()
	r, err := s.client.GetTask(s.home.t.Context(), &rpc.GetTaskRequest{Id: idOf(generation, rank, round), Dataset: "d", Position: position,
		Records: records})
	if err != nil {
		s.home.t.Fatal(err)
	}
	return r
}

// permit asks whether a round may begin.
func (s trainerCalls) permit(generation uint64, rank uint32, round uint64) (*rpc.PermitResponse, error) {
	return s.client.Permit(s.home.t.Context(), &rpc.PermitRequest{Id: idOf(generation, rank, round)})
}

func (s userCalls) acknowledge(steps uint64) {
	s.home.t.Helper()
	if _, err := s.client.Acknowledge(s.home.t.Context(), &rpc.AcknowledgeRequest{Job: "job", Steps: steps}); err != nil {
		s.home.t.Fatal(err)
	}
}

// A sync job ends with one round for all of its trainers: the one that its user names, unless a trainer may have begun a later one with the tasks that it
// was given. Later answers, and later coordinators, tell of it.
func TestFinishAfterTheTasksThatWereGiven(t *testing.T) {
	for name, c := range map[string]struct {
		given int64 // records that trainer 0 was told of
		after int
		want  uint64
	}{
		"nobody has begun":                 {0, -1, 0},
		"nobody has begun, with a step":    {0, 3, 4},
		"some have begun":                  {10, -1, 2},
		"some have begun, with a step":     {10, 5, 6},
		"more have begun than the step":    {30, 2, 6},
		"the step is that of the last one": {30, 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, reading(t, 2))
			s := h.start()
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 100)
			if c.given > 0 {
				s.read(1, 0, 0, 0, c.given)
			}
			for range 2 { // the second is a repeated message
				if steps, err := s.finish(c.after); err != nil || steps != c.want {
					t.Errorf("%d steps, %v, want %d", steps, err, c.want)
				}
			}
			if r := s.read(1, 1, 0, 0, 10); r.EndRound == nil || *r.EndRound != c.want {
				t.Errorf("trainer 1 is told %v", r)
			}
			s.stop()
			<-s.ended
			s = h.start()
			for rank, r := range s.joinAll(1, 0, 1) {
				if r.EndRound == nil || *r.EndRound != c.want {
					t.Errorf("trainer %d of the next coordinator joins %v", rank, r)
				}
			}
		})
	}
}

// A request to finish that comes before there are trainers or data waits for them, one that comes while a generation is made counts for the next, and one
// that comes after the end of the job is told how many steps there were.
func TestFinishAtEveryPhase(t *testing.T) {
	h := newHome(t, reading(t, 1))
	s := h.start()
	early := make(chan uint64, 1)
	go func() {
		steps, err := s.finish(6)
		if err != nil {
			t.Error(err)
		}
		early <- steps
	}()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	if steps := <-early; steps != 7 {
		t.Errorf("%d steps", steps)
	}
	for _, server := range h.servers {
		server.train(2)
	}
	s.lose(0)
	if steps, err := s.finish(-1); err != nil || steps > 7 { // while the generation is made
		t.Error(steps, err)
	}
	h.live.set(0, 200)
	r, err := s.join(0, 200, 0)
	if err != nil || r.Round != 2 || r.EndRound == nil || *r.EndRound > 2 {
		t.Error(r, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, 0, 2)}); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	if steps, err := s.finish(-1); err != nil || steps != 2 {
		t.Errorf("after the end: %d steps, %v", steps, err)
	}
}

// In async mode no task is given after the end.
func TestFinishAsync(t *testing.T) {
	h := newHome(t, async(1))
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	task := s.mustAsk(1, 0, 0)
	if _, err := s.finish(-1); err != nil {
		t.Fatal(err)
	}
	if r, err := s.ask(1, 0, 1, task); err != nil || !r.EndOfData {
		t.Errorf("after the end: %v, %v", r, err)
	}
}

// A round begins when the step is acknowledged that lies MaxAhead rounds before it; nobody begins a round that finish has ruled out, and finish rules out no
// round that has begun.
func TestPermit(t *testing.T) {
	for _, ahead := range []uint64{1, 3} {
		for _, begin := range []uint64{0, 40} {
			t.Run(fmt.Sprintf("%d ahead from %d on", ahead, begin), func(t *testing.T) {
				cfg := reading(t, 2)
				cfg.MaxAhead, cfg.Begin = int(ahead), &job.Progress{Steps: begin}
				h := newHome(t, cfg)
				for _, server := range h.servers {
					server.round = begin
				}
				s := h.start()
				s.joinAll(0, 0, 1)
				s.reportDataset(t, 100)
				for step := range uint64(4) {
					round := begin + step + ahead - 1 // the last that may begin
					for rank := range uint32(2) {
						if r, err := s.permit(1, rank, round); err != nil || r.Until != round+1 || r.End {
							t.Fatalf("round %d: %v, %v", round, r, err)
						}
					}
					answer := make(chan *rpc.PermitResponse, 1)
					go func() {
						r, err := s.permit(1, 0, round+1)
						if err != nil {
							t.Error(err)
						}
						answer <- r
					}()
					text := fmt.Sprintf("the follower of the job to acknowledge step %d", begin+step)
					s.status(func(q *rpc.QueuesResponse) bool {
						return slices.ContainsFunc(q.Waits, func(w *job.Wait) bool { return w.Who == "trainer 0" && w.What == text })
					})
					if step == 3 { // the user ends the job from the callback of this step
						steps, err := s.finish(int(begin + step))
						if err != nil || steps != begin+step+ahead {
							t.Errorf("the job ends with %d steps, %v", steps, err)
						}
						if r := <-answer; !r.End {
							t.Errorf("round %d: %v", round+1, r)
						}
						break
					}
					s.acknowledge(begin + step + 1)
					s.acknowledge(begin + step) // one that is late changes nothing
					if r := <-answer; r.Until != round+2 {
						t.Errorf("round %d: %v", round+1, r)
					}
				}
			})
		}
	}
}

// The largest number of steps that can be acknowledged lets rounds begin, too.
func TestPermitAfterAHugeAcknowledgement(t *testing.T) {
	cfg := reading(t, 1)
	cfg.MaxAhead = 3
	s := start(t, cfg)
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	s.acknowledge(math.MaxUint64)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r, err := s.client.Permit(ctx, &rpc.PermitRequest{Id: idOf(1, 0, 3)}); err != nil || r.Until <= 3 {
		t.Error(r, err)
	}
}

// After finish no round before the end waits for an acknowledgement: the user waits for the end of the job. The end also counts for the next coordinator.
func TestPermitAfterFinish(t *testing.T) {
	cfg := reading(t, 1)
	cfg.MaxAhead = 1
	h := newHome(t, cfg)
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	if steps, err := s.finish(3); err != nil || steps != 4 {
		t.Fatal(steps, err)
	}
	for generation := range uint64(2) {
		for round := range uint64(6) {
			if r, err := s.permit(generation+1, 0, round); err != nil || r.End != (round >= 4) || !r.End && r.Until != 4 {
				t.Errorf("round %d: %v, %v", round, r, err)
			}
		}
		if generation == 0 {
			s.stop()
			<-s.ended
			s = h.start()
			s.joinAll(1, 0)
		}
	}
}

// Another coordinator permits nothing until it is told again what was acknowledged, and refuses those of an older generation. A job without MaxAhead has
// no permits.
func TestPermitOfTheNextCoordinator(t *testing.T) {
	cfg := reading(t, 1)
	cfg.MaxAhead = 1
	h := newHome(t, cfg)
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	s.acknowledge(2)
	if r, err := s.permit(1, 0, 2); err != nil || r.Until != 3 {
		t.Error(r, err)
	}
	s.stop()
	<-s.ended
	for _, server := range h.servers {
		server.train(2)
	}
	s = h.start()
	s.joinAll(1, 0)
	if _, err := s.permit(1, 0, 2); !errors.Is(err, fault.Superseded) {
		t.Error(err)
	}
	answer := make(chan *rpc.PermitResponse, 1)
	go func() {
		r, _ := s.permit(2, 0, 2)
		answer <- r
	}()
	s.status(func(q *rpc.QueuesResponse) bool { return len(q.Waits) == 1 })
	s.acknowledge(2)
	if r := <-answer; r.GetUntil() != 3 {
		t.Error(r)
	}
	s = start(t, reading(t, 1))
	s.joinAll(0, 0)
	if _, err := s.permit(1, 0, 0); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}

// What is saved says where a later job goes on.
func TestProgressOfTheSavedModel(t *testing.T) {
	for name, c := range map[string]struct {
		begin *job.Progress
		sync  bool
		after int // -1: the job ends with its data
		want  *job.Progress

		backup int
		ledger []ranges.Range // of the pass in which the job ends
	}{
		"the data has ended":         {nil, true, -1, &job.Progress{Steps: 4, Pass: 1}, 0, nil},
		"it ends within a pass":      {nil, true, 2, &job.Progress{Steps: 3, Batch: 3}, 0, nil},
		"it goes on within a pass":   {&job.Progress{Steps: 9, Pass: 2, Batch: 1, Reader: "r"}, true, 10, &job.Progress{Steps: 11, Pass: 2, Batch: 3, Reader: "r"}, 0, nil},
		"it goes on without records": {&job.Progress{Steps: 9, Pass: 2, Batch: 1, Reader: "r", Trained: "2 3"}, true, 9, &job.Progress{Steps: 10, Pass: 2, Batch: 2, Reader: "r", Trained: "2 3"}, 0, nil},
		"backup trainers leave records": {&job.Progress{Steps: 9, Pass: 2, Batch: 1, Reader: "r"}, true, 10, &job.Progress{Steps: 11, Pass: 2, Reader: "r", Trained: "0 7 3 5"},
			1, []ranges.Range{{From: 5, To: 7}, {From: 10, To: 15}}},
		"backup trainers leave none": {&job.Progress{Steps: 9, Pass: 2, Batch: 1, Reader: "r"}, true, 11, &job.Progress{Steps: 12, Pass: 3, Reader: "r"},
			1, []ranges.Range{{From: 5, To: 20}}},
		"it ends a pass that was begun":  {&job.Progress{Steps: 9, Pass: 2, Batch: 1, Reader: "r"}, true, -1, &job.Progress{Steps: 12, Pass: 3, Reader: "r"}, 0, nil},
		"async mode":                     {&job.Progress{Steps: 9, Pass: 2, Reader: "r"}, false, -1, &job.Progress{Steps: 10, Pass: 3, Reader: "r"}, 0, []ranges.Range{{From: 0, To: 20}}},
		"async mode that ends in a pass": {&job.Progress{Steps: 9, Pass: 2, Reader: "r"}, false, 0, &job.Progress{Steps: 10, Pass: 2, Reader: "r", Trained: "5 5"}, 0, []ranges.Range{{From: 5, To: 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := reading(t, 1)
			cfg.Sync, cfg.Begin, cfg.Backup = c.sync, c.begin, c.backup
			h := newHome(t, cfg)
			for _, server := range h.servers {
				server.round, server.ledger = c.begin.GetSteps(), map[int32][]*rpc.RecordRange{c.begin.GetPass(): wire.Ranges(c.ledger)}
			}
			s := h.start()
			begin := c.begin // the first segment is known before the dataset is
			if g := s.joinAll(0, 0)[0].Segment; c.sync && (g == nil || g.Pass != begin.GetPass() || g.FirstRound != begin.GetSteps() ||
				g.FirstBatch != begin.GetBatch()) {
				t.Errorf("segment %v, want that of %v", g, begin)
			}
			s.reportDataset(t, 20)
			if c.after >= 0 {
				if _, err := s.finish(c.after); err != nil {
					t.Fatal(err)
				}
			}
			end := c.want.Steps
			for round := c.begin.GetSteps(); round < end; round++ {
				report := &rpc.TrainerStep{Id: firstID(0, round), Pass: c.begin.GetPass(), Rows: 5, GlobalRows: 5, Trainers: 1}
				if err := s.report(t.Context(), report); err != nil {
					t.Fatal(err)
				}
			}
			h.servers[0].mu.Lock()
			h.servers[0].round = end
			h.servers[0].mu.Unlock()
			r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: firstID(0, 0)})
			if c.begin == nil {
				c.want.Reader = r.Progress.GetReader()
			}
			if err != nil || !proto.Equal(r.Progress, c.want) || c.want.Reader == "" {
				t.Errorf("%v, %v, want %v", r, err, c.want)
			}
		})
	}
}
