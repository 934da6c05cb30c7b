package listen

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/transpiler"
)

// plan is a job made ready to run: its role programs, encoded.
type plan struct {
	hash     program.Hash
	trainer  []byte
	save     []byte
	pservers [][]byte
	loads    []*job.ServerLoad
	user     *program.Program // the user's program, until the job has started
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
	result, err := transpiler.Transpile(ctx, p, transpiler.Config{Trainers: int(spec.Trainers), PServers: int(spec.Pservers), Mode: mode(spec.Mode),
		MinBlockSize: spec.MinBlockSize, NoSlice: spec.NoSlice, SplitMethod: spec.SplitMethod, Fetch: spec.Fetch})
	if err != nil {
		return nil, err
	}
	plan := &plan{user: p}
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
		return nil // what the program would read is fed
	case !reads && len(spec.Data) == 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("a program that neither reads data nor is fed"),
			fault.Want("a program with a read op, or an interactive job"))
	case reads && len(spec.Data) == 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("a program that reads its own data, and no data"),
			fault.Want("files for its dataset"), fault.Hint("bind them with --data NAME=GLOB"))
	case !reads && len(spec.Data) > 0:
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("data for a program that reads none"),
			fault.Want("a program with a read op, or no data"))
	}
	return nil
}

func mode(m job.Mode) transpiler.Mode {
	if m == job.Mode_ASYNC {
		return transpiler.Async
	}
	return transpiler.Sync
}

// release drops the programs.
func (p *plan) release() { p.user, p.trainer, p.save, p.pservers = nil, nil, nil, nil }

// unpackParams turns a combined parameter file into a directory of single ones, which is what roles load from: they know the variables
// of their own programs only, and a combined file does not name its own. The directory ends with the job.
func (j *Job) unpackParams(p *program.Program) error {
	from := j.spec.Params
	if from == "" {
		return nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return fault.Wrap(fault.NotFound, from, err)
	}
	if info.IsDir() {
		j.spec.Params, err = filepath.Abs(from)
		return fault.Wrap(fault.InvalidArgument, from, err)
	}
	scope := executor.NewScope()
	if err := executor.LoadCombined(scope, from, p); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(j.manager.cfg.RunDir, "params-")
	if err != nil {
		return fault.Wrap(fault.Internal, j.manager.cfg.RunDir, err)
	}
	if err := executor.SavePersistables(scope, dir, p); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	j.spec.Params, j.dir = dir, dir
	return nil
}

// removeParams removes what unpackParams has made.
func (j *Job) removeParams() error {
	if j.dir == "" {
		return nil
	}
	return fault.Wrap(fault.Internal, j.dir, os.RemoveAll(j.dir))
}
