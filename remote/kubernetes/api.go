package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/edl-go/edl/fault"
)

// An api speaks to the API server about the objects of one namespace. It knows few groups, so that edl does not grow by all of them.
type api struct {
	namespace           string
	core, batch, policy *rest.RESTClient
}

// requestTime bounds a call.
const requestTime = 10 * time.Second

// LogTo sends what the client of the API server says by itself to a log: calls that wait for their turn, and warnings of the server. Else it writes to standard error, in a form of its own. It is
// called before the first client of the process is made.
func LogTo(log *slog.Logger) { klog.SetSlogLogger(log) }

// Config reads how to reach a cluster: from a file of kubectl, or, for "", from the environment as kubectl does, and in a pod from its service account. context names one of
// the file; for "" it is the current one. namespace is that of the context.
func Config(file, context string) (c *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if file != "" {
		rules.ExplicitPath = file
	}
	from := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	if c, err = from.ClientConfig(); err == nil {
		namespace, _, err = from.Namespace()
	}
	if err != nil {
		if context != "" && strings.Contains(err.Error(), strconv.Quote(context)) {
			return nil, "", fault.E(fault.InvalidArgument, fault.At("--context"), fault.Cause(err), fault.Want("one of the file of kubectl"))
		}
		if clientcmd.IsEmptyConfig(err) { // whose own words name a variable that this command has no use for
			return nil, "", fault.E(fault.InvalidArgument, fault.At("--kubeconfig"), fault.Got("no cluster"), fault.Want("a file of kubectl, or a pod with a service account"))
		}
		return nil, "", fault.E(fault.InvalidArgument, fault.At("--kubeconfig"), fault.Cause(err), fault.Want("a file of kubectl, or a pod with a service account"))
	}
	return c, namespace, nil
}

func newAPI(c *rest.Config, namespace string) (*api, error) {
	core, err := clientOf(c, corev1.SchemeGroupVersion, corev1.AddToScheme)
	batch, failed := clientOf(c, batchv1.SchemeGroupVersion, batchv1.AddToScheme)
	err = errors.Join(err, failed)
	policy, failed := clientOf(c, policyv1.SchemeGroupVersion, policyv1.AddToScheme)
	return &api{namespace: namespace, core: core, batch: batch, policy: policy}, errors.Join(err, failed)
}

// clientOf speaks to one group of the API server.
func clientOf(c *rest.Config, group schema.GroupVersion, types func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	err := types(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	own := rest.CopyConfig(c)
	own.APIPath, own.GroupVersion, own.NegotiatedSerializer = "/apis", &group, serializer.NewCodecFactory(scheme).WithoutConversion()
	if group.Group == "" {
		own.APIPath = "/api"
	}
	own.QPS, own.Burst = 50, 200 // a job of many roles begins at once
	client, failed := rest.RESTClientFor(own)
	return client, fault.Wrap(fault.InvalidArgument, "kubernetes", errors.Join(err, failed))
}

// refused is a refusal of the API server as a fault. A server that does not answer is Unavailable, as are refusals after which another try may help.
func refused(where string, err error) error {
	if err == nil {
		return nil
	}
	kind := fault.Unavailable
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized:
		kind = fault.Denied
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed:
		kind = fault.InvalidArgument
	case metav1.StatusReasonRequestEntityTooLarge:
		kind = fault.TooLarge
	case metav1.StatusReasonNotFound:
		kind = fault.NotFound
	}
	return fault.E(kind, fault.At(where), fault.Got("a refusal of the API server"), fault.Cause(err))
}

// make makes the objects of a role. Objects that are there are those of the same start.
func (a *api) make(ctx context.Context, where string, o *Objects) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	made := &batchv1.Job{}
	err := a.batch.Post().Namespace(a.namespace).Resource("jobs").Body(o.Job).Do(ctx).Into(made)
	if apierrors.IsAlreadyExists(err) {
		err = a.batch.Get().Namespace(a.namespace).Resource("jobs").Name(o.Job.Name).Do(ctx).Into(made)
	}
	if err != nil {
		return refused(where, err)
	}
	o.own(made.UID)
	for _, object := range []struct {
		resource string
		body     runtime.Object
	}{{"configmaps", o.ConfigMap}, {"secrets", o.Secret}} {
		err := a.core.Post().Namespace(a.namespace).Resource(object.resource).Body(object.body).Do(ctx).Error()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return errors.Join(refused(where, err), a.remove(context.WithoutCancel(ctx), o.Job.Name, 0))
		}
	}
	return nil
}

// remove deletes a Job, and lets the cluster delete what the Job owns. Its pod has the time that its template says to end, or, where grace is not negative, so many seconds.
func (a *api) remove(ctx context.Context, name string, grace int64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	behind := metav1.DeletePropagationBackground
	if grace >= 0 {
		// The grace of a Job is not that of its pods.
		err := a.core.Delete().Namespace(a.namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: LabelObject + "=" + name}, metav1.ParameterCodec).
			Body(&metav1.DeleteOptions{GracePeriodSeconds: &grace}).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return refused(name, err)
		}
	}
	err := a.batch.Delete().Namespace(a.namespace).Resource("jobs").Name(name).Body(&metav1.DeleteOptions{PropagationPolicy: &behind}).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return refused(name, err)
}

// job is a Job, nil if there is none.
func (a *api) job(ctx context.Context, name string) (*batchv1.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	j := &batchv1.Job{}
	err := a.batch.Get().Namespace(a.namespace).Resource("jobs").Name(name).Do(ctx).Into(j)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return j, refused(name, err)
}

// patchSecret replaces entries of the Secret of a role. It need not be read for that.
func (a *api) patchSecret(ctx context.Context, name string, data map[string][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	b, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fault.Wrap(fault.Internal, name, err)
	}
	return refused(name, a.core.Patch(types.MergePatchType).Namespace(a.namespace).Resource("secrets").Name(name).Body(b).Do(ctx).Error())
}

// jobs lists the Jobs of a selector.
func (a *api) jobs(ctx context.Context, selector string) (*batchv1.JobList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	list := &batchv1.JobList{}
	err := a.batch.Get().Namespace(a.namespace).Resource("jobs").VersionedParams(&metav1.ListOptions{LabelSelector: selector}, metav1.ParameterCodec).Do(ctx).Into(list)
	return list, refused("jobs of "+selector, err)
}

func (a *api) pods(ctx context.Context, selector string) (*corev1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	list := &corev1.PodList{}
	err := a.core.Get().Namespace(a.namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: selector}, metav1.ParameterCodec).Do(ctx).Into(list)
	return list, err
}

func (a *api) watchPods(ctx context.Context, selector, version string) (watch.Interface, error) {
	return a.core.Get().Namespace(a.namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: selector, ResourceVersion: version, Watch: true,
		AllowWatchBookmarks: true}, metav1.ParameterCodec).Watch(ctx)
}

// warning is what the cluster has warned of last about an object; empty: nothing.
func (a *api) warning(ctx context.Context, kind, name string) string {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	list := &corev1.EventList{}
	selector := "type=Warning,involvedObject.kind=" + kind + ",involvedObject.name=" + name
	err := a.core.Get().Namespace(a.namespace).Resource("events").VersionedParams(&metav1.ListOptions{FieldSelector: selector}, metav1.ParameterCodec).Do(ctx).Into(list)
	if err != nil {
		return ""
	}
	var last *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; last == nil || last.LastTimestamp.Before(&e.LastTimestamp) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return words(last.Reason, last.Message)
}
