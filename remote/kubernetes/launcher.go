package kubernetes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
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
	ctx      context.Context // ends with the launcher
	stop     context.CancelFunc
	group    sync.WaitGroup
	logs     *launch.RunLogs                // where roles outlive the listener
	turns    chan struct{}                  // a place for each role whose objects are made or deleted
	looks    flowcontrol.PassiveRateLimiter // asks about pods that do not run: of all roles together

	budgets sync.Mutex // held while one is changed, so that the last number is that of now; before mu
	mu      sync.Mutex
	servers map[string]map[cluster.Member]bool // by run, where roles outlive the listener: what the budget of a run counts

	choosing sync.Mutex        // held while the image of a run is looked for; before mu
	images   map[string]string // by run, likewise: that of its pods, guarded by mu
}

var _ launch.Launcher = (*Launcher)(nil)

// NewLauncher returns a Launcher. own are the credentials of the listener. With Settings.Keep it finds the roles that earlier listeners of the name have started, and leaves its
// own to the next one. Without, it asks the cluster for Jobs of an earlier listener, and deletes them: their jobs have ended with it. An error is the refusal of the API server.
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
	l := &Launcher{settings: s, own: own, api: a, pods: newPods(a, LabelListener+"="+s.Name, log), log: log, logs: launch.NewRunLogs(s.Keep, log),
		turns: make(chan struct{}, rolesAtATime), looks: flowcontrol.NewTokenBucketPassiveRateLimiter(looksPerSecond, looksPerSecond), servers: map[string]map[cluster.Member]bool{}, images: map[string]string{}}
	if s.Keep == "" {
		if err := l.deleteAll(ctx, ""); err != nil {
			return nil, err
		}
	} else if _, err := a.jobs(ctx, LabelListener+"="+s.Name); err != nil { // so that a wrong cluster is known now
		return nil, err
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.group.Go(func() { l.pods.follow(l.ctx) })
	return l, nil
}

// Bounds of the calls of the API server for a job of many roles. A call has requestTime from when it is begun, with its turn among the calls that api lets out in a second, so roles take turns before that. A role
// whose pod does not run asks for the reason every lookAgain, and gives way to others when all roles have asked looksPerSecond times: a thousand pods that wait for the same do not keep the API
// server from starting others.
const (
	rolesAtATime   = 8
	looksPerSecond = 5
)

// Close waits for the roles that were started, which the caller has stopped, and ends the connection to the cluster.
func (l *Launcher) Close() {
	l.stop()
	l.group.Wait()
}

// insist does something. What the API server does not answer it does again in the background, until it is done or the launcher is closed, and it returns nil.
func (l *Launcher) insist(object string, do func(ctx context.Context) error) error {
	err := do(context.Background())
	if !errors.Is(err, fault.Unavailable) {
		return err
	}
	l.log.Warn("objects stay until the API server answers", "object", object, "error", err)
	l.group.Go(func() {
		for err := err; errors.Is(err, fault.Unavailable) && pause(l.ctx, again) == nil; {
			err = do(l.ctx)
		}
	})
	return nil
}

// Start makes the objects of a role, or finds them, and returns. What keeps the pod from running is among the waits of the handle. Where roles outlive the listener, their lines go
// to Lines and not to log.
func (l *Launcher) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	where := memberOf(spec).String() + " of job " + spec.Job
	if len(spec.Credentials) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("a role without credentials"), fault.Want("those of its listener's authority: its pod is reached over the network"))
	}
	if size := proto.Size(spec); size > launch.MaxSpec {
		return nil, fault.E(fault.TooLarge, fault.At(where), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", launch.MaxSpec))
	}
	settings := l.settings
	if l.settings.Keep != "" && jobspec.PodOf(spec).Image == "" {
		image, err := l.imageOf(ctx, spec.CheckpointRun)
		if err != nil {
			return nil, err
		}
		settings.Image = image
	}
	o, err := NewObjects(settings, spec)
	if err != nil {
		return nil, err
	}
	if err := l.inTurn(ctx, where, func(ctx context.Context) error { return l.api.make(ctx, where, o) }); err != nil {
		return nil, err
	}
	if err := l.serves(ctx, where, spec, true); err != nil {
		return nil, errors.Join(err, l.api.remove(context.WithoutCancel(ctx), o.Job.Name, 0))
	}
	if log == nil {
		log = io.Discard
	}
	h := &handle{launcher: l, where: where, object: o.Job.Name, spec: spec, limits: jobspec.DeadlinesOf(spec.Spec), log: log, done: make(chan struct{}),
		changed: make(chan struct{})}
	if l.settings.Keep != "" {
		h.kept = l.logs.Of(spec.CheckpointRun)
		h.line = h.kept.NextOf(launch.StartOf(spec))
	}
	h.say("a pod", "")
	// The end of ctx asks the role to end.
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	l.group.Go(func() { h.run(following) })
	unwatch := context.AfterFunc(ctx, func() { h.Stop(h.limits.LauncherStop) })
	context.AfterFunc(following, func() { unwatch() })
	return h, nil
}

// imageOf is the image of the pods of a run. It stays that of the listener that began the run, or let it go on after a suspension, so that no build joins another one.
func (l *Launcher) imageOf(ctx context.Context, run string) (string, error) {
	l.choosing.Lock()
	defer l.choosing.Unlock()
	l.mu.Lock()
	image := l.images[run]
	l.mu.Unlock()
	if image != "" {
		return image, nil
	}
	list, err := l.api.jobs(ctx, LabelListener+"="+l.settings.Name+","+LabelRun+"="+launch.RunLabel(run))
	if err != nil {
		return "", err
	}
	image = l.settings.Image
	for _, j := range list.Items {
		for _, c := range j.Spec.Template.Spec.Containers {
			if c.Name == container {
				image = c.Image
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.images[run] = image
	return image, nil
}

// forget forgets what the launcher knows of a run whose objects are deleted.
func (l *Launcher) forget(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.servers, run)
	delete(l.images, run)
}

// inTurn makes or deletes the objects of a role when it is its turn.
func (l *Launcher) inTurn(ctx context.Context, where string, do func(ctx context.Context) error) error {
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return fault.E(fault.Canceled, fault.At(where), fault.Got("a role whose turn had not come"), fault.Cause(context.Cause(ctx)))
	}
	defer func() { <-l.turns }()
	return do(ctx)
}

// Lines calls each with the lines of a run from a number on. With follow it waits for more until ctx ends or the run is released.
func (l *Launcher) Lines(ctx context.Context, run string, from uint64, follow bool, each func(*rpc.LogLine)) error {
	return l.logs.Lines(ctx, run, from, follow, each)
}

// Release deletes what the cluster and the listener have of a run. Roles that are left are killed.
func (l *Launcher) Release(_ context.Context, run string) error {
	l.forget(run)
	objects := LabelRun + "=" + launch.RunLabel(run)
	return errors.Join(l.insist(objects, func(ctx context.Context) error { return l.deleteAll(ctx, objects) }), l.logs.Release(run))
}

// Only releases all runs but those that are named: an earlier listener may have left them, and its data folder may be gone.
func (l *Launcher) Only(ctx context.Context, runs []string) error {
	keep := make([]string, len(runs))
	for i, run := range runs {
		keep[i] = launch.RunLabel(run)
	}
	slices.Sort(keep)
	selector := ""
	if len(keep) > 0 {
		selector = LabelRun + " notin (" + strings.Join(keep, ",") + ")"
	}
	return errors.Join(l.deleteAll(ctx, selector), l.logs.Only(runs))
}

// Clear deletes what the cluster has of a run none of whose roles runs: Jobs with their pods, and the budget, which the next start of the coordinator makes again. The log of the run stays.
func (l *Launcher) Clear(ctx context.Context, run string) error {
	l.forget(run)
	return l.deleteAll(ctx, LabelRun+"="+launch.RunLabel(run))
}

// deleteAll deletes what this listener, or an earlier one of its name, has made, as far as a further selector names it.
func (l *Launcher) deleteAll(ctx context.Context, selector string) error {
	selector = strings.Trim(LabelListener+"="+l.settings.Name+","+selector, ",")
	list, err := l.api.jobs(ctx, selector)
	if err != nil {
		return err
	}
	for _, j := range list.Items {
		l.log.Info("deletes a Job", "job", j.Labels[LabelJob], "object", j.Name)
		err = errors.Join(err, l.api.remove(ctx, j.Name, -1))
	}
	return errors.Join(err, l.api.removeBudgets(ctx, selector))
}
