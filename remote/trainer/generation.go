package trainer

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
)

// A life is what a trainer has in one generation. All of it is made anew for the next one: what was received or computed in a step that was given up
// is nowhere.
type life struct {
	*Trainer
	of    *generation
	local *executor.Local // runs the trainer program
	saver *executor.Local // runs the save program, on the same variables
}

// live trains in a generation until the data or the generation ends.
func (t *Trainer) live(ctx context.Context, g *generation) (err error) {
	t.comm.Enter(g.identity, g.Round)
	l := t.begin(g)
	defer func() {
		t.comm.Drain()
		err = errors.Join(err, l.saver.Close(), l.local.Close())
	}()
	if !g.DataEnded {
		if err := l.startup(ctx); err != nil {
			return err
		}
		train := l.trainData
		if t.cfg.Spec.Interactive {
			train = l.trainFeeds
		}
		if err := train(ctx); err != nil {
			return err
		}
	}
	if err := t.reporter.flush(); err != nil {
		return err
	}
	return l.finish(ctx)
}

func (t *Trainer) begin(g *generation) *life {
	options := []executor.Option{executor.WithComm(t.comm), executor.WithLogger(t.cfg.Log)}
	training := append(options[:2:2], executor.WithWorkers(max(1, int(t.cfg.Spec.Workers))), executor.WithStage(program.StageTrainer))
	if t.cfg.Spec.NoFiniteCheck {
		training = append(training, executor.WithoutFiniteCheck())
	}
	local := executor.New(training...)
	saving := append(options[:2:2], executor.WithStage(program.StageSave), executor.WithScope(local.Scope()))
	if t.storage != nil {
		saving = append(saving, executor.WithStorage(t.storage))
	}
	return &life{Trainer: t, of: g, local: local, saver: executor.New(saving...)}
}

// startup receives all parameters as they are before the first round of the generation.
func (l *life) startup(ctx context.Context) error {
	if l.cfg.Constants != nil {
		if err := l.cfg.Constants(l.local.Scope()); err != nil {
			return err
		}
	}
	l.comm.Want(initial)
	return l.local.Startup(ctx, l.cfg.Program)
}

// sharing is how many trainers a batch is divided among.
func (l *life) sharing() uint32 {
	if l.cfg.Sync {
		return l.of.Trainers
	}
	return 1
}

// trainData trains the records that the coordinator assigns.
func (l *life) trainData(ctx context.Context) error {
	reading, cancel := l.ask.untilDrain(ctx)
	defer cancel()
	from, err := l.open(reading)
	if err != nil {
		return err
	}
	defer from.Close()
	steps := &steps{life: l, from: from, reading: reading}
	fetch := l.cfg.Spec.Fetch
	_, err = l.local.TrainFrom(ctx, l.cfg.Program, steps, executor.TrainOptions{Fetch: fetch}, func(r executor.StepResult) error {
		b := steps.batch
		return l.reporter.report(&rpc.TrainerStep{Id: l.id(b.Step.Round, 0), Pass: int32(b.Pass), Rows: b.Step.Rows, GlobalRows: b.GlobalRows,
			Fetched: encode(fetch, r.Fetched), Records: l.comm.trained(), Trainers: l.sharing()})
	})
	if steps.drained {
		return errors.Join(&fault.Fault{Kind: fault.Drained}, from.HandIn(ctx), l.reporter.flush())
	}
	return err
}

// open returns the batches of the generation. The dataset is opened and reported once in the life of a process.
func (l *life) open(ctx context.Context) (source, error) {
	data, follow := map[string][]string{}, false
	for _, d := range l.cfg.Spec.Data {
		data[d.Dataset] = d.Globs
		follow = follow || d.Follow
	}
	t := &tasks{coordinator: l.cfg.Coordinator, ask: l.ask, rank: l.cfg.Rank, of: l.of}
	if l.reader == nil {
		var err error
		var reader *executor.Reader
		if follow { // which files it has is for the coordinator to say
			reader, err = executor.NewReader(l.cfg.Program, data, &dataset.Dataset{})
		} else {
			reader, err = executor.OpenReader(ctx, l.cfg.Program, data)
		}
		if err != nil {
			return nil, err
		}
		var opened *dataset.Dataset
		if t.dataset, opened = reader.Dataset(); !follow {
			if err := t.report(ctx, opened); err != nil {
				return nil, err
			}
		}
		l.reader = reader
	}
	var opened *dataset.Dataset
	t.dataset, opened = l.reader.Dataset()
	f := &files{data: opened}
	if l.cfg.Sync {
		return newOrdered(t, l.reader, f)
	}
	return &dispatched{tasks: t, reader: l.reader, files: f, settle: l.comm.Settle}, nil
}

// steps hands the batches of a source on, until the trainer drains or the generation has ended, and tells the wire which step begins.
type steps struct {
	*life
	from    source
	reading context.Context // ends also when the trainer drains
	batch   *executor.Batch
	drained bool // between two steps
}

// Next implements executor.BatchSource.
func (s *steps) Next(context.Context) (*executor.Batch, error) {
	if !s.ask.draining() {
		if now := s.members.now(); now.Generation != s.of.Generation { // the last step was ended in a later one
			return nil, &fault.Fault{Kind: fault.Superseded, Got: "a new generation"}
		}
		batch, err := s.from.Next(s.reading)
		if err == nil {
			s.batch = batch
			s.comm.Begin(batch.Step, batch.Pass, batch.Records)
			return batch, nil
		}
		if !s.ask.draining() {
			return nil, err
		}
	}
	s.drained = true
	return nil, fault.Drained
}

// finish saves the model if this trainer is the one to do so, and takes leave of the servers.
func (l *life) finish(ctx context.Context) error {
	if l.storage == nil {
		return l.comm.Complete(ctx)
	}
	var granted bool
	err := l.ask.call(ctx, question{"coordinator", "the election of who saves the model"}, func(ctx context.Context, attempt uint32) error {
		r, err := l.cfg.Coordinator.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: l.id(0, attempt)}, grpc.WaitForReady(false))
		granted = r.GetGranted()
		return err
	})
	if err == nil && granted {
		err = l.save(ctx)
	}
	if err != nil {
		return err
	}
	return l.comm.Complete(ctx)
}

// save receives every persistable variable as it is when all others have completed, and writes them.
func (l *life) save(ctx context.Context) error {
	if l.of.DataEnded { // then the variables that no server holds are not there yet
		if err := l.startup(ctx); err != nil {
			return err
		}
	}
	l.comm.Want(saved)
	_, err := l.saver.Run(ctx, l.cfg.Save, nil)
	return err
}
