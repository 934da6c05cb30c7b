// Package role runs one process of a job: coordinator, parameter server or trainer. A role is given a RoleSpec, finds the others through the
// registry, runs its program, and returns nil when all went well. It ends by itself: pservers when every trainer has completed, trainers when their
// data has ended, the coordinator when every trainer has left.
//
// The package owns no protocol. It wires together what package cluster knows (who is where, whose lease lives), what packages coordinator, pserver and
// trainer do, and the end of a process:
//
//	claim a key with a lease --> connect to the others --> run --> serve calls in flight --> give the key up
//	      |                                                 |
//	      the lease is lost: the role ends as               drain: a trainer finishes its step, for
//	      fault.Fenced, and may be started again            RoleDrain at most, and then takes leave;
//	                                                        a pserver lets a checkpoint be made
//
// Files in reading order: role.go has Run and how a role ends; trainer.go, pserver.go and coordinator.go have a role each; leaving.go lets a pserver that is told to end be saved before; placements.go changes the number
// of pservers under them; params.go
// loads the state that a job starts with; renew.go takes the next credentials; recording.go notes where the time of rounds goes.
package role

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all" // a role runs any program
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Options is what a role is given by the process that it runs in.
type Options struct {
	Registry cluster.Registry // nil: opened from the RoleSpec's etcd endpoints
	Log      *slog.Logger     // nil: silence
	// Report receives what the role has waited for longer than 3 seconds and where the time of its last rounds went, whenever that has changed, at most
	// once a second; and at the end the trace of a job that is profiled. May be nil.
	Report Report
	// Renewals are the credentials that take the place of those of the RoleSpec, in their order; nil: there are none.
	Renewals <-chan *job.RoleRenewal

	listen func(ctx context.Context, address string) (net.Listener, error) // nil: wire.Listen
}

// Report takes what a role tells whoever has started it. Package launch has implementations. None of the methods blocks. What they are given is theirs.
type Report interface {
	Waits(list []*job.Wait)
	Rounds(m *job.RoundTimes)
	Trace(m *job.Trace)
}

// runner is what the three roles have in common.
type runner struct {
	spec      *job.RoleSpec
	deadlines jobspec.Deadlines
	registry  cluster.Registry
	log       *slog.Logger
	identity  wire.Identity
	own       *credential.Credentials                                         // nil: the job has none
	side      *wire.Side                                                      // likewise
	etcd      *credential.Credentials                                         // that etcd asks for; nil: what the environment says
	open      func(ctx context.Context, address string) (net.Listener, error) // a port
	waits     waits.Board
	recording recording
}

// Run runs a role to its end. The error names the role. When the lease of the role is lost, Run returns a fault of kind fault.Fenced: the
// process must end and may be started again. The spec must be complete: Run refuses one that jobspec.Check refuses.
func Run(ctx context.Context, spec *job.RoleSpec, options Options) (err error) {
	name := Name(spec)
	defer func() { err = inRole(name, drained(ctx, err)) }()
	if spec.Spec == nil {
		return fault.E(fault.InvalidArgument, fault.Got("a role without the JobSpec of its job"), fault.Want("one that a listener has made"))
	}
	if err := jobspec.Check(spec.Spec); err != nil { // a role makes memory and deadlines of its numbers
		return err
	}
	if err := wire.SameProtocol(name, spec.Protocol, spec.Build, "start the listeners of all machines from one build, and then the job again; \"edl jobs resume\" goes on from its last checkpoint"); err != nil {
		return err
	}
	if have := ops.Fingerprint(); spec.Registry != have {
		return fault.E(fault.Unsupported, fault.Got("a job with other ops, of the build "+spec.Build), fault.Want("the ops of this build "+thisbuild.Name()),
			fault.Hint(cmp.Or(ops.Difference(spec.Ops), "it has the ops "+spec.Registry+", and this build "+have)+
				"; run the same version of edl everywhere"))
	}
	r := &runner{spec: spec, deadlines: jobspec.DeadlinesOf(spec.Spec), registry: options.Registry, log: options.Log, open: options.listen,
		identity: wire.Identity{Job: spec.Job, Program: spec.ProgramHash}}
	if len(spec.Credentials) > 0 {
		if r.own, err = credential.Parse(spec.Credentials); err != nil {
			return err
		}
		if r.side = wire.OfJob(r.own, spec.Job); spec.ClearData {
			r.side = r.side.ClearData()
		}
	}
	if len(spec.EtcdCredentials) > 0 {
		if r.etcd, err = credential.Parse(spec.EtcdCredentials); err != nil {
			return err
		}
	}
	if r.open == nil {
		r.open = wire.Listen
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("job", spec.Job, "role", name)
	ctx = confined(ctx, r)
	defer renew(r, options.Renewals)()
	r.recording = newRecording(spec)
	defer r.recording.tell(options.Report)
	defer r.report(options.Report)()
	if r.registry == nil {
		if r.registry, err = r.openRegistry(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.registry.Close()) }()
	}
	defer r.watchEtcd()()
	r.log.Info("role starts", "program", hex.EncodeToString(spec.ProgramHash[:min(6, len(spec.ProgramHash))]))
	switch spec.Role {
	case job.Role_COORDINATOR:
		err = r.coordinate(ctx)
	case job.Role_PSERVER, job.Role_STANDBY:
		err = r.serve(ctx)
	case job.Role_TRAINER:
		err = r.train(ctx)
	default:
		err = fault.E(fault.InvalidArgument, fault.Gotf("role %d", spec.Role), fault.Want("coordinator, pserver, standby or trainer"))
	}
	if err == nil {
		r.log.Info("role ends")
	}
	return err
}

// confined returns a context in which the role opens what its listener allows, and nothing else.
func confined(ctx context.Context, r *runner) context.Context {
	return policy.With(ctx, jobspec.PolicyOf(r.spec.Policy))
}

// openRegistry opens the registry. While etcd does not answer it tries again, until Deadlines.Start.
func (r *runner) openRegistry(ctx context.Context) (cluster.Registry, error) {
	ctx, cancel := context.WithTimeout(ctx, r.deadlines.Start)
	defer cancel()
	wait := r.waits.Begin(waits.Wait{What: "an answer of etcd", By: []string{etcd}, Limit: r.deadlines.Start})
	defer wait.End()
	for {
		registry, err := cluster.Open(ctx, cluster.Config{Endpoints: r.spec.Etcd, Prefix: r.spec.Prefix, Lease: r.deadlines.Lease,
			Patience: r.deadlines.Start, Own: r.etcd, Log: r.log, Answers: r.side.Answers})
		if err == nil || fault.KindOf(err) != fault.Unavailable {
			return registry, err
		}
		wait.Update(func(w *waits.Wait) { w.LastError = err.Error() })
		timer := time.NewTimer(etcdPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			kind := fault.DeadlineExceeded
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				kind = fault.Canceled
			}
			return nil, fault.E(kind, fault.At(etcd), fault.Gotf("no answer within %v", r.deadlines.Start), fault.Cause(err),
				fault.Hint("start etcd again; start_deadline says how long roles wait for it"))
		}
	}
}

// etcd is how waits and errors name it, and etcdPause separates tries to reach it.
const (
	etcd      = "etcd"
	etcdPause = 200 * time.Millisecond
)

// watchEtcd lists the wait for etcd while it does not answer this role, until stop. The role goes on meanwhile: etcd decides whether it has lost its place,
// and others refuse what a role does that has.
func (r *runner) watchEtcd() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(r.deadlines.WaitEvery)
		defer ticker.Stop()
		var wait *waits.Entry
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			since, reason := r.registry.Silent()
			switch {
			case since.IsZero() && wait != nil:
				wait.End()
				wait = nil
				r.log.Info("etcd answers again")
			case since.IsZero():
			case wait == nil:
				wait = r.waits.Begin(waits.Wait{What: "an answer of etcd; training goes on until a role ends, or the coordinator has to write down what is done", By: []string{etcd},
					Since: since, LastError: reason.Error()})
			default:
				wait.Update(func(w *waits.Wait) { w.LastError = reason.Error() })
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// Name is how messages, logs and commands call a role: "trainer-1".
func Name(spec *job.RoleSpec) string {
	return cluster.Member{Role: spec.Role, Index: int(spec.Index)}.ID()
}

// report reports what the role waits for and how long its rounds take, and logs what it waits for, until stop.
func (r *runner) report(to Report) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	if to != nil {
		group.Go(func() { r.followWaits(ctx, to.Waits) })
		group.Go(func() { r.recording.follow(ctx, r.deadlines.WaitEvery, to.Rounds) })
	}
	group.Go(func() { logWaits(ctx, r) })
	return func() {
		cancel()
		group.Wait()
	}
}

func (r *runner) followWaits(ctx context.Context, to func([]*job.Wait)) {
	var last []*job.Wait
	r.waits.Follow(ctx, r.deadlines.WaitEvery, r.deadlines.WaitReported, func(list []*job.Wait) {
		list = oldestOfEach(list)
		if !slices.EqualFunc(list, last, func(a, b *job.Wait) bool { return proto.Equal(a, b) }) {
			last = list
			to(list)
		}
	})
}

// oldestOfEach keeps one wait for each of those who can end it: a trainer receives many variables from a server at the same time.
func oldestOfEach(list []*job.Wait) (out []*job.Wait) {
	for _, w := range list { // the oldest first
		if !slices.ContainsFunc(out, func(have *job.Wait) bool { return slices.Equal(have.By, w.By) }) {
			out = append(out, w)
		}
	}
	return out
}

// logWaits writes a line for each long wait, until ctx ends.
func logWaits(ctx context.Context, r *runner) {
	ticker := time.NewTicker(r.deadlines.WaitLogged)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, w := range oldestOfEach(r.waits.List(r.deadlines.WaitLogged)) {
			about := []any{"for", w.What, "of", strings.Join(w.By, ", "), "since", time.Since(w.Since.AsTime()).Round(time.Second).String()}
			if w.LastError != "" {
				about = append(about, "last error", w.LastError)
			}
			r.log.Warn("still waits", about...)
		}
	}
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
	return r.open(ctx, net.JoinHostPort(r.host(), "0"))
}

// host is what servers of this role listen on.
func (r *runner) host() string { return cmp.Or(r.spec.Advertise, "127.0.0.1") }

// whileMember returns a context that ends with the membership's lease, too.
func whileMember(ctx context.Context, m cluster.Membership) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-m.Done():
			cancel(lostLease(m))
		case <-stop:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(stop); cancel(nil) })
}

// lostLease is why a role ends whose place is lost.
func lostLease(m cluster.Membership) error {
	return fault.E(fault.Fenced, fault.At(m.Member().String()), fault.Got("a lost lease"), fault.Want("a live one"), fault.Hint("start the role again"))
}

// ErrOrphan is the cause of the end of the context of Run when the process is gone that has started the role.
var ErrOrphan = fault.E(fault.Canceled, fault.Got("the end of the process that started this role"))

// leave gives a membership up, however the role has ended: the role's launcher reports that. An orphan has none, so it counts as lost: a listener that cannot reach the machine would else take it for
// one that runs. A role whose lease is lost has nothing to give up.
func (r *runner) leave(ctx context.Context, m cluster.Membership) error {
	select {
	case <-m.Done():
		return nil
	default:
	}
	orphan := errors.Is(context.Cause(ctx), ErrOrphan)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.deadlines.ServerGrace)
	defer cancel()
	if orphan {
		return r.registry.RevokeLease(ctx, m.Member(), m.Incarnation())
	}
	err := wire.Retry(ctx, func(id.Retry) error { return m.Leave(ctx) })
	if since, _ := r.registry.Silent(); err != nil && !since.IsZero() {
		r.log.Warn("the key of the role stays until its lease ends", "error", err)
		return nil
	}
	return err
}

// drainable separates the request to end in order, which is the end of ctx for the cause fault.Drained, from the order to end at once. The context
// that it returns ends when ctx ends for any other cause, or limit after drain was closed.
func drainable(ctx context.Context, limit time.Duration) (work context.Context, drain <-chan struct{}, stop context.CancelFunc) {
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
			timer := time.NewTimer(limit)
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

// fenced returns the loss of the lease as the error, when that is why a role ended.
func fenced(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, fault.Fenced) {
		return cause
	}
	return err
}

// reasonOf returns why a role had to end, where err is only what followed from it: it has lost its lease, or cannot find the others any more.
func reasonOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, fault.Unavailable) {
		return cause
	}
	return fenced(ctx, err)
}

// drained returns fault.Drained for a role that was told to end, and ends only because of that: that is no failure, and does not count as a restart.
func drained(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, fault.Drained) && (fault.KindOf(err) == fault.Canceled || errors.Is(err, context.Canceled)) {
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
	case !found || f.Error() != err.Error(): // err says more than this fault
		return fault.E(fault.KindOf(err), fault.At(name), fault.Cause(err))
	}
	c := *f
	c.Where = name
	return &c
}
