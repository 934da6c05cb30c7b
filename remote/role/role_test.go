package role_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
