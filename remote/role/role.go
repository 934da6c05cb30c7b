// Package role runs what a process of a job is: coordinator, parameter server or trainer. A role is given a RoleSpec, finds the
// others through the registry, runs its program to the end, and returns nil when all went well. It ends by itself: pservers when every
// trainer has completed, trainers when their data has ended, the coordinator when every trainer has left.
package role

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all" // a role runs any program
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// Options is what a role is given by the process that it runs in.
type Options struct {
	Registry cluster.Registry // nil: opened from the RoleSpec's etcd endpoints
	Log      *slog.Logger     // nil: silence

	listen func(ctx context.Context, address string) (net.Listener, error) // nil: wire.Listen
}

// runner is what the three roles have in common.
type runner struct {
	spec     *job.RoleSpec
	registry cluster.Registry
	log      *slog.Logger
	identity wire.Identity
	open     func(ctx context.Context, address string) (net.Listener, error) // a port
}

// Run runs a role to its end. The error names the role. When the lease of the role is lost, Run returns a fault of kind fault.Fenced: the
// process must end and may be started again. The spec must be complete: one that jobspec.Check refuses is not run.
func Run(ctx context.Context, spec *job.RoleSpec, options Options) (err error) {
	name := Name(spec)
	defer func() { err = inRole(name, unbegun(ctx, spec.Role, err)) }()
	if spec.Spec == nil {
		return fault.E(fault.InvalidArgument, fault.Got("a role without the JobSpec of its job"), fault.Want("one that a listener has made"))
	}
	if err := jobspec.Check(spec.Spec); err != nil { // a role makes memory and deadlines of its numbers
		return err
	}
	if have := ops.Fingerprint(); spec.Registry != have {
		return fault.E(fault.Unsupported, fault.Got("a program made with the ops "+spec.Registry), fault.Want("ops "+have),
			fault.Hint("run the same version of edl everywhere"))
	}
	r := &runner{spec: spec, registry: options.Registry, log: options.Log, open: options.listen,
		identity: wire.Identity{Job: spec.Job, Program: spec.ProgramHash}}
	if r.open == nil {
		r.open = wire.Listen
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("job", spec.Job, "role", name)
	if r.registry == nil {
		if r.registry, err = cluster.Open(ctx, cluster.Config{Endpoints: spec.Etcd, Prefix: spec.Prefix, Lease: spec.Spec.Lease.AsDuration(),
			Log: r.log}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.registry.Close()) }()
	}
	r.log.Info("role starts", "program", hex.EncodeToString(spec.ProgramHash[:min(6, len(spec.ProgramHash))]))
	switch spec.Role {
	case job.Role_COORDINATOR:
		err = r.coordinate(ctx)
	case job.Role_PSERVER:
		err = r.serve(ctx)
	case job.Role_TRAINER:
		err = r.train(ctx)
	default:
		err = fault.E(fault.InvalidArgument, fault.Gotf("role %d", spec.Role), fault.Want("coordinator, pserver or trainer"))
	}
	if err == nil {
		r.log.Info("role ends")
	}
	return err
}

// Name is how messages, logs and commands call a role: "trainer-1".
func Name(spec *job.RoleSpec) string {
	return cluster.Member{Role: spec.Role, Index: int(spec.Index)}.ID()
}

// program decodes and verifies one program of the spec, as every byte from outside is.
func (r *runner) program(b []byte, stage program.Stage) (*program.Program, error) {
	p, err := program.Decode(b, program.DefaultLimits())
	if err != nil {
		return nil, err
	}
	return p, ops.Verify(p, stage)
}

// listen opens the port of a server role.
func (r *runner) listen(ctx context.Context) (net.Listener, error) {
	host := r.spec.Advertise
	if host == "" {
		host = "127.0.0.1"
	}
	return r.open(ctx, net.JoinHostPort(host, "0"))
}

// whileMember returns a context that ends with the membership's lease, too.
func whileMember(ctx context.Context, m cluster.Membership) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-m.Done():
			cancel(fault.E(fault.Fenced, fault.At(m.Member().String()), fault.Got("a lost lease"), fault.Want("a live one"),
				fault.Hint("start the role again")))
		case <-stop:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(stop); cancel(nil) })
}
