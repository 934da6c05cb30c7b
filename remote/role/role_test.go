package role_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A job runs to its end by itself: every role ends well, and none counts as lost.
func TestRolesEndByThemselves(t *testing.T) {
	store := cluster.NewMemory()
	specs := roleSpecs(t, 2)
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
	lost, err := open(t, store).WatchLost(ctx)
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
			specs := roleSpecs(t, 1<<20)
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
			for first.name == "" { // a trainer may not have joined yet, and there is no lease to expire
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
	specs := roleSpecs(t, 1)
	for name, c := range map[string]struct {
		of     int
		change func(*job.RoleSpec)
		kind   fault.Kind
	}{
		"another protocol":   {3, func(s *job.RoleSpec) { s.Protocol++ }, fault.Unsupported},
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
	specs := roleSpecs(t, 1)
	if _, err := open(t, store).JoinServer(bounded(t), 1, "127.0.0.1:1"); err != nil {
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

// A role whose server stops serving too early ends, and says why: else the others would wait for a role that they cannot reach.
func TestServerThatStops(t *testing.T) {
	for _, c := range []struct{ name, when string }{{"coordinator", "generation begins"}, {"pserver-0", "role starts"}} {
		t.Run(c.name, func(t *testing.T) {
			store := cluster.NewMemory()
			ctx, cancel := context.WithCancel(bounded(t))
			defer cancel()
			if err := open(t, store).SetDesired(ctx, 2); err != nil {
				t.Fatal(err)
			}
			specs := roleSpecs(t, 40)
			ends, told := make(chan ended, len(specs)), make(chan error, 1)
			port, now := &port{opened: make(chan struct{})}, make(chan struct{})
			for _, s := range specs {
				name := role.Name(s)
				options := role.Options{Registry: open(t, store)}
				if name == c.name {
					options = options.ListenBy(port.listen)
					options.Log = slog.New(slog.NewTextHandler(&sees{text: c.when, then: func() { close(now) }}, nil))
				}
				go func() {
					err := role.Run(ctx, s, options)
					if name == c.name {
						told <- err
					}
					ends <- ended{name, err}
				}()
			}
			<-now
			<-port.opened
			port.Close()
			err := <-told
			if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "serve on") {
				t.Errorf("it ends with %v", err)
			}
			cancel()
			for range specs {
				<-ends
			}
		})
	}
}

// port is a listener that is closed under its server.
type port struct {
	net.Listener
	opened chan struct{}
}

func (p *port) listen(ctx context.Context, address string) (net.Listener, error) {
	var err error
	p.Listener, err = wire.Listen(ctx, address)
	close(p.opened)
	return p.Listener, err
}

// A role whose registry stops reporting the address of another role ends and says so: else it would call the old address until its deadline.
func TestRoleThatFindsNobody(t *testing.T) {
	for _, of := range []job.Role{job.Role_COORDINATOR, job.Role_TRAINER} {
		store, ctx, specs := cluster.NewMemory(), bounded(t), roleSpecs(t, 1)
		others := open(t, store)
		if err := others.SetDesired(ctx, 2); err != nil {
			t.Fatal(err)
		}
		spec := specs[0]
		if of == job.Role_TRAINER {
			spec = specs[3]
			if _, err := others.LeadCoordinator(ctx, "127.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			if _, err := others.JoinServer(ctx, i, "127.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		}
		err := role.Run(ctx, spec, role.Options{Registry: noAddresses{open(t, store)}})
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no more addresses of the") {
			t.Errorf("%s ends with %v", role.Name(spec), err)
		}
	}
}

// noAddresses is a registry whose store reports one old address and refuses to report more.
type noAddresses struct{ cluster.Registry }

func (noAddresses) WatchAddress(context.Context, cluster.Member) (<-chan string, error) {
	addresses := make(chan string, 1)
	addresses <- "127.0.0.1:1"
	close(addresses)
	return addresses, nil
}
