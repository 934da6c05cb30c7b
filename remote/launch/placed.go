package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// A placedRole is a role of the keeper of a node, through connections of which each may end before the role.
type placedRole struct {
	nodes   *KeptNodes
	where   string // names the role in errors
	spec    *job.RoleSpec
	place   *state.PlacedRole
	limits  jobspec.Deadlines
	cancel  context.CancelFunc // gives the role up
	done    chan struct{}
	err     error       // valid when done is closed
	stopped atomic.Bool // Stop was called
	killed  atomic.Bool // Kill was called
	left    atomic.Bool // Leave was called

	mu      sync.Mutex
	role    Handle        // through the last connection; nil: there was none yet
	ahead   time.Duration // of the clock of the node before that of this machine
	waits   []*job.Wait   // while there is no connection; else empty
	changed chan struct{} // closed when role or waits change
}

var _ Handle = (*placedRole)(nil)

// Pauses between calls of a node that does not answer.
const (
	firstCallAgain = 100 * time.Millisecond
	lastCallAgain  = time.Second
)

// follow follows a role to its end, after it has let its node start it, unless that has. The end of ctx asks the role to end.
func follow(ctx context.Context, n *KeptNodes, spec *job.RoleSpec, place *state.PlacedRole) *placedRole {
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &placedRole{nodes: n, where: nameOf(spec) + " on node " + place.Node, spec: proto.CloneOf(spec), place: place, limits: jobspec.DeadlinesOf(spec.Spec), cancel: cancel,
		done: make(chan struct{}), changed: make(chan struct{})}
	go h.run(following)
	unwatch := context.AfterFunc(ctx, func() { h.Stop(h.limits.LauncherStop) })
	context.AfterFunc(following, func() { unwatch() })
	return h
}

// run follows the role until it has ended, is left, or is given up.
func (h *placedRole) run(ctx context.Context) {
	defer close(h.done)
	defer h.cancel()
	var away time.Time // since when the node does not answer; zero: it does
	for pause := firstCallAgain; ; pause = min(2*pause, lastCallAgain) {
		reached, err := h.attend(ctx)
		if !errors.Is(err, errAway) {
			h.err = err
			return
		}
		if reached {
			away, pause = time.Time{}, firstCallAgain
		}
		if away.IsZero() {
			away = time.Now()
		}
		if time.Since(away) > h.limits.Follower {
			h.err = fault.E(fault.LostMember, fault.At(h.where), fault.Gotf("a node that has not answered for %v", h.limits.Follower), fault.Cause(err))
			return
		}
		h.say(err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			h.err = h.givenUp(err)
			return
		}
	}
}

// errAway is among the causes of the error of attend when the node does not answer, and nobody knows how the role is.
var errAway = errors.New("the node does not answer")

// givenUp is the error of Wait of a role that nobody waits for any more.
func (h *placedRole) givenUp(err error) error {
	switch {
	case h.left.Load():
		return ErrLeft
	case h.stopped.Load():
		return fault.E(fault.Canceled, fault.At(h.where), fault.Got("a role that was stopped and did not say how it ended"), fault.Cause(err))
	}
	return fault.E(fault.LostMember, fault.At(h.where), fault.Got("a role that was given up"), fault.Cause(err))
}

// attend connects to the keeper of the node, lets it start the role unless it has, and follows the role. reached: the keeper has said that the role was started. The error is how the role
// has ended, nil if well, or has errAway as a cause.
func (h *placedRole) attend(ctx context.Context) (reached bool, _ error) {
	asking, asked := context.WithTimeout(ctx, h.limits.NodeStart)
	defer asked()
	hosts, address, err := find(asking, h.nodes.directory, h.place.Node)
	if err != nil {
		return false, away(err)
	}
	conn, err := wire.Dial(address, h.nodes.side)
	if err != nil {
		return false, away(err)
	}
	defer conn.Close()
	kept := Kept{Keeper: rpc.NewKeeperClient(conn)}
	about, err := askKeeper(asking, kept.Keeper, h.where)
	if err != nil {
		return false, away(err)
	}
	if about.Id != h.place.Keeper {
		return false, fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of the processes of the node"), fault.Want("a keeper that outlives its listener"))
	}
	if h.spec.GetSpec().GetProfileSteps() > 0 {
		ahead := clockAhead(asking, rpc.NewListenerClient(conn))
		h.mu.Lock()
		h.ahead = ahead
		h.mu.Unlock()
	}
	// Stop and Kill alone end the role. The end of ctx ends this connection.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	late := time.AfterFunc(h.limits.NodeStart, func() { _ = conn.Close() }) // a node that is paused answers later
	h.spec.Hosts = uint32(hosts)
	role, err := kept.Start(context.WithoutCancel(ctx), h.spec, nil)
	late.Stop()
	if errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Canceled) {
		return false, away(err)
	}
	if err != nil {
		return false, err
	}
	h.mu.Lock()
	h.role, h.waits = role, nil
	h.tell()
	h.mu.Unlock()
	log := h.nodes.logs.Of(h.spec.CheckpointRun)
	connected, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { h.lines(connected, kept, log, true) })
	if h.killed.Load() || h.stopped.Load() { // it was asked while there was no connection
		group.Go(role.Kill)
	}
	err = role.Wait()
	cancel()
	group.Wait()
	if Broken(role) {
		return true, away(err)
	}
	rest, over := context.WithTimeout(context.WithoutCancel(ctx), h.limits.Output)
	defer over()
	h.lines(rest, kept, log, false)
	return true, h.onNode(err)
}

// away is the error of attend of a node that does not answer.
func away(err error) error { return fmt.Errorf("%w: %w", errAway, err) }

// onNode names the node in how a role has ended.
func (h *placedRole) onNode(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Error() != err.Error() {
		return err
	}
	c := *f
	c.Where += " on node " + h.place.Node
	return &c
}

// lines appends what the role has written since to the log of the run.
func (h *placedRole) lines(ctx context.Context, kept Kept, log *RunLog, follow bool) {
	start := StartOf(h.spec)
	err := kept.lines(ctx, &rpc.LinesRequest{Run: h.spec.CheckpointRun, Start: start, From: log.NextOf(start), Follow: follow}, func(l *rpc.LogLine) {
		log.Add(start, l.Line, l.Number+1)
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, fault.Unavailable) {
		h.nodes.log.Warn("lines of the log of a role may be missing", "role", h.where, "error", err)
	}
}

// say tells that the role waits for its node.
func (h *placedRole) say(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := timestamppb.Now()
	if len(h.waits) == 1 {
		if h.waits[0].LastError == err.Error() {
			return
		}
		since = h.waits[0].Since
	}
	h.waits = []*job.Wait{{Who: memberOf(h.spec).String(), What: "its node " + h.place.Node + " to answer", By: []string{"node " + h.place.Node}, Since: since, LastError: err.Error()}}
	h.tell()
}

// tell wakes those who read the waits. h.mu is held.
func (h *placedRole) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// last returns the role through the last connection, nil if there was none yet.
func (h *placedRole) last() Handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.role
}

// Wait implements Handle.
func (h *placedRole) Wait() error {
	<-h.done
	return h.err
}

// Stop asks the role to end. After grace it is given up.
func (h *placedRole) Stop(grace time.Duration) {
	h.stopped.Store(true)
	h.end(grace+h.limits.LauncherKill, func(role Handle) { role.Stop(grace) })
}

// Kill makes the role end at once. One whose node does not answer is given up.
func (h *placedRole) Kill() {
	h.killed.Store(true)
	h.end(h.limits.LauncherKill, Handle.Kill)
}

// end asks the role to end, and gives it up after a time.
func (h *placedRole) end(most time.Duration, ask func(Handle)) {
	late := time.AfterFunc(most, h.cancel)
	defer late.Stop()
	if role := h.last(); role != nil {
		ask(role)
	}
	<-h.done
}

// Leave ends this handle. The role goes on, and the next listener finds it.
func (h *placedRole) Leave() {
	h.left.Store(true)
	h.cancel()
	<-h.done
}

// Renew gives the role the next credentials. An error means that its node does not answer now.
func (h *placedRole) Renew(m *job.RoleRenewal) error {
	if role := h.last(); role != nil {
		return role.Renew(m)
	}
	return fault.E(fault.Unavailable, fault.At(h.where), fault.Got("new credentials for a role whose node has not answered yet"))
}

// Waits implements Handle.
func (h *placedRole) Waits() (list []*job.Wait, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.role != nil && len(h.waits) == 0 {
		return h.role.Waits()
	}
	return h.waits, h.changed
}

// Rounds implements Handle.
func (h *placedRole) Rounds() *job.RoundTimes {
	if role := h.last(); role != nil {
		return role.Rounds()
	}
	return nil
}

// Trace implements Handle.
func (h *placedRole) Trace() (encoded []byte, ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.role != nil {
		encoded, _ = h.role.Trace()
	}
	return encoded, h.ahead
}

// Node implements Handle.
func (h *placedRole) Node() string { return h.place.Node }

// Pid implements Handle.
func (h *placedRole) Pid() int { return 0 }
