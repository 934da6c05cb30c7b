package operator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// Config says whose TrainingJobs an operator makes jobs of, and where.
type Config struct {
	REST      *rest.Config
	Namespace string
	Client    *remote.Client // of the listener
	Submit    SubmitFunc
	Log       *slog.Logger
}

// workers is how many TrainingJobs are attended to at a time: to suspend one takes until its checkpoint is made.
const workers = 16

// An operator attends to the TrainingJobs of a namespace.
type operator struct {
	api   *api
	jobs  *jobs
	log   *slog.Logger
	store cache.Store
	queue workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	refused map[types.UID]refusal
	logs    map[types.UID]keptLog
}

// A keptLog says what was known of a job when its log was kept last, or could not be kept.
type keptLog struct {
	gone   int // starts that had ended, when it was kept
	at     time.Time
	failed bool // the last attempt
}

// due reports whether the log of a job is to be kept now: at once when it has ended, or is suspended, and now and then while its roles end and start again. What has failed is tried again.
func (k keptLog) due(j *Job, now time.Time) bool {
	if j.Gone == k.gone {
		return false
	}
	return j.Ended || j.Suspended && !k.failed || now.Sub(k.at) >= keepSoon
}

// next is k after an attempt.
func (k keptLog) next(j *Job, now time.Time, err error) keptLog {
	if err != nil {
		return keptLog{k.gone, now, true}
	}
	return keptLog{j.Gone, now, false}
}

// keepSoon is how often the log of a job is kept while its roles end and start again.
const keepSoon = 10 * time.Second

// A refusal is why the last thing that was tried for a resource has failed.
type refusal struct {
	text       string
	final      bool
	generation int64 // of the resource
}

// Run attends to TrainingJobs until ctx ends, and returns when nothing of it is under way. It fails at once if the API server does not know the resource.
func Run(ctx context.Context, c Config) error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a, err := newAPI(c.REST, c.Namespace)
	if err != nil {
		return err
	}
	if err := a.check(ctx); err != nil {
		return err
	}
	o := &operator{api: a, log: c.Log, refused: map[types.UID]refusal{}, logs: map[types.UID]keptLog{}, jobs: &jobs{client: c.Client, submit: c.Submit, losses: map[string]*loss{}},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](500*time.Millisecond, 30*time.Second))}
	add := func(object any) {
		if k, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			o.queue.Add(k)
		}
	}
	informer := cache.NewSharedInformer(cache.NewListWatchFromClient(a.client, Resource, c.Namespace, fields.Everything()), &TrainingJob{}, 0)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add})
	silent := ""
	if err == nil {
		err = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			if text := err.Error(); !errors.Is(err, context.Canceled) && text != silent {
				silent = text
				o.log.Warn("the API server does not say what becomes of TrainingJobs; jobs go on", "error", err)
			}
		})
	}
	if err != nil {
		return fault.Wrap(fault.Internal, "operator", err)
	}
	o.store = informer.GetStore()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { informer.RunWithContext(ctx) })
	group.Go(func() {
		<-ctx.Done()
		o.queue.ShutDown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil // ctx has ended
	}
	for range workers {
		group.Go(func() {
			for o.next(ctx) {
			}
		})
	}
	group.Wait()
	o.jobs.group.Wait()
	return nil
}

// next attends to a resource whose turn it is. It returns false when ctx has ended.
func (o *operator) next(ctx context.Context) bool {
	k, shut := o.queue.Get()
	if shut {
		return false
	}
	defer o.queue.Done(k)
	after, err := o.attend(ctx, k)
	switch {
	case err != nil && ctx.Err() == nil:
		if !apierrors.IsConflict(err) { // with a change that the informer tells of
			o.log.Warn("a TrainingJob has to wait", "name", nameOf(k), "error", err)
		}
		o.queue.AddRateLimited(k)
		return true
	case after > 0:
		o.queue.AddAfter(k, after)
	}
	o.queue.Forget(k)
	return true
}

// attend does what Decide says for a resource, and returns when to look again.
func (o *operator) attend(ctx context.Context, k string) (time.Duration, error) {
	object, there, err := o.store.GetByKey(k)
	if err != nil || !there {
		return 0, err
	}
	t := object.(*TrainingJob)
	seen := Observed{Now: time.Now(), Resource: t}
	o.mu.Lock()
	seen.Refusal, seen.Refused = o.refused[t.UID].text, o.refused[t.UID].final
	o.mu.Unlock()
	if !t.Status.finished() || t.DeletionTimestamp != nil {
		if seen.Job, err = o.jobs.find(ctx, string(t.UID)); err != nil {
			return 0, err
		}
	}
	d := Decide(seen)
	if d.Verb != Nothing {
		o.log.Info("TrainingJob", "name", t.Name, "does", string(d.Verb))
	}
	err = o.do(ctx, t, seen.Job, d)
	if ctx.Err() != nil {
		return 0, nil
	}
	o.note(t, d, err)
	if err != nil {
		if !apierrors.IsConflict(err) { // who has asked for it learns that it was not done
			seen.Refusal, seen.Refused = err.Error(), d.Verb == Submit && final(err)
			if next := Decide(seen).Status; next != nil {
				err = errors.Join(err, o.api.tell(ctx, t, next))
			}
		}
		return 0, err
	}
	o.remember(ctx, t, seen.Job)
	if seen.Job != nil && (d.Verb == Release || d.Verb == GoOn) { // its resource is gone, or has another job
		o.jobs.forget(seen.Job.Name)
	}
	if d.Status != nil {
		if d.Verb != Nothing { // it was done this time
			d.Status.Refused = nil
		}
		if err := o.api.tell(ctx, t, d.Status); err != nil {
			return 0, err
		}
		if d.Status.finished() && seen.Job != nil {
			o.jobs.forget(seen.Job.Name)
		}
	}
	return d.After, nil
}

// remember keeps the log of a job when more starts of its roles have ended than before. A log that cannot be kept does not keep the job from going on.
func (o *operator) remember(ctx context.Context, t *TrainingJob, j *Job) {
	if j == nil || t.DeletionTimestamp != nil {
		o.mu.Lock()
		delete(o.logs, t.UID)
		o.mu.Unlock()
		return
	}
	now := time.Now()
	o.mu.Lock()
	before := o.logs[t.UID]
	o.mu.Unlock()
	if !before.due(j, now) {
		return
	}
	err := o.keepLog(ctx, t, j)
	if err != nil && ctx.Err() == nil {
		o.log.Warn("the logs of pods that are gone are in the listener alone", "name", t.Name, "error", err)
	}
	o.mu.Lock()
	o.logs[t.UID] = before.next(j, now, err)
	o.mu.Unlock()
}

// do carries out the verb of a decision.
func (o *operator) do(ctx context.Context, t *TrainingJob, j *Job, d Decision) error {
	switch d.Verb {
	case Nothing:
		return nil
	case Protect, Release:
		return o.api.protect(ctx, t, d.Verb == Protect)
	case Hold:
		return o.api.hold(ctx, t)
	case Delete:
		return o.api.remove(ctx, t)
	case Submit:
		return o.submit(ctx, t)
	}
	return o.jobs.act(ctx, j.Name, d)
}

// submit makes a job of a resource.
func (o *operator) submit(ctx context.Context, t *TrainingJob) error {
	f, err := t.Job()
	if err != nil {
		return err
	}
	var program []byte
	if t.Spec.ProgramFrom != nil {
		if program, err = o.api.program(ctx, t.Spec.ProgramFrom); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	return o.jobs.submit(ctx, f, program)
}

// note remembers why something has failed, for the status.
func (o *operator) note(t *TrainingJob, d Decision, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && d.Verb == Nothing && o.refused[t.UID].generation == t.Generation: // what has failed was not tried again
	case err == nil || apierrors.IsConflict(err):
		delete(o.refused, t.UID)
	default:
		o.refused[t.UID] = refusal{err.Error(), d.Verb == Submit && final(err), t.Generation}
	}
	if t.Status.finished() || t.DeletionTimestamp != nil && err == nil {
		delete(o.refused, t.UID)
	}
}

// final reports whether another attempt to submit the same job would fail, too.
func final(err error) bool {
	switch fault.KindOf(err) {
	case fault.InvalidProgram, fault.InvalidArgument, fault.TypeMismatch, fault.ShapeMismatch, fault.Unsupported, fault.Corrupt, fault.NotFound, fault.Denied, fault.TooLarge:
		return true
	}
	return false
}
