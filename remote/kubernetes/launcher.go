package kubernetes

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
)

// A Launcher starts roles as Jobs of a cluster. Close ends it.
type Launcher struct {
	settings Settings
	own      *credential.Credentials // of the listener, when it calls pods
	api      *api
	pods     *pods
	log      *slog.Logger
	stop     context.CancelFunc
	group    sync.WaitGroup
}

var _ launch.Launcher = (*Launcher)(nil)

// NewLauncher returns a Launcher. own are the credentials of the listener. It asks the cluster for Jobs of an earlier listener of the same name, and deletes them: their jobs
// have ended with it. An error is the refusal of the API server.
func NewLauncher(ctx context.Context, c *rest.Config, s Settings, own *credential.Credentials, log *slog.Logger) (*Launcher, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a, err := newAPI(c, s.Namespace)
	if err != nil {
		return nil, err
	}
	selector := LabelListener + "=" + s.Name
	left, err := a.jobs(ctx, selector)
	if err != nil {
		return nil, err
	}
	for _, j := range left.Items {
		log.Info("deletes a Job of an earlier listener", "job", j.Labels[LabelJob], "object", j.Name)
		if err := a.remove(ctx, j.Name, -1); err != nil {
			return nil, err
		}
	}
	following, stop := context.WithCancel(context.Background())
	l := &Launcher{settings: s, own: own, api: a, pods: newPods(a, selector, log), log: log, stop: stop}
	l.group.Go(func() { l.pods.follow(following) })
	return l, nil
}

// Close waits for the roles that were started, which the caller has stopped, and ends the connection to the cluster.
func (l *Launcher) Close() {
	l.stop()
	l.group.Wait()
}

// Start makes the objects of a role, or finds them, and returns. What keeps the pod from running is among the waits of the handle.
func (l *Launcher) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	where := memberOf(spec).String() + " of job " + spec.Job
	if len(spec.Credentials) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("a role without credentials"), fault.Want("those of its listener's authority: its pod is reached over the network"))
	}
	if size := proto.Size(spec); size > launch.MaxSpec {
		return nil, fault.E(fault.TooLarge, fault.At(where), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", launch.MaxSpec))
	}
	o, err := NewObjects(l.settings, spec)
	if err != nil {
		return nil, err
	}
	if err := l.api.make(ctx, where, o); err != nil {
		return nil, err
	}
	if log == nil {
		log = io.Discard
	}
	h := &handle{launcher: l, where: where, object: o.Job.Name, spec: spec, limits: jobspec.DeadlinesOf(spec.Spec), log: log, done: make(chan struct{}),
		changed: make(chan struct{})}
	h.say("a pod", "")
	// The end of ctx asks the role to end.
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	l.group.Go(func() { h.run(following) })
	unwatch := context.AfterFunc(ctx, func() { h.Stop(h.limits.LauncherStop) })
	context.AfterFunc(following, func() { unwatch() })
	return h, nil
}
