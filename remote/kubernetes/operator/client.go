package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
)

// A Client asks the API server about the TrainingJobs of a namespace, and changes them, for a user of the cluster. It needs no listener: what a listener knows of a job is in the
// status of its TrainingJob. Each method takes as many rights as its comment names.
type Client struct{ api *api }

// NewClient returns a Client. It calls nothing.
func NewClient(c *rest.Config, namespace string) (*Client, error) {
	a, err := newAPI(c, namespace)
	return &Client{a}, err
}

// List returns the TrainingJobs of the namespace, the oldest first. It needs the verb list. In a namespace that is not there it fails, if it may read the namespace.
func (c *Client) List(ctx context.Context) ([]TrainingJob, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	list := &List{}
	if err := c.api.client.Get().Namespace(c.api.namespace).Resource(Resource).Do(ctx).Into(list); err != nil {
		return nil, c.refused(ctx, "", err)
	}
	slices.SortStableFunc(list.Items, func(a, b TrainingJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if len(list.Items) == 0 {
		return nil, c.noNamespace(ctx)
	}
	return list.Items, nil
}

// Get returns a TrainingJob. It needs the verb get.
func (c *Client) Get(ctx context.Context, name string) (*TrainingJob, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	t := &TrainingJob{}
	if err := c.api.client.Get().Namespace(c.api.namespace).Resource(Resource).Name(name).Do(ctx).Into(t); err != nil {
		return nil, c.refused(ctx, name, err)
	}
	return t, nil
}

// Scale says how many trainers a job is to have. It needs the verb patch of the subresource scale. The API server refuses a number outside of the bounds of the job.
func (c *Client) Scale(ctx context.Context, name string, trainers int) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := c.api.client.Patch(types.MergePatchType).Namespace(c.api.namespace).Resource(Resource).Name(name).SubResource("scale").Body(fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, trainers)).Do(ctx).Error()
	return c.refused(ctx, name, err)
}

// setSuspend says whether a job is to wait.
func (c *Client) setSuspend(ctx context.Context, name string, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return c.refused(ctx, name, c.api.client.Patch(types.MergePatchType).Namespace(c.api.namespace).Resource(Resource).Name(name).Body(fmt.Appendf(nil, `{"spec": {"suspend": %v}}`, on)).Do(ctx).Error())
}

// Suspend lets a job make a checkpoint, end its pods, and wait, and returns its TrainingJob when it does. It needs the verbs get and patch. A job that cannot make a checkpoint, or not until the deadline of ctx, goes
// on. When ctx ends otherwise, the job is suspended all the same.
func (c *Client) Suspend(ctx context.Context, name string) (*TrainingJob, error) {
	if err := c.mayWait(ctx, name); err != nil {
		return nil, err
	}
	if err := c.setSuspend(ctx, name, true); err != nil {
		return nil, err
	}
	t, err := c.await(ctx, name, func(t *TrainingJob) (bool, error) {
		held := t.Status.condition(Suspended)
		switch {
		case held != nil && held.Status == metav1.ConditionTrue && held.Reason != makesRoom:
			return true, nil
		case t.Status.Refused != nil:
			return false, fault.E(fault.InvalidArgument, fault.At(Kind+" "+name), fault.Got("a job that goes on: "+*t.Status.Refused))
		}
		return false, nil
	})
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, fault.NotFound) {
		err = errors.Join(err, c.setSuspend(context.WithoutCancel(ctx), name, false))
	}
	return t, err
}

// Resume lets a job go on that is suspended, and returns when its operator knows. It needs the verbs get and patch.
func (c *Client) Resume(ctx context.Context, name string) error {
	if err := c.mayWait(ctx, name); err != nil {
		return err
	}
	if err := c.setSuspend(ctx, name, false); err != nil {
		return err
	}
	_, err := c.await(ctx, name, func(t *TrainingJob) (bool, error) { return !t.Suspended(), nil })
	return err
}

// mayWait refuses a job that neither runs nor waits.
func (c *Client) mayWait(ctx context.Context, name string) error {
	t, err := c.Get(ctx, name)
	if err != nil || !t.Ended() {
		return err
	}
	e := fault.E(fault.InvalidArgument, fault.At(Kind+" "+name), fault.Got("one that has ended: "+t.Status.State), fault.Want("one that runs or waits"))
	if t.Status.Checkpoint != nil {
		e.Hint = "another TrainingJob goes on from its last checkpoint (resume: " + *t.Status.Checkpoint + ")"
	}
	return e
}

// await asks for a TrainingJob until something holds that its operator has said of the spec as it is now. One that ends before fails.
func (c *Client) await(ctx context.Context, name string, holds func(t *TrainingJob) (bool, error)) (*TrainingJob, error) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for state := ""; ; {
		t, err := c.Get(ctx, name)
		switch {
		case err != nil && !errors.Is(err, fault.Unavailable):
			return nil, err
		case err == nil && t.Ended():
			return nil, fault.E(fault.InvalidArgument, fault.At(Kind+" "+name), fault.Got("one that has ended meanwhile: "+t.Status.State))
		case err == nil:
			if state = cmp.Or(t.Status.State, "Pending"); t.Status.ObservedGeneration >= t.Generation {
				if ok, err := holds(t); ok || err != nil {
					return t, err
				}
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fault.E(fault.DeadlineExceeded, fault.At(Kind+" "+name), fault.Got("a job that is "+cmp.Or(state, "not known")), fault.Cause(context.Cause(ctx)), fault.Hint("\"edl why --kubernetes\" tells what it waits for"))
		}
	}
}

// look is how often a TrainingJob is asked for that is to change.
const look = 500 * time.Millisecond

// Stop deletes a TrainingJob, and returns when it is gone: its job has ended then. It needs the verbs get and delete. When ctx ends before, the deletion goes on.
func (c *Client) Stop(ctx context.Context, t *TrainingJob) error {
	call, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := c.api.client.Delete().Namespace(c.api.namespace).Resource(Resource).Name(t.Name).Body(metav1.NewPreconditionDeleteOptions(string(t.UID))).Do(call).Error()
	if err != nil {
		return c.refused(ctx, t.Name, err)
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		have, err := c.Get(ctx, t.Name)
		switch {
		case errors.Is(err, fault.NotFound) || err == nil && have.UID != t.UID:
			return nil
		case err != nil && !errors.Is(err, fault.Unavailable):
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fault.E(fault.DeadlineExceeded, fault.At(Kind+" "+t.Name), fault.Got("a job that has not ended yet"), fault.Cause(context.Cause(ctx)),
				fault.Hint("it ends when its operator (edl operator) has stopped it; the cluster keeps it until then"))
		}
	}
}

// refused is why the API server does not do something, with what to do. name is that of a TrainingJob; empty: of all.
func (c *Client) refused(ctx context.Context, name string, err error) error {
	where := "namespace " + c.api.namespace
	if name != "" {
		where = Kind + " " + name
	}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fault.E(fault.Denied, fault.At(where), fault.Cause(err), fault.Hint("who runs the cluster gives the right: the Roles edl-viewer and edl-submitter of the chart have it"))
	case apierrors.IsUnauthorized(err):
		return fault.E(fault.Denied, fault.At(where), fault.Cause(err), fault.Want("a user whom the cluster knows"), fault.Hint("see the users of the file of kubectl (--kubeconfig), and its context (--context)"))
	case apierrors.IsNotFound(err) && errors.As(err, &status) && name != "" && status.Status().Details != nil && status.Status().Details.Name == name:
		if gone := c.noNamespace(ctx); gone != nil {
			return gone
		}
		return fault.E(fault.NotFound, fault.At(where), fault.Got("none of that name in the namespace "+c.api.namespace), fault.Hint("\"edl jobs --kubernetes\" lists those of a namespace (--namespace)"))
	case apierrors.IsNotFound(err):
		return noDefinition(c.api.namespace)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Cause(err))
	case apierrors.IsConflict(err):
		return fault.E(fault.Unavailable, fault.At(where), fault.Cause(err), fault.Hint("it was changed meanwhile: try again"))
	}
	if !errors.As(err, &status) {
		return fault.E(fault.Unavailable, fault.At(where), fault.Got("an API server that does not answer"), fault.Cause(err), fault.Hint("--kubeconfig and --context say which it is"))
	}
	return fault.E(fault.Unavailable, fault.At(where), fault.Cause(err))
}

// noNamespace is a fault if the namespace is not there. The API server lists nothing then, and does not say so. Who may not read the namespace does not learn it.
func (c *Client) noNamespace(ctx context.Context) error {
	if err := c.api.client.Get().AbsPath("/api/v1/namespaces", c.api.namespace).Do(ctx).Error(); !apierrors.IsNotFound(err) {
		return nil
	}
	return missingNamespace(c.api.namespace)
}

func missingNamespace(name string) error {
	return fault.E(fault.NotFound, fault.At("namespace "+name), fault.Got("a cluster without it"), fault.Want("--namespace NAME"), fault.Hint("\"kubectl create namespace "+name+"\" makes it"))
}

// noDefinition is the fault of a cluster that does not know TrainingJobs.
func noDefinition(namespace string) error {
	return fault.E(fault.NotFound, fault.At("namespace "+namespace), fault.Got("a cluster without the resource "+Kind), fault.Want("its definition"), fault.Hint("edl operator --crd | kubectl apply -f -"))
}

// Chosen is the TrainingJob that a command without a name means: the only one whose job has not ended, or else the newest. list is in the order of List.
func Chosen(list []TrainingJob) (*TrainingJob, error) {
	var running []string
	one := len(list) - 1
	for i := range list {
		if !list[i].Ended() {
			running, one = append(running, list[i].Name), i
		}
	}
	switch {
	case len(list) == 0:
		return nil, fault.E(fault.NotFound, fault.Got("a namespace without a "+Kind), fault.Want("one"), fault.Hint("\"edl submit -f FILE --kubernetes\" makes one"))
	case len(running) > 1:
		return nil, fault.E(fault.InvalidArgument, fault.Got("several TrainingJobs that have not ended: "+strings.Join(running, ", ")), fault.Want("the name of one"))
	}
	return &list[one], nil
}

// Ended reports whether the job of a TrainingJob has ended.
func (t *TrainingJob) Ended() bool { return t.Status.finished() }

// Suspended reports whether the job of a TrainingJob waits without pods that run.
func (t *TrainingJob) Suspended() bool { return t.Status.is(Suspended) }
