package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// A handle is a role that was started as a Job.
type handle struct {
	launcher *Launcher
	where    string // names the role in errors
	object   string // name of its objects
	spec     *job.RoleSpec
	limits   jobspec.Deadlines
	log      io.Writer
	kept     *launch.RunLog     // takes the place of log where roles outlive the listener; nil: they do not
	cancel   context.CancelFunc // gives the role up
	done     chan struct{}
	err      error // valid when done is closed
	stopped  atomic.Bool
	left     atomic.Bool // Leave was called
	line     uint64      // number of the next line of the log; run's

	mu      sync.Mutex
	role    launch.Handle // through the connection to the pod; nil: there was none yet
	waits   []*job.Wait   // until there is one
	changed chan struct{} // closed when role or waits change
	node    string
}

var _ launch.Handle = (*handle)(nil)

const (
	// lookAgain is how often the cluster is asked for warnings while a pod does not run, and how soon a pod is called again that does not answer.
	lookAgain = 2 * time.Second
	callAgain = 200 * time.Millisecond
)

// run follows the role to its end, and deletes its objects.
func (h *handle) run(ctx context.Context) {
	defer close(h.done)
	defer h.cancel()
	defer h.launcher.pods.forget(h.object)
	h.err = h.follow(ctx)
	if h.left.Load() {
		h.err = launch.ErrLeft
		return
	}
	if h.err == nil { // one that has failed starts again
		if err := h.launcher.serves(ctx, h.where, h.spec, false); err != nil {
			h.launcher.log.Warn("drains of nodes are bounded by another number of servers than the job has", "object", h.object, "error", err)
		}
	}
	if ctx.Err() == nil && h.kept != nil { // the next listener learns from the Job how the role has ended, until the run is released
		return
	}
	grace := int64(-1)
	if ctx.Err() != nil {
		grace = 0 // it was given up
		if h.stopped.Load() && h.err != nil {
			h.err = fault.E(fault.Canceled, fault.At(h.where), fault.Got("a role that was stopped"), fault.Cause(h.err))
		}
	}
	// The cluster deletes what was not deleted here when keptJob has passed, and the next listener of this name before.
	remove := func(ctx context.Context) error { return h.launcher.api.remove(ctx, h.object, grace) }
	if err := h.launcher.insist(h.object, func(ctx context.Context) error { return h.launcher.inTurn(ctx, h.where, remove) }); err != nil {
		h.launcher.log.Warn("the objects of a role stay for now", "object", h.object, "error", err)
	}
}

// follow returns how the role has ended.
func (h *handle) follow(ctx context.Context) error {
	for {
		s, err := h.await(ctx)
		if err != nil || s.ended {
			return firstOf(err, s.err)
		}
		broken, err := h.attend(ctx, s)
		if !broken {
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		if s, ended := h.lastState(ctx, err); ended {
			return s
		}
	}
}

// await returns the state of the pod when it runs or has ended. Meanwhile the waits of the handle say what keeps it.
func (h *handle) await(ctx context.Context) (podState, error) {
	look := time.NewTimer(lookAgain)
	defer look.Stop()
	for seen := ""; ; {
		pod, changed := h.launcher.pods.of(h.object)
		s := podState{}
		switch {
		case pod != nil:
			seen = pod.Name
			if s = read(h.where, pod); s.ended || s.address != "" {
				return s, nil
			}
			h.say("its pod "+pod.Name+" to run", s.waits)
		case seen != "":
			return s, fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of pod "+seen+", which was deleted"))
		}
		select {
		case <-changed:
		case <-look.C:
			look.Reset(lookAgain)
			if !h.launcher.looks.TryAccept() {
				continue
			}
			if s.waits == "" {
				h.warn(ctx, seen)
			}
			if seen == "" {
				if s.ended, s.err = missing(ctx, h); s.ended {
					return s, nil
				}
			}
		case <-ctx.Done():
			return s, fault.E(fault.Canceled, fault.At(h.where), fault.Got("a pod that did not run yet"), fault.Cause(context.Cause(ctx)))
		}
	}
}

// missing reports how a role has ended whose Job has no pod any more, as when that was deleted while no listener was there. It has not ended if it may get one.
func missing(ctx context.Context, h *handle) (ended bool, _ error) {
	j, err := h.launcher.api.job(ctx, h.object)
	if pod, _ := h.launcher.pods.of(h.object); err != nil || pod != nil || !h.launcher.pods.listed() { // a cluster that does not answer says nothing
		return false, nil
	}
	if j == nil {
		return true, fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of its Job, which was deleted"))
	}
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return true, nil
		case c.Type == batchv1.JobFailed:
			return true, fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of its Job: "+words(c.Reason, c.Message)))
		}
	}
	return false, nil
}

// warn tells what the cluster has warned of: of a pod, or of a Job that has none, as where a quota refuses it.
func (h *handle) warn(ctx context.Context, pod string) {
	what, kind, name := "its pod "+pod+" to run", "Pod", pod
	if pod == "" {
		what, kind, name = "a pod", "Job", h.object
	}
	if text := h.launcher.api.warning(ctx, kind, name); text != "" {
		h.say(what, text)
	}
}

// say changes what the role waits for.
func (h *handle) say(what, last string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waits) == 1 && h.waits[0].What == what && h.waits[0].LastError == last {
		return
	}
	since := timestamppb.Now()
	if len(h.waits) == 1 {
		since = h.waits[0].Since
	}
	h.waits = []*job.Wait{{Who: memberOf(h.spec).String(), What: what, By: []string{"kubernetes"}, Since: since, LastError: last}}
	h.tell()
}

// tell wakes those who read the waits. h.mu is held.
func (h *handle) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// attend connects to the keeper of a pod, and follows the role to its end. broken: the connection has ended, and perhaps not the role.
func (h *handle) attend(ctx context.Context, s podState) (broken bool, _ error) {
	conn, err := wire.Dial(net.JoinHostPort(s.address, strconv.Itoa(keeperPort)), wire.OfJob(h.launcher.own, h.spec.Job))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	kept := launch.Kept{Keeper: rpc.NewKeeperClient(conn)}
	// The end of this context asks the pod to end the role. One that is left hears nothing.
	connected, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if h.left.Load() {
			_ = conn.Close()
		} else {
			cancel()
		}
	})()
	stream, err := kept.Keeper.Attend(connected, &rpc.AttendRequest{}, grpc.WaitForReady(false))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		return true, wire.FromStatus(h.where, err)
	}
	role, err := kept.Start(connected, h.spec, nil)
	if err != nil {
		return errors.Is(err, fault.Unavailable), err
	}
	h.mu.Lock()
	h.role, h.node = role, s.node
	h.tell()
	h.mu.Unlock()
	var reading sync.WaitGroup
	reading.Go(func() { h.lines(connected, kept, true) })
	err = role.Wait()
	cancel()
	reading.Wait()
	if launch.Broken(role) {
		return true, err
	}
	rest, done := context.WithTimeout(context.WithoutCancel(ctx), h.limits.Output)
	defer done()
	h.lines(rest, kept, false)
	_, _ = kept.Keeper.Dismiss(rest, &rpc.DismissRequest{}, grpc.WaitForReady(false)) // the pod ends anyway, when nobody attends to it
	return false, err
}

// lines passes on the lines of the log that are new.
func (h *handle) lines(ctx context.Context, kept launch.Kept, follow bool) {
	err := kept.Lines(ctx, h.spec.CheckpointRun, h.line, follow, func(l *rpc.LogLine) {
		h.line = l.Number + 1
		writeLine(h, l.Line)
	})
	if err != nil && ctx.Err() == nil && !h.left.Load() {
		writeLine(h, fmt.Sprint("lines of the log are missing: ", err))
	}
}

// writeLine appends a line to the log of a role.
func writeLine(h *handle, line string) {
	if h.kept != nil {
		h.kept.Add(launch.StartOf(h.spec), line, h.line)
		return
	}
	_, _ = h.log.Write([]byte(line + "\n"))
}

// lastState is how a role has ended whose connection has broken; not ended: its pod runs, as far as the cluster knows.
func (h *handle) lastState(ctx context.Context, broken error) (_ error, ended bool) {
	timer := time.NewTimer(callAgain)
	defer timer.Stop()
	for {
		pod, changed := h.launcher.pods.of(h.object)
		if pod == nil {
			return fault.E(fault.LostMember, fault.At(h.where), fault.Got("the end of its pod, which was deleted"), fault.Cause(broken)), true
		}
		if s := read(h.where, pod); s.ended {
			return s.err, true
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, false
		case <-ctx.Done():
			return broken, true
		}
	}
}

// connected returns the role through the connection to its pod, nil if there was none yet.
func (h *handle) connected() launch.Handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.role
}

// Wait implements launch.Handle.
func (h *handle) Wait() error {
	<-h.done
	return h.err
}

// Stop asks the role to end. After grace it is given up, and its pod deleted; so is one that does not run yet.
func (h *handle) Stop(grace time.Duration) {
	h.stopped.Store(true)
	role := h.connected()
	if role == nil {
		h.cancel()
		<-h.done
		return
	}
	late := time.AfterFunc(grace+h.limits.LauncherKill, h.cancel)
	defer late.Stop()
	role.Stop(grace)
	<-h.done
}

// Kill deletes the pod, and gives it no time.
func (h *handle) Kill() {
	late := time.AfterFunc(h.limits.LauncherKill, h.cancel)
	defer late.Stop()
	if role := h.connected(); role != nil {
		role.Kill()
	} else {
		h.cancel()
	}
	<-h.done
}

// Renew implements launch.Handle. A pod that does not run yet reads its Secret when it begins.
func (h *handle) Renew(m *job.RoleRenewal) error {
	if role := h.connected(); role != nil {
		return role.Renew(m)
	}
	return h.launcher.api.patchSecret(context.Background(), h.object, map[string][]byte{credentialsKey: m.Credentials, etcdKey: m.EtcdCredentials})
}

// Leave ends this handle. The role goes on, and the next listener finds it.
func (h *handle) Leave() {
	h.left.Store(true)
	h.cancel()
	<-h.done
}

// Waits implements launch.Handle.
func (h *handle) Waits() (list []*job.Wait, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.role != nil {
		return h.role.Waits()
	}
	return h.waits, h.changed
}

// Rounds implements launch.Handle.
func (h *handle) Rounds() *job.RoundTimes {
	if role := h.connected(); role != nil {
		return role.Rounds()
	}
	return nil
}

// Trace implements launch.Handle.
func (h *handle) Trace() (encoded []byte, ahead time.Duration) {
	if role := h.connected(); role != nil {
		return role.Trace()
	}
	return nil, 0
}

// Node implements launch.Handle.
func (h *handle) Node() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node
}

// Pid implements launch.Handle.
func (h *handle) Pid() int { return 0 }
