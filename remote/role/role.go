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
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all" // a role runs any program
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Options is what a role is given by the process that it runs in.
type Options struct {
	Registry cluster.Registry // nil: opened from the RoleSpec's etcd endpoints
	Log      *slog.Logger     // nil: silence
	// Report is told what the role waits for longer than a moment, whenever that has changed, at most once a second. It must not block, and the list
	// is its own. Nil: nobody is told.
	Report func(waits []*job.Wait)

	listen func(ctx context.Context, address string) (net.Listener, error) // nil: wire.Listen
}

// runner is what the three roles have in common.
type runner struct {
	spec     *job.RoleSpec
	registry cluster.Registry
	log      *slog.Logger
	identity wire.Identity
	open     func(ctx context.Context, address string) (net.Listener, error) // a port
	waits    waits.Board
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
	defer r.report(options.Report)()
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

// A wait is reported when it has lasted so long, and a change of what is waited for so often.
const (
	reportAfter = 3 * time.Second
	reportEvery = time.Second
)

// report tells what the role waits for, until stop.
func (r *runner) report(to func([]*job.Wait)) (stop func()) {
	if to == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { r.waits.Follow(ctx, reportEvery, reportAfter, to) })
	return func() {
		cancel()
		group.Wait()
	}
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

// fenced returns the loss of the lease as the error, when that is why a role ended.
func fenced(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, fault.Fenced) {
		return cause
	}
	return err
}

// whyEnded returns why a role had to end, where err is only what followed from it: it has lost its lease, or cannot find the others any more.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, fault.Unavailable) {
		return cause
	}
	return fenced(ctx, err)
}

// unbegun makes an end in order of that of a trainer which was told to end so while it was about to begin: it is nobody's failure.
func unbegun(ctx context.Context, role job.Role, err error) error {
	if cause := context.Cause(ctx); role == job.Role_TRAINER && fault.KindOf(err) == fault.Canceled && errors.Is(cause, fault.Drained) {
		return cause
	}
	return err
}

// inRole says in which role an error occurred, without hiding its kind.
func inRole(name string, err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	switch found := errors.As(err, &f); {
	case found && f.Where != "":
		return err
	case !found || f.Error() != err.Error(): // there is more to tell than this fault
		return fault.E(fault.KindOf(err), fault.At(name), fault.Cause(err))
	}
	c := *f
	c.Where = name
	return &c
}

// drainTime bounds how long a role goes on that is to end in order. A launcher that stops a role because its context has ended waits for longer; a
// listener that stops a whole job does not, for then no round counts any more.
const drainTime = 4 * time.Second

// drainable separates the request to end in order, which is the end of ctx for the cause fault.Drained, from the order to end at once. The context
// that it returns ends when ctx ends for any other cause, or drainTime after drain was closed.
func drainable(ctx context.Context) (work context.Context, drain <-chan struct{}, stop context.CancelFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	asked := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-work.Done():
			return
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, fault.Drained) {
			close(asked)
			timer := time.NewTimer(drainTime)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-work.Done():
			}
		}
		cancel(cause)
	}()
	return work, asked, func() { cancel(nil); <-ended }
}
