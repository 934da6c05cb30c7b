package trainer

import (
	"context"
	"errors"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/tensor"
)

// A source delivers the batches of one trainer in one generation. It is a syncSource or an asyncSource, which read data, or a fedSource.
type source interface {
	// BatchSource has Next. A call of Next says that the step of the batch before has ended well.
	executor.BatchSource
	// Number is the number by which the last batch is reported.
	Number() id.Round
	// HandIn ends the source after the step of the last batch, which has ended well: it reports the tasks that are finished with it.
	HandIn(ctx context.Context) error
	// Close ends what reads ahead. It may be called again.
	Close()
}

// A generationRun is what a trainer has in one generation. All of it is made anew for the next one: nothing is left of what was received or computed
// in a step that was given up.
type generationRun struct {
	*Trainer
	in      *generation
	local   *executor.Local // runs the trainer program
	devices *devices        // that share the trainer's rows; nil: it has one
	saver   *executor.Local // runs the save program, on the same variables
	tests   *evaluator      // of held-back data; nil: the job is not evaluated while it trains
	whole   bool            // the parameters have been received, and are those before round open, unless Comm.torn
	open    id.Round

	settle func() error // pushes what async steps have not pushed, and awaits the ledger. A drain does not end it
}

// runGeneration trains in a generation until the data or the generation ends. Where the others have gone on without this trainer, it begins anew with the
// round that is open.
func (t *Trainer) runGeneration(ctx context.Context, in *generation) error {
	for {
		err := t.runFrom(ctx, in)
		var late *late
		if !errors.As(err, &late) {
			return err
		}
		now, err := askCounted(ctx, t.comm, in.identity, late.round, nil)
		if err != nil {
			return err
		}
		t.cfg.Log.Info("others have gone on without this trainer", "round", late.round, "open", now.Round)
		in = &generation{proto.CloneOf(in.JoinResponse), in.identity, in.rank}
		in.Round = now.Round
	}
}

// late is the error of a trainer of a job with backup trainers whose round is over.
type late struct {
	error
	round id.Round
}

// runFrom is runGeneration from one round on.
func (t *Trainer) runFrom(ctx context.Context, in *generation) (err error) {
	t.comm.BeginGeneration(in.identity, id.Round(in.Round))
	g := t.newGenerationRun(in)
	defer func() {
		t.cfg.Times.End()
		t.comm.news.forget()
		err = errors.Join(err, g.devices.close())
		t.comm.Abort()
		if g.whole {
			t.kept = g.keep()
		}
		err = errors.Join(err, t.comm.ahead.close(), g.tests.close(), g.saver.Close(), g.local.Close())
	}()
	if err := g.repeatReport(); err != nil {
		return err
	}
	t.comm.news.hear(ctx, t, in)
	if !in.DataEnded {
		group := groupOf(in)
		if err := group.connect(ctx, t.comm, t.cfg.Program); err != nil {
			return err
		}
		if err := t.comm.verdicts.checkLinks(t.comm.links); err != nil {
			return err
		}
		t.laps.Lap("connect")
		if err := g.startup(ctx); err != nil {
			return err
		}
		t.laps.Lap("receive")
		if t.comm.verdicts.on {
			in.Round = uint64(t.comm.first) // the others may have gone on meanwhile
		}
		if err := group.join(ctx, t.comm, t.cfg.Program); err != nil {
			return err
		}
		t.cfg.Times.Over(t.comm.links.transports(len(t.cfg.Servers)))
		if err := g.train(ctx); err != nil {
			if t.comm.verdicts.on && errors.Is(err, fault.Stale) {
				return &late{err, t.comm.round()}
			}
			return err
		}
	}
	if err := t.reporter.flush(); err != nil {
		return err
	}
	return g.finish(ctx)
}

func (t *Trainer) newGenerationRun(in *generation) *generationRun {
	options := []executor.Option{executor.WithComm(t.comm), executor.WithLogger(t.cfg.Log)}
	training := append(options[1:2:2], executor.WithWorkers(max(1, int(t.cfg.Spec.Workers))), executor.WithStage(program.StageTrainer),
		executor.WithDayRounds(t.cfg.Spec.DayRounds))
	if t.cfg.Spec.NoFiniteCheck {
		training = append(training, executor.WithoutFiniteCheck())
	}
	position, trainers := 0, 1
	if t.cfg.Sync {
		position, trainers = int(in.Position), int(in.Trainers)
	}
	devices := newDevices(t.comm, t.cfg.Program, int(t.cfg.Spec.Devices), position, trainers, training, t.cfg.Kernels)
	var local *executor.Local
	if devices != nil {
		local = devices.first
	} else {
		local = executor.New(append(training, executor.WithComm(t.comm), executor.WithProfile(t.cfg.Kernels))...)
	}
	t.comm.Now = local.Step()
	if t.comm.ahead = nil; t.cfg.Sync && devices == nil && !t.cfg.Spec.Fed {
		t.comm.ahead = newAhead(t.cfg.Program, append(options[1:2:2], executor.WithStage(program.StageTrainer)))
	}
	saving := append(options[:2:2], executor.WithStage(program.StageSave), executor.WithScope(local.Scope()), executor.WithStorage(t.storage))
	g := &generationRun{Trainer: t, in: in, local: local, devices: devices, saver: executor.New(saving...)}
	g.tests = newEvaluator(g)
	return g
}

// startup receives the parameters as they are before the first round of the generation, but for those that are here.
func (g *generationRun) startup(ctx context.Context) error {
	if g.cfg.Constants != nil {
		if err := g.cfg.Constants(g.local.Scope()); err != nil {
			return err
		}
	}
	g.comm.Receive(atBeginning)
	p, err := g.kept.give(g.in.JoinResponse, g.local.Scope(), g.cfg.Program)
	if err == nil {
		err = g.local.Startup(ctx, p)
	}
	if err != nil {
		return err
	}
	g.comm.torn.Store(false)
	g.whole, g.open, g.kept = true, g.comm.first, nil
	return nil
}

// train trains the batches of the generation's source, until it ends or the trainer is to end.
func (g *generationRun) train(ctx context.Context) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	reading, cancel := g.caller.untilDrain(ctx)
	defer cancel()
	g.settle = func() error { return g.comm.rhythm.settle(ctx, g.comm) }
	from, err := g.openSource(reading)
	if err != nil {
		return err
	}
	defer from.Close()
	steps := &steps{generationRun: g, source: from, reading: reading, giveUp: giveUp}
	options := executor.TrainOptions{Fetch: g.cfg.Spec.Fetch}
	_, err = g.local.TrainFrom(ctx, g.cfg.Program, steps, options, func(r executor.StepResult) error { return g.report(steps, r.Fetched) })
	if steps.drained {
		return errors.Join(fault.E(fault.Drained), from.HandIn(ctx), g.reporter.flush())
	}
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, fault.Stale) || errors.Is(cause, fault.Superseded)) {
		return cause // why the step was given up
	}
	return err
}

func (g *generationRun) openSource(ctx context.Context) (source, error) {
	if g.cfg.Spec.Fed {
		return newFedSource(g), nil
	}
	return g.openData(ctx)
}

// steps hands the batches of a source on, until the trainer drains or the generation has ended, and announces each step to Comm.
type steps struct {
	*generationRun
	source
	reading context.Context // ends also when the trainer drains
	batch   *executor.Batch
	drained bool                    // between two steps
	giveUp  context.CancelCauseFunc // ends all steps
}

// Next implements executor.BatchSource.
func (s *steps) Next(ctx context.Context) (*executor.Batch, error) {
	s.cfg.Times.Begin(0)
	if !s.caller.draining() {
		batch, err := s.source.Next(s.reading)
		if err == nil || errors.Is(err, io.EOF) {
			batch, err = s.tests.before(s, batch, err)
		}
		if err == nil {
			if err := s.comm.pace.begin(ctx, s.comm); err != nil {
				return nil, err
			}
			s.cfg.Times.Number(batch.Step.Round)
			s.cfg.Times.Enter(timing.Compute)
			s.batch = batch
			batch.Step.Part = s.cfg.Sync && batch.Step.Rows < batch.GlobalRows
			batch.Step.Batch = batch.GlobalRows
			s.comm.BeginStep(batch.Step, batch.Pass, batch.Records)
			s.comm.news.begin(s.giveUp)
			s.comm.verdicts.begin(ctx, s.comm, s.giveUp)
			return s.devices.begin(ctx, batch, s.fetch())
		}
		if !s.caller.draining() {
			s.cfg.Times.End() // what follows, such as saving, is no round
			return nil, err
		}
	}
	s.cfg.Times.End()
	s.drained = true
	return nil, fault.Drained
}

// fetch names what the step of the last batch reports.
func (s *steps) fetch() []string {
	if s.batch.Feed != nil {
		return s.batch.Fetch
	}
	return s.cfg.Spec.Fetch
}

// report reports the step that has ended. When the generation ended after the step was declared, the report is pending: the coordinator knows whether
// the round has committed.
func (g *generationRun) report(s *steps, values []*tensor.Tensor) error {
	superseded := g.comm.Superseded()
	if superseded == nil {
		g.comm.torn.Store(false)
		g.open = id.Round(s.batch.Step.Round) + 1
	}
	if g.laps != nil {
		g.laps.Lap("step")
		g.cfg.Log.Info("first step of the generation", append([]any{"round", s.Number()}, g.laps.Attrs()...)...)
		g.laps = nil
	}
	names := s.fetch()
	values, err := g.devices.fetched(names, values)
	if err != nil {
		return err
	}
	fetched := encode(names, values)
	if superseded != nil {
		fetched = beforeDeclaration(g.cfg.Program, fetched)
	}
	m := &rpc.TrainerStep{Id: roundOf(s.Number()), Pass: int32(s.batch.Pass), Rows: s.batch.Step.Rows, Weight: s.local.Step().Weight, GlobalRows: s.batch.GlobalRows,
		Fetched: fetched, Records: g.comm.records, Trainers: g.sharing(), Pending: errors.Is(superseded, fault.Superseded)}
	if g.cfg.Spec.Fed {
		g.lastFed = fedReport{m, g.in, g.in.identity.Fence}
	}
	if !g.comm.verdicts.settle(m, g.cfg.Rank, s.Number()) {
		return superseded
	}
	if err := g.reporter.report(g.in, m); err != nil {
		return err
	}
	return superseded
}

// A fedReport is the report of the last fed step, the generation of the step, and the fence of the coordinator that it was sent to. A trainer keeps it
// until it receives the next batch to train: then the coordinator has answered the step.
type fedReport struct {
	step  *rpc.TrainerStep // nil: there is none
	in    *generation
	fence id.Fence
}

// repeatReport sends the report of the last fed step again to a coordinator that took the place of the one that had it. It returns when the coordinator has
// it: when all trainers have asked for the next item, the coordinator takes it that nobody has more to report of that step.
func (g *generationRun) repeatReport() error {
	if g.lastFed.step == nil || g.in.identity.Fence <= g.lastFed.fence {
		return nil
	}
	g.lastFed.fence = g.in.identity.Fence
	if err := g.reporter.report(g.lastFed.in, g.lastFed.step); err != nil {
		return err
	}
	return g.reporter.flush()
}

// sharing is how many trainers a batch is divided among.
func (g *generationRun) sharing() uint32 {
	if g.cfg.Sync {
		return g.in.Trainers
	}
	return 1
}
