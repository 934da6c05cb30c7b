package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// evaluations divides held-back data among the trainers of a sync job at some round boundaries, and makes one outcome of what they find:
//
//	trainer, before round n           evaluations                                   follower
//	  |-- Evaluate ------------------> heldBack: gives a part
//	  |   evaluates its batches
//	  |-- Evaluate, with the score --> joins the scores; gives the next part
//	  |                                all batches have counted: Evaluated -> log -> is told, decides
//	  |                                                                     <------ Acknowledge, or Finish
//	  |<- it is over: round n begins
//
// Trainers know when an evaluation is due, as all of them know the same rounds and passes. No round begins before its evaluation is over, so the parameters are those
// of one round for all parts, whoever evaluates them. The state is in memory alone: the next coordinator begins an evaluation anew for the trainers that
// still wait, and the outcome is the same. Its listener tells an outcome once.
type evaluations struct {
	*core
	members *members
	steps   *steps
	ending  *ending

	// Guarded by the monitor.
	now          *heldBack // the last one; nil: none
	began        time.Time
	acknowledged id.Round // the follower has been told evaluations before rounds up to this one

	score *metrics.Score // of now

	joining sync.Mutex // held by who changes what a score has; taken before the monitor
}

// maxBatches bounds the batches of an evaluation.
const maxBatches = 1 << 40

// evaluate takes the outcome of a part, and returns the next one.
func (v *evaluations) evaluate(ctx context.Context, who *rpc.Identity, m *rpc.EvaluateRequest) (*rpc.EvaluateResponse, error) {
	if v.cfg.Evaluation == nil || !v.cfg.Sync || v.cfg.Fed {
		return nil, fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Got("an evaluation"), fault.Want("a job that is evaluated while it trains"))
	}
	if m.Batches < 0 || m.Batches > maxBatches {
		return nil, fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Gotf("%d batches of held-back data", m.Batches), fault.Wantf("0 to %d", int64(maxBatches)))
	}
	if m.Done != nil {
		if err := v.take(who, m.Done); err != nil {
			return nil, err
		}
	}
	v.locked(func() { v.awaitsStep++ })
	defer v.locked(func() { v.awaitsStep-- })
	var r *rpc.EvaluateResponse
	ends := false
	for {
		err := v.await(ctx, v.reason(who), func() (_ bool, err error) {
			if v.ended {
				return false, nil
			}
			if err := v.members.isMember(who); err != nil {
				return false, err
			}
			r, ends, err = v.answer(who, m.Batches)
			return ends || r != nil, err
		})
		if err != nil || r != nil {
			return r, err
		}
		if err := v.end(); err != nil {
			return nil, err
		}
	}
}

// answer returns the answer to a request; nil: it has to wait, or the caller ends the evaluation. The monitor is held.
func (v *evaluations) answer(who *rpc.Identity, batches int64) (r *rpc.EvaluateResponse, ends bool, err error) {
	round := id.Round(who.Round)
	over := &rpc.EvaluateResponse{}
	end, stopped := v.ending.end()
	if stopped {
		over.EndRound = (*uint64)(&end)
	}
	if v.now != nil && round < v.now.round || round <= v.cfg.start().Round || stopped && round >= end {
		return over, false, nil
	}
	if v.now == nil || round > v.now.round {
		if v.score, err = jobspec.EvaluationScore(v.cfg.Evaluation); err != nil {
			return nil, false, err
		}
		v.now, v.began = &heldBack{round: round, batches: batches}, time.Now()
	}
	if batches != v.now.batches {
		return nil, false, fault.E(fault.InvalidArgument, fault.At("held-back data"), fault.Gotf("%d batches from %s", batches, trainerName(who.Rank)),
			fault.Wantf("%d, as first reported", v.now.batches), fault.Hint("give every trainer the same files"))
	}
	g := v.members.machine.Generation()
	v.now.lose(g.Number)
	if part, ok := v.now.give(holderOf(who), len(g.Members)); ok {
		return &rpc.EvaluateResponse{From: part.from, To: part.to}, false, nil
	}
	switch {
	case !v.now.complete():
		return nil, false, nil
	case !v.now.over:
		return nil, v.steps.written() >= uint64(round), nil
	case v.held() || v.cfg.Evaluation.Waits && v.ending.finishing > 0:
		return nil, false, nil
	}
	return over, false, nil
}

func holderOf(who *rpc.Identity) holder {
	from := wire.SenderOf(who)
	return holder{from.Rank, from.Generation}
}

// take counts the outcome of a part, unless its trainer does not have the part: then another has it, or it was sent again.
func (v *evaluations) take(who *rpc.Identity, part *rpc.EvaluatedPart) error {
	v.joining.Lock()
	defer v.joining.Unlock()
	done := span{part.From, part.To}
	var of *heldBack
	var score *metrics.Score
	err := error(nil)
	v.locked(func() {
		if err = v.members.isMember(who); err == nil && v.now != nil && v.now.round == id.Round(who.Round) && v.now.take(holderOf(who), done) {
			of, score = v.now, v.score
		}
	})
	if err != nil || of == nil {
		return err
	}
	if err := score.MergeState(part.Score); err != nil { // nobody else would do better, and the score may have a part of it
		v.Fail(err)
		return err
	}
	v.locked(func() { of.counted(done); v.monitor.Broadcast() })
	return nil
}

// end writes the outcome of an evaluation, of which all parts have counted, behind the last step before it.
func (v *evaluations) end() error {
	if err := v.steps.write(); err != nil {
		return err
	}
	v.joining.Lock()
	defer v.joining.Unlock()
	var of *heldBack
	var score *metrics.Score
	v.locked(func() { of, score = v.now, v.score })
	results, err := score.Results()
	if err != nil {
		v.Fail(err)
		return err
	}
	v.locked(func() {
		if v.now != of || of.over || !of.complete() {
			return
		}
		of.over = true
		e := &job.Evaluated{Pass: v.steps.collector.pass, Step: uint64(of.round) - 1, Records: score.Rows(), Nanoseconds: int64(time.Since(v.began))}
		for _, r := range results {
			e.Values = append(e.Values, &job.MetricValue{Name: r.Name, Kind: r.Kind, Value: r.Value, Bound: r.Bound})
		}
		v.steps.log.Add(&job.Event{What: &job.Event_Evaluated{Evaluated: e}})
		v.monitor.Broadcast()
	})
	return nil
}

// held reports whether all trainers wait for the follower to acknowledge an evaluation. Then no round from that of the evaluation on has begun. The monitor is
// held.
func (v *evaluations) held() bool {
	if !v.cfg.Evaluation.GetWaits() || v.now == nil || !v.now.over || v.now.round <= v.acknowledged {
		return false
	}
	_, stopped := v.ending.end()
	return !stopped
}

// heldAt returns the round that trainers wait to begin, while held. The monitor is held.
func (v *evaluations) heldAt() (round id.Round, ok bool) {
	if !v.held() {
		return 0, false
	}
	return v.now.round, true
}

// acknowledge takes the word that the follower has been told the evaluation after so many steps.
func (v *evaluations) acknowledge(steps uint64) {
	v.locked(func() {
		if id.Round(steps) > v.acknowledged {
			v.acknowledged = id.Round(steps)
			v.monitor.Broadcast()
		}
	})
}

// unfinished reports whether there is still to be an evaluation before a round, if the data ends there. The monitor is held.
func (v *evaluations) unfinished(round id.Round) bool {
	if v.cfg.Evaluation == nil || round <= v.cfg.start().Round {
		return false
	}
	if end, stopped := v.ending.end(); stopped && round >= end {
		return false
	}
	return v.now == nil || v.now.round < round || v.now.round == round && !v.now.over
}

// reason says what a trainer waits for that is not given a part.
func (v *evaluations) reason(who *rpc.Identity) func() waits.Wait {
	return func() waits.Wait {
		w := waits.Wait{Who: trainerName(who.Rank), What: fmt.Sprintf("the evaluation after step %d", who.Round-1)}
		switch {
		case v.held():
			w.What = fmt.Sprintf("the follower of the job to acknowledge the evaluation after step %d", who.Round-1)
		case v.now != nil:
			for _, rank := range v.now.holders() {
				w.By = append(w.By, trainerName(rank))
			}
		}
		return w
	}
}

// text says how far an evaluation is that is not over; empty: none is under way. The monitor is held.
func (v *evaluations) text() string {
	if v.now == nil || v.now.over {
		return ""
	}
	return fmt.Sprintf("after step %d: %d of %d batches", v.now.round-1, v.now.done, v.now.batches)
}

// Evaluate gives held-back data to trainers.
func (v *evaluations) Evaluate(stream grpc.ClientStreamingServer[rpc.Piece, rpc.EvaluateResponse]) error {
	m := &rpc.EvaluateRequest{}
	who, err := receive(stream.Context(), v.members, stream, m, wire.MaxStep)
	if err != nil {
		return err
	}
	r, err := v.evaluate(stream.Context(), who, m)
	if err != nil {
		return err
	}
	return stream.SendAndClose(r)
}
