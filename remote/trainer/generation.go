package trainer

import (
	"context"
	"errors"
	"slices"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"google.golang.org/grpc"
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
		if t.cfg.Spec.Fed {
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

// data is the dataset of a trainer, which it opens and reports once in its life.
type data struct {
	reader   *executor.Reader // nil before it is opened
	files    files
	reported bool
}

// open opens the dataset, unless it is open. That of a folder that is followed begins empty: which files it has is for the coordinator to say.
func (d *data) open(ctx context.Context, l *life, follow bool) (err error) {
	if d.reader != nil {
		return nil
	}
	globs := map[string][]string{}
	for _, b := range l.cfg.Spec.Data {
		globs[b.Dataset] = b.Globs
	}
	if follow {
		d.reader, err = executor.NewReader(l.cfg.Program, globs, &dataset.Dataset{})
	} else {
		d.reader, err = executor.OpenReader(ctx, l.cfg.Program, globs)
	}
	if err == nil {
		_, d.files.data = d.reader.Dataset()
	}
	return err
}

// close ends the connections to buckets. Nobody reads any more.
func (d *data) close() error {
	if d.reader == nil {
		return nil
	}
	return errors.Join(d.files.close(), d.reader.Close())
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
		b, over := steps.batch, l.comm.Over()
		fetched := encode(fetch, r.Fetched)
		if over != nil {
			fetched = computed(l.cfg.Program, fetched)
		}
		report := &rpc.TrainerStep{Id: l.of.identity.Of(l.cfg.Rank, b.Step.Round, 0), Pass: int32(b.Pass), Rows: b.Step.Rows, GlobalRows: b.GlobalRows,
			Fetched: fetched, Records: l.comm.trained(), Trainers: l.sharing(), Pending: over != nil}
		if err := l.reporter.report(report); err != nil {
			return err
		}
		return over
	})
	if steps.drained {
		return errors.Join(fault.E(fault.Drained), from.HandIn(ctx), l.reporter.flush())
	}
	return err
}

// open returns the batches of the generation.
func (l *life) open(ctx context.Context) (source, error) {
	follow := slices.ContainsFunc(l.cfg.Spec.Data, (*job.DataBinding).GetFollow)
	if err := l.data.open(ctx, l, follow); err != nil {
		return nil, err
	}
	name, opened := l.data.reader.Dataset()
	t := &tasks{coordinator: l.cfg.Coordinator, ask: l.ask, rank: l.cfg.Rank, of: l.of, dataset: name}
	if !follow && !l.data.reported {
		if err := t.report(ctx, opened); err != nil {
			return nil, err
		}
		l.data.reported = true
	}
	if l.cfg.Sync {
		return newOrdered(t, l.data.reader, &l.data.files)
	}
	return &dispatched{tasks: t, reader: l.data.reader, files: &l.data.files, settle: l.comm.Settle}, nil
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
