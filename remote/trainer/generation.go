package trainer

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
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
