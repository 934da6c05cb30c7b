package role_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/transpiler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them comes near it.
const patience = time.Minute

const prefix = "/edl/line"

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// crew returns the specs of all roles of a job with two trainers and two pservers that reads its own data some times.
func crew(t *testing.T, passes int32) []*job.RoleSpec {
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
			Registry:    ops.Fingerprint(), Prefix: prefix}
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

// A job runs to its end by itself: every role ends well, and none counts as lost.
func TestRolesEndByThemselves(t *testing.T) {
	store := cluster.NewMemory()
	specs := crew(t, 2)
	ends := runAll(bounded(t), t, store, specs)
	var names []string
	for range specs {
		e := <-ends
		if e.err != nil {
			t.Errorf("%s: %v", e.name, e.err)
		}
		names = append(names, e.name)
	}
	slices.Sort(names)
	if want := []string{"coordinator", "pserver-0", "pserver-1", "trainer-0", "trainer-1"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	ctx, cancel := context.WithCancel(bounded(t))
	lost, err := open(t, store).Lost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// A member that joins now is seen after all that was there before.
	again, err := open(t, store).JoinTrainer(ctx, 7)
	if err != nil {
		t.Fatal(err)
	}
	store.Expire(prefix, again.Member())
	if m := <-lost; m != again.Member() {
		t.Errorf("%v counts as lost", m)
	}
	cancel()
}

// A role whose lease is lost ends and asks to be started again; no other role does.
func TestLostLease(t *testing.T) {
	for name, member := range map[string]cluster.Member{
		"trainer-1":   {Role: job.Role_TRAINER, Index: 1},
		"pserver-0":   {Role: job.Role_PSERVER, Index: 0},
		"coordinator": {Role: job.Role_COORDINATOR},
	} {
		t.Run(name, func(t *testing.T) {
			store := cluster.NewMemory()
			specs := crew(t, 1<<20)
			ctx, cancel := context.WithTimeout(bounded(t), patience/3) // a job that goes on without the lease does not end by itself
			defer cancel()
			ends := runAll(ctx, t, store, specs)
			registry := open(t, store)
			if _, err := registry.Coordinator(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := registry.Servers(ctx, 2); err != nil {
				t.Fatal(err)
			}
			var first ended
			for first.name == "" { // a trainer may not have joined yet, and nobody is there to be expired
				store.Expire(prefix, member)
				select {
				case first = <-ends:
				default:
					runtime.Gosched()
				}
			}
			for i := range specs {
				e := first
				if i > 0 {
					e = <-ends
				}
				if (e.name == name) != errors.Is(e.err, fault.Fenced) {
					t.Errorf("%s ends with %v, when %s has lost its lease", e.name, e.err, name)
				}
				if e.name == name {
					cancel() // as a launcher does when one has failed
				}
			}
		})
	}
}

// What a role is given is checked before it does anything.
func TestRolesRefuse(t *testing.T) {
	specs := crew(t, 1)
	for name, c := range map[string]struct {
		of     int
		change func(*job.RoleSpec)
		kind   fault.Kind
	}{
		"other ops":          {3, func(s *job.RoleSpec) { s.Registry = "another" }, fault.Unsupported},
		"no role":            {3, func(s *job.RoleSpec) { s.Role = 0 }, fault.InvalidArgument},
		"unknown role":       {3, func(s *job.RoleSpec) { s.Role = 9 }, fault.InvalidArgument},
		"a corrupt program":  {3, func(s *job.RoleSpec) { s.Program = s.Program[:len(s.Program)/2] }, fault.Corrupt},
		"a server's program": {3, func(s *job.RoleSpec) { s.Program = specs[1].Program }, fault.InvalidProgram},
		"a trainer's":        {1, func(s *job.RoleSpec) { s.Program = specs[3].Program }, fault.InvalidProgram},
		"an unchecked spec":  {3, func(s *job.RoleSpec) { s.Spec.Trainers = 0 }, fault.InvalidArgument},
		"no save program":    {4, func(s *job.RoleSpec) { s.SaveProgram = []byte{1} }, fault.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			store := cluster.NewMemory()
			spec := proto.Clone(specs[c.of]).(*job.RoleSpec)
			c.change(spec)
			err := role.Run(bounded(t), spec, role.Options{Registry: open(t, store)})
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != c.kind || f.Where == "" {
				t.Errorf("%v, want kind %v and where", err, c.kind)
			}
		})
	}
}

// An index has one live holder.
func TestSecondHolderIsFenced(t *testing.T) {
	store := cluster.NewMemory()
	specs := crew(t, 1)
	if _, err := open(t, store).ClaimServer(bounded(t), 1, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, store).JoinTrainer(bounded(t), 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*job.RoleSpec{specs[2], specs[3]} {
		if err := role.Run(bounded(t), s, role.Options{Registry: open(t, store)}); !errors.Is(err, fault.Fenced) {
			t.Errorf("%s ends with %v", role.Name(s), err)
		}
	}
}
