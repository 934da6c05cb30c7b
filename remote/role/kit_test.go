package role_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/transpiler"
)

// patience bounds every wait of these tests; none of them comes near it.
const patience = time.Minute

const prefix = "/edl/line"

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// roleSpecs returns the specs of all roles of a job with two trainers and two pservers that reads its own data some times.
func roleSpecs(t *testing.T, passes int32) []*job.RoleSpec {
	t.Helper()
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	r, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 2, PServers: 2, MinBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := m.Program.Hash()
	if err != nil {
		t.Fatal(err)
	}
	spec := &job.JobSpec{Trainers: 2, Pservers: 2, Passes: passes, StartDeadline: durationpb.New(patience), RoundDeadline: durationpb.New(patience),
		Lease: durationpb.New(time.Second)}
	for name, globs := range testkit.Samples(t, t.TempDir(), 20) {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	jobspec.Complete(spec)
	of := func(kind job.Role, index uint32, p *program.Program) *job.RoleSpec {
		return &job.RoleSpec{Job: "line", Role: kind, Index: index, Spec: spec, Program: encoded(t, p), SaveProgram: encoded(t, r.Save),
			ProgramHash: hash[:],
			Protocol:    wire.Protocol, Registry: ops.Fingerprint(), Prefix: prefix}
	}
	return []*job.RoleSpec{of(job.Role_COORDINATOR, 0, r.Trainer), of(job.Role_PSERVER, 0, r.PServers[0]), of(job.Role_PSERVER, 1, r.PServers[1]),
		of(job.Role_TRAINER, 0, r.Trainer), of(job.Role_TRAINER, 1, r.Trainer)}
}

func encoded(t *testing.T, p *program.Program) []byte {
	t.Helper()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open returns a handle on the registry of the job.
func open(t *testing.T, store *cluster.Memory) cluster.Registry {
	t.Helper()
	r, err := store.Open(prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// ended is how a role ended.
type ended struct {
	name string
	err  error
}

// runAll runs roles at the same time and returns where their ends arrive.
func runAll(ctx context.Context, t *testing.T, store *cluster.Memory, specs []*job.RoleSpec) <-chan ended {
	t.Helper()
	if err := open(t, store).SetDesired(ctx, 2); err != nil {
		t.Fatal(err)
	}
	ends := make(chan ended, len(specs))
	for _, s := range specs {
		registry := open(t, store)
		go func() { ends <- ended{role.Name(s), role.Run(ctx, s, role.Options{Registry: registry})} }()
	}
	return ends
}
