package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// heldBack is the held-back data of a job that is evaluated while it trains. A trainer opens them once.
type heldBack struct {
	program *program.Program // nil before they are opened
	source  *executor.FileSource
}

// open opens the data, unless they are open.
func (h *heldBack) open(ctx context.Context, e *job.Evaluation) error {
	if h.program != nil {
		return nil
	}
	p, err := program.Decode(e.Program, program.DefaultLimits())
	if err == nil {
		h.source, err = executor.OpenFiles(ctx, p, jobspec.EvaluationData(e), 1)
	}
	if err != nil {
		return fault.Wrap(fault.KindOf(err), "held-back data", err)
	}
	h.program = p
	return nil
}

// close ends the reading.
func (h *heldBack) close() {
	if h.source != nil {
		h.source.Close()
	}
}

// An evaluator evaluates held-back data between two rounds, with the parameters that the trainer has received, and writes to none of them. The coordinator
// divides the batches among the trainers; each batch is one that a run on one machine would evaluate, whoever evaluates it.
//
//	a round has ended ---> due? ---> Evaluate: a part ---> its batches, one after the other ---> Evaluate: the score, and the next part ---> ... ---> over
//
// All trainers find at the same rounds that an evaluation is due: rounds and passes are the same for them.
type evaluator struct {
	*generationRun
	local *executor.Local // on the variables of the generation; nil before the first evaluation
	score *metrics.Score  // of the part
	part  *rpc.EvaluatedPart
	round id.Round // before which the evaluation is
	over  *rpc.EvaluateResponse
}

func newEvaluator(g *generationRun) *evaluator {
	if g.cfg.Spec.Evaluation == nil || !g.cfg.Sync || g.cfg.Spec.Fed {
		return nil
	}
	return &evaluator{generationRun: g}
}

// close ends the evaluator with its generation.
func (e *evaluator) close() error {
	if e == nil || e.local == nil {
		return nil
	}
	return e.local.Close()
}

// before takes what the source has delivered: a batch, or io.EOF. It evaluates before the round of the batch, or behind the last round, if that is due, and returns
// the batch, or what is to happen in its place. After an error the batch has been given back.
func (e *evaluator) before(s *steps, batch *executor.Batch, err error) (*executor.Batch, error) {
	if e == nil {
		return batch, err
	}
	source := s.source.(*syncSource) // newEvaluator has checked the kind of job
	e.round = source.round
	if batch != nil {
		e.round = id.Round(batch.Step.Round)
		every := e.cfg.Spec.Evaluation.Every
		if every == 0 && !source.beginsPass() || every > 0 && uint64(e.round)%every != 0 {
			return batch, nil
		}
	}
	e.comm.news.begin(s.giveUp)
	e.cfg.Times.End() // an evaluation is no part of a round
	ends, wrong := e.evaluate(s.reading)
	e.cfg.Times.Begin(0)
	if batch != nil && (wrong != nil || ends) {
		source.untake()
		if wrong == nil {
			wrong = source.endEarly(s.reading)
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	return batch, err
}

// evaluate takes part in an evaluation until it is over, and reports whether the job ends before the round.
func (e *evaluator) evaluate(ctx context.Context) (ends bool, err error) {
	if err := e.heldBack.open(ctx, e.cfg.Spec.Evaluation); err != nil {
		return false, err
	}
	if err := e.reporter.flush(); err != nil { // the outcome is told behind the last step
		return false, err
	}
	e.over, e.part = nil, nil
	if err := e.next(ctx); err != nil {
		return false, err
	}
	if e.over == nil {
		if err := e.begin(); err != nil {
			return false, err
		}
		run := executor.TrainOptions{Fetch: e.score.Names()}
		_, err := e.local.TrainFrom(ctx, e.heldBack.program, e, run, func(r executor.StepResult) error { return e.score.Add(r.Rows, r.Fetched) })
		if err != nil {
			if fault.KindOf(err) == fault.Internal && ctx.Err() != nil {
				err = fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
			}
			return false, err
		}
	}
	return e.over.EndRound != nil && uint64(e.round) >= *e.over.EndRound, nil
}

// begin makes what evaluates, on the variables of the generation.
func (e *evaluator) begin() error {
	if e.local != nil {
		return nil
	}
	for _, name := range executor.Persistables(e.cfg.Program) {
		v, shared := e.heldBack.program.Global().Var(name)
		if !shared || !v.Persistable {
			continue
		}
		if _, here := e.trained().Find(name); !here {
			return fault.E(fault.Unsupported, fault.At("held-back data"), fault.Var(name), fault.Got("a variable that trainers do not hold"), fault.Want("an evaluation of what they hold"))
		}
	}
	spec := e.cfg.Spec
	options := []executor.Option{executor.WithScope(e.trained().NewChild()), executor.WithLogger(e.cfg.Log), executor.WithDayRounds(spec.DayRounds),
		executor.WithWorkers(max(1, int(spec.Workers)) * max(1, int(spec.Devices)))}
	if spec.NoFiniteCheck {
		options = append(options, executor.WithoutFiniteCheck())
	}
	e.local = executor.New(options...)
	return nil
}

// trained is the scope of what trains.
func (e *evaluator) trained() *executor.Scope { return e.generationRun.local.Scope() }

// Next implements executor.BatchSource: it delivers the batches of one part after the other. The score has the batches before.
func (e *evaluator) Next(ctx context.Context) (*executor.Batch, error) {
	for {
		if e.over != nil {
			return nil, io.EOF
		}
		b, err := e.heldBack.source.Next(ctx)
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			err = fault.Wrap(fault.KindOf(err), "held-back data", err)
		}
		if !errors.Is(err, io.EOF) {
			return b, err
		}
		if err := e.next(ctx); err != nil {
			return nil, err
		}
	}
}

// next tells the coordinator the score of the part that is done, if there is one, and begins the next one.
func (e *evaluator) next(ctx context.Context) error {
	m := &rpc.EvaluateRequest{Batches: int64(e.heldBack.source.BatchesPerPass()), Done: e.part}
	if e.part != nil {
		e.part.Score = e.score.AppendState(nil)
	}
	var r *rpc.EvaluateResponse
	err := e.caller.call(ctx, callTarget{"coordinator", fmt.Sprintf("held-back data before round %d", e.round)}, func(ctx context.Context, retry id.Retry) (err error) {
		r, err = wire.Evaluate(ctx, e.cfg.Coordinator, e.in.message(e.round, retry), m, grpc.WaitForReady(false))
		return err
	})
	if err != nil {
		return err
	}
	if r.To == 0 {
		e.over, e.part = r, nil
		return nil
	}
	if r.From < 0 || r.To <= r.From || r.To > m.Batches {
		return fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("batches %d to %d of %d", r.From, r.To, m.Batches))
	}
	e.part = &rpc.EvaluatedPart{From: r.From, To: r.To}
	if e.score, err = jobspec.EvaluationScore(e.cfg.Spec.Evaluation); err != nil {
		return err
	}
	e.heldBack.source.Only(uint64(r.From), uint64(r.To))
	return nil
}
