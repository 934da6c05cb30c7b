package trainer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Config is what a trainer is told about its job.
type Config struct {
	Identity      wire.Identity
	Rank          uint32
	Trainers      int
	Sync          bool
	Program       *program.Program // trainer program with its startup
	Save          *program.Program // brings every persistable variable of the servers here, and saves it
	Spec          *job.JobSpec
	Constants     func(*executor.Scope) error // loads what no server holds; nil when the startup program does all
	RoundDeadline time.Duration
	Servers       []rpc.ParameterServerClient
	Coordinator   rpc.CoordinatorClient
	Log           *slog.Logger
}

// Trainer is one trainer of a job.
type Trainer struct {
	cfg      Config
	comm     *Comm
	local    *executor.Local // runs the trainer program
	saver    *executor.Local // runs the save program, on the same variables
	reporter *reporter
}

// leaveTime bounds a trainer's last message.
const leaveTime = 5 * time.Second

// Run trains until the data ends. It tells the coordinator when it leaves, with the reason when something went wrong.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	comm := &Comm{Identity: cfg.Identity, Rank: cfg.Rank, Sync: cfg.Sync, Deadline: cfg.RoundDeadline, Servers: cfg.Servers}
	options := []executor.Option{executor.WithComm(comm), executor.WithLogger(cfg.Log)}
	training := append(options, executor.WithWorkers(max(1, int(cfg.Spec.Workers))), executor.WithStage(program.StageTrainer))
	if cfg.Spec.NoFiniteCheck {
		training = append(training, executor.WithoutFiniteCheck())
	}
	local := executor.New(training...)
	saving := append(options, executor.WithStage(program.StageSave), executor.WithScope(local.Scope()))
	t := &Trainer{cfg: cfg, comm: comm, local: local}
	if cfg.Spec.Save != "" {
		storage, err := executor.NewStorage(cfg.Spec.Save)
		if err != nil {
			return t.leave(ctx, errors.Join(err, local.Close()))
		}
		defer storage.Close()
		saving = append(saving, executor.WithStorage(storage))
	}
	t.saver = executor.New(saving...)
	err := t.run(ctx)
	comm.Drain()
	err = errors.Join(err, t.saver.Close(), t.local.Close())
	return t.leave(ctx, err)
}

func (t *Trainer) run(ctx context.Context) error {
	if err := t.join(ctx); err != nil {
		return err
	}
	if t.cfg.Constants != nil {
		if err := t.cfg.Constants(t.local.Scope()); err != nil {
			return err
		}
	}
	t.comm.Want(initial)
	if err := t.local.Startup(ctx, t.cfg.Program); err != nil {
		return err
	}
	t.reporter = newReporter(ctx, t.cfg)
	train := t.trainData
	if t.cfg.Spec.Interactive {
		train = t.trainFeeds
	}
	err := train(ctx)
	if rerr := t.reporter.close(); err == nil {
		err = rerr
	}
	if err == nil {
		err = t.finish(ctx)
	}
	return err
}

// join announces the trainer and waits for the others.
func (t *Trainer) join(ctx context.Context) error {
	return wire.RetryWithin(ctx, t.cfg.RoundDeadline, func(attempt uint32) error {
		_, err := t.cfg.Coordinator.Join(ctx, &rpc.JoinRequest{Id: t.id(0, attempt)}, grpc.WaitForReady(false))
		return wire.FromStatus("coordinator", err)
	})
}

func (t *Trainer) id(round uint64, attempt uint32) *rpc.Identity {
	return t.cfg.Identity.Of(t.cfg.Rank, round, attempt)
}

// trainData trains the tasks that the coordinator hands out.
func (t *Trainer) trainData(ctx context.Context) error {
	data := map[string][]string{}
	for _, d := range t.cfg.Spec.Data {
		data[d.Dataset] = d.Globs
	}
	var part dataset.Part
	if t.cfg.Sync {
		part = dataset.Part{Index: int(t.cfg.Rank), Of: t.cfg.Trainers}
	}
	reader, err := executor.OpenReader(ctx, t.cfg.Program, data)
	if err != nil {
		return err
	}
	source := &tasks{reader: reader, part: part, coordinator: t.cfg.Coordinator, identity: t.cfg.Identity, rank: t.cfg.Rank, patience: t.cfg.RoundDeadline, shared: t.cfg.Sync}
	if err := openTasks(ctx, source); err != nil {
		return err
	}
	defer source.Close()
	begin := &beginning{source: source, comm: t.comm}
	_, err = t.local.TrainFrom(ctx, t.cfg.Program, begin, executor.TrainOptions{Fetch: t.cfg.Spec.Fetch}, func(r executor.StepResult) error {
		b := begin.batch
		return t.reporter.report(&rpc.TrainerStep{Id: t.id(b.Step.Round, 0), Pass: int32(b.Pass), Rows: b.Step.Rows, GlobalRows: b.GlobalRows,
			Fetched: encode(t.cfg.Spec.Fetch, r.Fetched), Records: t.comm.records})
	})
	return err
}

// beginning tells the wire which step begins, before the step runs.
type beginning struct {
	source executor.BatchSource
	comm   *Comm
	batch  *executor.Batch
}

func (b *beginning) Next(ctx context.Context) (*executor.Batch, error) {
	batch, err := b.source.Next(ctx)
	if err == nil {
		b.batch = batch
		b.comm.Begin(batch.Step, batch.Records)
	}
	return batch, err
}

// finish saves the model if this trainer is the one to do so, and takes leave of the servers.
func (t *Trainer) finish(ctx context.Context) error {
	if t.cfg.Spec.Save == "" {
		return t.comm.Complete(ctx)
	}
	var granted bool
	err := wire.RetryWithin(ctx, t.cfg.RoundDeadline, func(attempt uint32) error {
		r, err := t.cfg.Coordinator.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: t.id(0, attempt)}, grpc.WaitForReady(false))
		granted = r.GetGranted()
		return wire.FromStatus("coordinator", err)
	})
	if err == nil && granted {
		t.comm.Want(saved)
		_, err = t.saver.Run(ctx, t.cfg.Save, nil)
	}
	if err == nil {
		err = t.comm.Complete(ctx)
	}
	return err
}

// leave is the trainer's last word. It is sent also when ctx has ended, because the coordinator should not have to guess; one that is gone is not waited
// for. Where ctx has ended, its cause tells more than what failed because of it: a lost lease, for one.
func (t *Trainer) leave(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(err, fault.Canceled) && fault.KindOf(cause) != fault.Internal {
		err = cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_, lerr := t.cfg.Coordinator.Leave(ctx, &rpc.LeaveRequest{Id: t.id(0, 0), Failure: wire.FailureOf(err)}, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	return fault.Wrap(fault.KindOf(lerr), "leaving the job", lerr)
}
