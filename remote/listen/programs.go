package listen

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/wire"
)

// The roles of a job that outlives its listener are of the build that the job has begun with, or has gone on with after a suspension, whatever the build of the next listener: the keeper starts them
// from that binary, and they run the programs that this build has made. These lie beside the journal of the job, one file for each number of pservers that it has had:
//
//	runs/NAME/programs.N    a state.RolePrograms, before roles hear of it

// A maker is the build that has made the programs of roles, and that these are of.
type maker struct {
	protocol        uint32
	build, registry string
	ops             map[string]string
}

// thisMaker is the build of this process.
func thisMaker() maker {
	return maker{wire.Protocol, thisbuild.Name(), ops.Fingerprint(), ops.Hashes()}
}

// sameBuild refuses what another build alone can do for a job.
func (m maker) sameBuild(where, what, do string) error {
	if own := thisMaker(); m.protocol == own.protocol && m.build == own.build && m.registry == own.registry {
		return nil
	}
	return fault.E(fault.Unsupported, fault.At(where), fault.Got(what+" of a job that the build "+m.build+" has begun"), fault.Want("a listener of that build, and not of "+thisbuild.Name()), fault.Hint(do))
}

func programsFile(dir string, servers int) string {
	return filepath.Join(dir, "programs."+strconv.Itoa(servers))
}

// writePrograms writes the programs of a plan beside the journal of its job.
func writePrograms(dir string, p *plan) error {
	b, err := proto.Marshal(&state.RolePrograms{Protocol: p.maker.protocol, Build: p.maker.build, Registry: p.maker.registry, Ops: p.maker.ops, Trainer: p.trainer, Save: p.save, Pservers: p.pservers, Loads: p.loads})
	if err != nil {
		return fault.Wrap(fault.Internal, dir, err)
	}
	return replaceFile(programsFile(dir, len(p.pservers)), b)
}

// planOfRun is the plan of a job whose roles an earlier listener has begun to start. Of a run that has no programs the roles are of this protocol, too: they are made again.
func planOfRun(ctx context.Context, id, dir string, spec *job.JobSpec) (*plan, error) {
	path := programsFile(dir, int(spec.Pservers))
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newPlan(ctx, spec)
	}
	if err != nil {
		return nil, fault.File(fault.Unavailable, path, err)
	}
	m := &state.RolePrograms{}
	if err = proto.Unmarshal(b, m); err == nil && len(m.Pservers) != int(spec.Pservers) {
		err = errors.New("programs of another number of pservers")
	}
	if err != nil {
		return nil, fault.File(fault.Corrupt, path, err)
	}
	if err := wire.SameProtocol("job "+id, m.Protocol, m.Build, whatNow(id, spec)); err != nil {
		return nil, err
	}
	p := &plan{maker: maker{m.Protocol, m.Build, m.Registry, m.Ops}, encoded: spec.Program, trainer: m.Trainer, save: m.Save, pservers: m.Pservers, loads: m.Loads}
	if p.user, err = program.Decode(spec.Program, program.DefaultLimits()); err == nil {
		p.hash, err = p.user.Hash()
	}
	if e := spec.Evaluation; err == nil && e != nil {
		p.judges, err = program.Decode(e.Program, program.DefaultLimits())
	}
	return p, err
}

// planAnew makes the programs of a suspended job again if another build has made them: all its roles start anew, and from the binary of this listener.
func planAnew(ctx context.Context, j *Job) error {
	spec := proto.CloneOf(j.spec)
	var now *placement
	j.withLock(func() { now, spec.Program = j.placing.now, j.plan.encoded })
	if now.maker.sameBuild("", "", "") == nil || len(spec.Program) == 0 {
		return nil
	}
	spec.Pservers = int32(len(now.pservers))
	p, err := newPlan(ctx, spec)
	if err == nil && j.journal != nil {
		err = writePrograms(j.journal.dir, p)
	}
	if err != nil {
		return err
	}
	p.user, p.judges = nil, nil
	j.withLock(func() { j.placing.now = &placement{plan: p, number: now.number, before: now.before, after: now.after} })
	return nil
}
