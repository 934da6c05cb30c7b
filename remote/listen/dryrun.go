package listen

import (
	"cmp"
	"context"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
)

// dryRun is the run of a job that is not run: its roles have the same specifications each time.
const dryRun = "-dry-run"

// DryRun returns what each role of a job is given when a manager of cfg starts it, the coordinator first, and runs nothing. Credentials, parameters and a place of the listener for
// checkpoints are left out: they are made for a job that runs. It needs no registry and no launcher.
func DryRun(ctx context.Context, cfg Config, spec *job.JobSpec) ([]*job.RoleSpec, error) {
	jobspec.Complete(spec)
	if err := jobspec.Check(spec); err != nil {
		return nil, err
	}
	plan, err := newPlan(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer plan.release()
	m := NewManager(cfg)
	defer m.Close()
	j := newJob(m, cmp.Or(spec.Name, "job"), spec, plan, &jobState{})
	j.name = j.ID + dryRun
	members := []cluster.Member{{Role: job.Role_COORDINATOR}}
	for _, of := range []struct {
		role job.Role
		n    int32
	}{{job.Role_PSERVER, spec.Pservers}, {job.Role_STANDBY, spec.Pservers * min(spec.Standby, 1)}, {job.Role_TRAINER, spec.Trainers}} {
		for i := range int(of.n) {
			members = append(members, cluster.Member{Role: of.role, Index: i})
		}
	}
	specs := make([]*job.RoleSpec, len(members))
	for i, member := range members {
		specs[i] = j.roleSpec(member, 0)
	}
	return specs, nil
}
