package listen

import (
	"context"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/transpiler"
)

// plan is a job made ready to run: its role programs, encoded.
type plan struct {
	maker    maker
	hash     program.Hash
	trainer  []byte
	save     []byte
	pservers [][]byte
	loads    []*job.ServerLoad
	user     *program.Program // the user's program, until the job has started
	judges   *program.Program // by which the job is evaluated, until it has started; nil: it is not
	encoded  []byte           // of user
}

// newPlan decodes, verifies and transpiles the program of a spec.
func newPlan(ctx context.Context, spec *job.JobSpec) (*plan, error) {
	p, err := program.Decode(spec.Program, program.DefaultLimits())
	if err != nil {
		return nil, err
	}
	if err := ops.Verify(p, program.StageLocal); err != nil {
		return nil, err
	}
	if err := checkData(p, spec); err != nil {
		return nil, err
	}
	if err := checkBackups(p, spec); err != nil {
		return nil, err
	}
	judges, err := jobspec.EvaluationProgram(spec)
	if err != nil {
		return nil, err
	}
	result, err := transpiler.Transpile(ctx, p, jobspec.Transpiler(spec))
	if err != nil {
		return nil, err
	}
	plan := &plan{maker: thisMaker(), user: p, judges: judges, encoded: spec.Program}
	if plan.hash, err = p.Hash(); err != nil {
		return nil, err
	}
	if plan.trainer, err = result.Trainer.Encode(); err != nil {
		return nil, err
	}
	if plan.save, err = result.Save.Encode(); err != nil {
		return nil, err
	}
	for _, server := range result.PServers {
		b, err := server.Encode()
		if err != nil {
			return nil, err
		}
		plan.pservers = append(plan.pservers, b)
	}
	for _, l := range result.Placement.Loads {
		plan.loads = append(plan.loads, &job.ServerLoad{Server: uint32(l.Server), Bytes: l.Bytes, Slices: int32(l.Slices)})
	}
	return plan, nil
}

// checkData compares what the program reads with what the job binds, so that a mistake is told before anything starts.
func checkData(p *program.Program, spec *job.JobSpec) error {
	reads := slices.ContainsFunc(p.Global().Ops, func(op *program.Op) bool { return op.Type == "read" })
	switch {
	case spec.Fed && len(spec.Data) > 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("data for a job that is fed"), fault.Want("one or the other"))
	case spec.Fed:
		return nil // what the program reads is fed
	case !reads && len(spec.Data) == 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("a program that neither reads data nor is fed"),
			fault.Want("a program with a read op, or a job that is fed"))
	case reads && len(spec.Data) == 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("a program that reads its own data, and no data"),
			fault.Want("files for its dataset"), fault.Hint("bind them with --data NAME=GLOB"))
	case !reads && len(spec.Data) > 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("data for a program that reads none"),
			fault.Want("a program with a read op, or no data"))
	}
	return nil
}

// release drops the programs.
func (p *plan) release() {
	p.user, p.judges, p.encoded, p.trainer, p.save, p.pservers = nil, nil, nil, nil, nil, nil
}

// checkBackups refuses a program whose last batch of a pass is left out if it is small: what a round drops might become a part of it, and be trained never.
func checkBackups(p *program.Program, spec *job.JobSpec) error {
	if spec.Fed && spec.BackupTrainers > 0 && executor.Trains(p) {
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("steps that are fed and train, with backup_trainers"), fault.Want("a job that reads its data"),
			fault.Hint("leave out backup_trainers: a record that a round drops is trained in a later one, and a step that is fed has none"))
	}
	if jobspec.Backups(spec) == 0 {
		return nil
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err == nil && pipeline.DropLast {
		err = fault.E(fault.Unsupported, fault.On(read), fault.Got("drop_last in a job with backup trainers"), fault.Want("batches of all records"),
			fault.Hint("leave out backup_trainers, or let the last batch be smaller"))
	}
	return err
}
