package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// judged is a sync job whose trainers evaluate a loss.
func judged(t *testing.T, trainers int, waits bool) coordinator.Config {
	cfg := reading(t, trainers)
	cfg.Evaluation = &job.Evaluation{Loss: "loss", Waits: waits}
	return cfg
}

// evaluate asks for a part as a trainer before a round, and tells the outcome of the one before: each of its rows has this loss.
func (s trainerCalls) evaluate(ctx context.Context, generation uint64, rank uint32, round uint64, batches int64, done *rpc.EvaluateResponse, loss float64) (*rpc.EvaluateResponse, error) {
	s.home.t.Helper()
	m := &rpc.EvaluateRequest{Batches: batches}
	if done != nil {
		score, err := jobspec.EvaluationScore(s.home.cfg.Evaluation)
		if err != nil {
			s.home.t.Fatal(err)
		}
		for range done.To - done.From {
			v, err := tensor.FromSlice([]float64{loss}, 1)
			if err == nil {
				err = score.Add(10, []*tensor.Tensor{v})
			}
			if err != nil {
				s.home.t.Fatal(err)
			}
		}
		m.Done = &rpc.EvaluatedPart{From: done.From, To: done.To, Score: score.AppendState(nil)}
	}
	return wire.Evaluate(ctx, s.client, idOf(generation, rank, round), m)
}

// trainRounds lets two trainers report that they have trained rounds.
func (s trainerCalls) trainRounds(rounds uint64) {
	s.home.t.Helper()
	for round := range rounds {
		for rank := range uint32(2) {
			step := &rpc.TrainerStep{Id: firstID(rank, round), Rows: 3 - int64(rank), GlobalRows: 5, Trainers: 2}
			if err := s.report(s.home.t.Context(), step); err != nil {
				s.home.t.Fatal(err)
			}
		}
	}
}

// A trainer that is lost gives its part back. What it says of it later counts nowhere, and the others end the evaluation in the next generation.
func TestEvaluationOfATrainerThatIsLost(t *testing.T) {
	h := newHome(t, judged(t, 1, false))
	h.cfg.TrainersMax = 2
	h.wanted = 2
	s := h.start()
	s.joinAll(0, 0, 1)
	s.reportDataset(t, 100)
	s.trainRounds(2)
	ctx := t.Context()
	first, err := s.evaluate(ctx, 1, 0, 2, 12, nil, 0)
	if err != nil || first.To == 0 {
		t.Fatal(first, err)
	}
	lost, err := s.evaluate(ctx, 1, 1, 2, 12, nil, 0)
	if err != nil || lost.To == 0 || lost.From == first.From {
		t.Fatalf("%v, %v, beside %v", lost, err, first)
	}
	if again, err := s.evaluate(ctx, 1, 1, 2, 12, nil, 0); err != nil || again.From != lost.From || again.To != lost.To {
		t.Errorf("a request that comes again is answered %v, %v, want %v", again, err, lost)
	}
	if _, err := s.evaluate(ctx, 1, 1, 2, 13, nil, 0); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "13 batches from trainer 1") {
		t.Errorf("other data: %v", err)
	}
	if _, err := s.evaluate(ctx, 1, 0, 2, 12, first, 1); err != nil {
		t.Fatal(err)
	}
	for _, server := range h.servers {
		server.train(2)
	}
	s.lose(1)
	if r, err := s.join(0, incarnation(0), 1); err != nil || r.Generation != 2 || r.Round != 2 || r.DataEnded {
		t.Fatal(r, err)
	}
	if _, err := s.evaluate(ctx, 1, 1, 2, 12, lost, 1000); !errors.Is(err, fault.Superseded) {
		t.Errorf("the lost trainer is told %v", err)
	}
	var part *rpc.EvaluateResponse
	for range 12 {
		if part, err = s.evaluate(ctx, 2, 0, 2, 12, part, 1); err != nil {
			t.Fatal(err)
		}
		if part.To == 0 {
			break
		}
	}
	if e := s.evaluated(t); e.Step != 1 || e.Records != 120 || len(e.Values) != 1 || e.Values[0].Value != 1 {
		t.Errorf("the outcome is %v", e)
	}
}

// evaluated returns the first outcome of an evaluation, which must come right behind its step.
func (s userCalls) evaluated(t *testing.T) *job.Evaluated {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := s.client.Watch(ctx, &rpc.WatchRequest{Job: "job"})
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Events {
			if v := e.GetEvaluated(); v != nil {
				if v.Step != last {
					t.Errorf("the outcome after step %d comes behind step %d", v.Step, last)
				}
				return v
			}
			last = e.GetStep().GetStep()
		}
	}
}

// While the follower judges an evaluation, no round begins. Its word lets the next one begin, or ends the job right there.
func TestEvaluationWaitsForTheFollower(t *testing.T) {
	for name, ends := range map[string]bool{"which goes on": false, "which ends the job": true} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, judged(t, 2, true))
			s := h.start()
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 100)
			s.read(1, 0, 0, 0, 50) // tasks of later rounds
			s.trainRounds(2)
			type answer struct {
				r   *rpc.EvaluateResponse
				err error
			}
			over := make(chan answer, 2)
			for rank := range uint32(2) {
				go func() {
					r, err := s.evaluate(t.Context(), 1, rank, 2, 2, nil, 0)
					for err == nil && r.To > 0 {
						r, err = s.evaluate(t.Context(), 1, rank, 2, 2, r, 1)
					}
					over <- answer{r, err}
				}()
			}
			if e := s.evaluated(t); e.Records != 20 {
				t.Errorf("the outcome is %v", e)
			}
			s.status(func(q *rpc.QueuesResponse) bool {
				n := 0
				for _, w := range q.Waits {
					if w.What == "the follower of the job to acknowledge the evaluation after step 1" {
						n++
					}
				}
				return n == 2
			})
			if ends {
				if steps, err := s.finish(1); err != nil || steps != 2 {
					t.Fatal(steps, err)
				}
			} else if _, err := s.client.Acknowledge(t.Context(), &rpc.AcknowledgeRequest{Job: "job", Evaluated: 2}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a := <-over
				if a.err != nil || (a.r.EndRound != nil) != ends || ends && *a.r.EndRound != 2 {
					t.Errorf("a trainer is told %v, %v", a.r, a.err)
				}
			}
		})
	}
}
