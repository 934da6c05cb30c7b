package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// A Keeper owns roles for a listener, and goes on when the listener dies. It is small, and decides nothing, so that it has few reasons to end. It knows roles by
// the run of their job and by their name in it (StartOf): a name is started once, however often a listener asks. What a role wrote, reported last, and how it
// ended, it remembers until the run is released. All roles of a run are of the build of the listener that began it, though an upgrade replaces its file.
//
//	listener ---Start, EndRole, Release---> Keeper ---pipes of Processes---> roles
//	         <--Attend, Follow, Lines------
//
// RenewRole passes the next credentials on. Its methods are those of the service rpc.Keeper, but for Await and End.
type Keeper struct {
	rpc.UnimplementedKeeperServer
	launcher Launcher
	about    *rpc.KeeperState
	ctx      context.Context // of the roles
	end      context.CancelCauseFunc
	changed  chan struct{} // holds a value when a listener has come or gone, or a role has ended
	group    sync.WaitGroup

	mu        sync.Mutex
	listeners int
	runs      map[string]*keptRun
}

// A keptRun is the roles of a run, by name.
type keptRun struct {
	launcher  Launcher // nil: no role runs of a binary
	binary    *Binary  // that launcher starts roles from; nil: it has its own
	lines     *eventlog.Log[*rpc.LogLine]
	roles     map[string]*keptRole
	followers int       // calls of Follow
	alone     time.Time // when the last of them ended, or the run began
}

// A keptRole is a role that was started.
type keptRole struct {
	member cluster.Member
	handle Handle
	first  uint64 // number of the first line of the run that it may have written
	done   chan struct{}
	err    error // valid when done is closed
}

// KeptLines bounds the lines that a Keeper, or a listener, remembers of a run, and KeptBytes what is in them.
const (
	KeptLines = 10_000
	KeptBytes = 16 << 20
)

// NewLog returns a log of the roles of a run, within these bounds.
func NewLog() *eventlog.Log[*rpc.LogLine] {
	return eventlog.NewSized(KeptLines, KeptBytes, func(l *rpc.LogLine) int { return len(l.Line) + len(l.Role) })
}

// NewKeeper returns a Keeper that starts roles with launcher. It tells listeners about, which does not change, and of which build it is.
func NewKeeper(launcher Launcher, about *rpc.KeeperState) *Keeper {
	about.Protocol, about.Build = wire.Protocol, thisbuild.Name()
	k := &Keeper{launcher: launcher, about: about, changed: make(chan struct{}, 1), runs: map[string]*keptRun{}}
	k.ctx, k.end = context.WithCancelCause(context.Background())
	return k
}

// A Patience says when a Keeper ends that no listener attends to: after Idle if no role runs, and after Alone if some do. Roles of a run that nobody has followed for
// Alone end, too.
type Patience struct{ Idle, Alone time.Duration }

// Await returns when the Keeper is to end: nil when nobody needs it any more, else why.
func (k *Keeper) Await(ctx context.Context, p Patience) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	look := time.NewTicker(max(time.Second, p.Alone/abandonedChecks))
	defer look.Stop()
	var since time.Time // when the last listener went; zero while there is one
	for {
		k.mu.Lock()
		attended, live := k.listeners > 0, k.live()
		k.mu.Unlock()
		limit := p.Idle
		if live > 0 {
			limit = p.Alone
		}
		switch {
		case attended:
			since = time.Time{}
			timer.Stop()
		case since.IsZero():
			since = time.Now()
			timer.Reset(limit)
		case time.Since(since) < limit:
			timer.Reset(limit - time.Since(since))
		case live > 0:
			return fault.E(fault.DeadlineExceeded, fault.At("keeper"), fault.Gotf("no listener for %v, while %d roles run", p.Alone, live), fault.Want("a listener with this data folder"))
		default:
			return nil
		}
		select {
		case <-k.changed:
		case <-timer.C:
		case now := <-look.C:
			k.endAbandoned(now.Add(-p.Alone))
		case <-k.ctx.Done():
			if why := context.Cause(k.ctx); !errors.Is(why, errDismissed) {
				return why
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// abandonedChecks is how often a Keeper looks within Patience.Alone for runs that nobody follows.
const abandonedChecks = 12

// endAbandoned kills the roles of runs that nobody has followed since before a time: their listener, perhaps of another machine, does not come back. How they have ended stays known.
func (k *Keeper) endAbandoned(before time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, run := range k.runs {
		if run.followers > 0 || !run.alone.Before(before) {
			continue
		}
		for _, r := range run.roles {
			k.group.Go(r.handle.Kill)
		}
	}
}

// live counts the roles that run. k.mu is held.
func (k *Keeper) live() (n int) {
	for _, run := range k.runs {
		n += run.live()
	}
	return n
}

// live counts the roles of a run that run.
func (r *keptRun) live() (n int) {
	for _, role := range r.roles {
		select {
		case <-role.done:
		default:
			n++
		}
	}
	return n
}

// letGo lets the next role of a run start from another binary.
func (r *keptRun) letGo() {
	if r.binary != nil {
		_ = r.binary.Close() // it was read only
	}
	r.launcher, r.binary = nil, nil
}

// End stops every role and waits for it. No role starts after it. Calls of listeners end.
func (k *Keeper) End(why error) {
	k.mu.Lock()
	k.end(why)
	k.mu.Unlock()
	k.group.Wait()
}

// wake lets Await look again.
func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Attend implements rpc.KeeperServer.
func (k *Keeper) Attend(_ *rpc.AttendRequest, stream grpc.ServerStreamingServer[rpc.KeeperState]) error {
	attend := func(by int) {
		k.mu.Lock()
		k.listeners += by
		k.mu.Unlock()
		k.wake()
	}
	attend(+1)
	defer attend(-1)
	if err := stream.Send(k.about); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
		return nil
	case <-k.ctx.Done():
		return fault.Wrap(fault.Unavailable, "keeper", context.Cause(k.ctx))
	}
}

// Start implements rpc.KeeperServer.
func (k *Keeper) Start(stream grpc.ClientStreamingServer[rpc.Piece, rpc.KeptRole]) error {
	m := &rpc.KeptStart{}
	if err := wire.Receive("listener", stream, m, MaxSpec); err != nil {
		return err
	}
	if m.Spec == nil || m.Run == "" {
		return fault.E(fault.Corrupt, fault.At("keeper"), fault.Got("a start without a role or a run"))
	}
	r, err := k.start(m.Run, m.Spec, m.Binary)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.KeptRole{Run: m.Run, Name: StartOf(m.Spec), Pid: int32(r.handle.Pid())})
}

// StartOf tells the starts of the roles of a run apart: "pserver-1/0" is the first of pserver 1.
func StartOf(spec *job.RoleSpec) string {
	return fmt.Sprintf("%s/%d", memberOf(spec).ID(), spec.Start)
}

// Launch starts a role of a run that no listener has asked for yet, or finds it.
func (k *Keeper) Launch(run string, spec *job.RoleSpec) (Handle, error) {
	r, err := k.start(run, spec, nil)
	if err != nil {
		return nil, err
	}
	return r.handle, nil
}

// begin lets the roles of a run start from a binary: the first of several paths that can be opened, or that of the launcher.
func (k *Keeper) begin(run *keptRun, paths []string) (err error) {
	run.launcher = k.launcher
	l, ok := k.launcher.(interface{ from(*Binary) Launcher })
	if !ok || len(paths) == 0 {
		return nil
	}
	if run.binary, err = OpenBinary(paths[:min(len(paths), maxPaths)]...); err != nil {
		run.launcher = nil
		return err
	}
	run.launcher = l.from(run.binary)
	return nil
}

// maxPaths bounds the paths of a binary.
const maxPaths = 4

// start starts a role that was not started.
func (k *Keeper) start(name string, spec *job.RoleSpec, binary []string) (*keptRole, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return nil, fault.Wrap(fault.Unavailable, "keeper", context.Cause(k.ctx))
	}
	run := k.runs[name]
	if run == nil {
		run = &keptRun{lines: NewLog(), roles: map[string]*keptRole{}, alone: time.Now()}
		k.runs[name] = run
	}
	if r := run.roles[StartOf(spec)]; r != nil {
		return r, nil
	}
	if run.launcher == nil {
		if err := k.begin(run, binary); err != nil {
			return nil, err
		}
	}
	member, first := memberOf(spec), run.lines.Next()
	h, err := run.launcher.Start(k.ctx, spec, keptLines{run.lines, member.ID(), uint32(spec.Start)})
	if err != nil {
		return nil, err
	}
	r := &keptRole{member: member, handle: h, first: first, done: make(chan struct{})}
	run.roles[StartOf(spec)] = r
	k.group.Go(func() {
		r.err = h.Wait()
		close(r.done)
		k.wake()
	})
	return r, nil
}

// keptLines enters the lines of a role into the log of its run.
type keptLines struct {
	log   *eventlog.Log[*rpc.LogLine]
	role  string
	start uint32
}

func (w keptLines) Write(line []byte) (int, error) {
	w.log.Add(&rpc.LogLine{Role: w.role, Start: w.start, Line: string(bytes.ToValidUTF8(bytes.TrimRight(line, "\n"), []byte("\uFFFD")))})
	return len(line), nil
}

// role finds a role that was started.
func (k *Keeper) role(m *rpc.KeptRole) (*keptRole, error) {
	_, r, err := k.find(m)
	return r, err
}

func (k *Keeper) find(m *rpc.KeptRole) (*keptRun, *keptRole, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if run := k.runs[m.GetRun()]; run != nil && run.roles[m.Name] != nil {
		return run, run.roles[m.Name], nil
	}
	return nil, nil, fault.E(fault.NotFound, fault.At("keeper"), fault.Got(m.GetRun()+" "+m.GetName()), fault.Want("a role that was started"))
}

// Follow implements rpc.KeeperServer.
func (k *Keeper) Follow(m *rpc.KeptRole, stream grpc.ServerStreamingServer[rpc.RoleEvent]) error {
	run, r, err := k.find(m)
	if err != nil {
		return err
	}
	follow := func(by int) {
		k.mu.Lock()
		defer k.mu.Unlock()
		run.followers += by
		run.alone = time.Now()
	}
	follow(+1)
	defer follow(-1)
	e := &events{stream: stream, member: r.member}
	defer e.end()
	over := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() { e.passReports(r.handle, over) })
	select {
	case <-r.done:
	case <-stream.Context().Done():
	}
	close(over)
	passing.Wait()
	if err := stream.Context().Err(); err != nil {
		return err
	}
	e.tellEnd(r.err)
	return nil
}

// Lines implements rpc.KeeperServer. A run or a start that is not known has no lines.
func (k *Keeper) Lines(m *rpc.LinesRequest, stream grpc.ServerStreamingServer[rpc.LogLine]) error {
	k.mu.Lock()
	run, from, role := k.runs[m.Run], m.From, ""
	if run != nil && m.Start != "" {
		if r := run.roles[m.Start]; r != nil {
			from, role = max(from, r.first), r.member.ID()
		} else {
			run = nil
		}
	}
	k.mu.Unlock()
	if run == nil {
		return nil
	}
	return run.lines.Read(stream.Context(), from, m.Follow, func(number uint64, l *rpc.LogLine) error {
		if role != "" && l.Role != role {
			return nil
		}
		return stream.Send(&rpc.LogLine{Role: l.Role, Line: l.Line, Number: number, Start: l.Start})
	})
}

// EndRole implements rpc.KeeperServer.
func (k *Keeper) EndRole(_ context.Context, m *rpc.EndRoleRequest) (*rpc.EndRoleResponse, error) {
	r, err := k.role(m.Role)
	if err != nil {
		return nil, err
	}
	if m.GraceMs > 0 {
		r.handle.Stop(time.Duration(m.GraceMs) * time.Millisecond)
	} else {
		r.handle.Kill()
	}
	<-r.done
	return &rpc.EndRoleResponse{}, nil
}

// RenewRole implements rpc.KeeperServer.
func (k *Keeper) RenewRole(_ context.Context, m *rpc.RenewRoleRequest) (*rpc.RenewRoleResponse, error) {
	r, err := k.role(m.Role)
	if err == nil && m.Renewal == nil {
		err = fault.E(fault.Corrupt, fault.At("keeper"), fault.Got("a renewal without credentials"))
	}
	if err == nil {
		err = r.handle.Renew(m.Renewal)
	}
	if err != nil {
		return nil, err
	}
	return &rpc.RenewRoleResponse{}, nil
}

// Release implements rpc.KeeperServer.
func (k *Keeper) Release(_ context.Context, m *rpc.ReleaseRequest) (*rpc.ReleaseResponse, error) {
	k.mu.Lock()
	run := k.runs[m.Run]
	if m.Binary {
		if run != nil && run.live() == 0 {
			run.letGo()
		}
		run = nil
	} else {
		delete(k.runs, m.Run)
	}
	k.mu.Unlock()
	if run == nil {
		return &rpc.ReleaseResponse{}, nil
	}
	var group sync.WaitGroup
	for _, r := range run.roles {
		group.Go(func() {
			r.handle.Kill()
			<-r.done
		})
	}
	group.Wait()
	run.lines.End()
	run.letGo()
	return &rpc.ReleaseResponse{}, nil
}

var errDismissed = fault.New(fault.Canceled, "the listener needs its keeper no more")

// Dismiss implements rpc.KeeperServer.
func (k *Keeper) Dismiss(context.Context, *rpc.DismissRequest) (*rpc.DismissResponse, error) {
	k.end(errDismissed)
	return &rpc.DismissResponse{}, nil
}
