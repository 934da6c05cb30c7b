package kubernetes

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/edl-go/edl/fault"
)

// An api speaks to the API server about the objects of one namespace. It knows two groups, so that edl does not grow by all of them.
type api struct {
	namespace   string
	core, batch *rest.RESTClient
}

// requestTime bounds a call.
const requestTime = 10 * time.Second

// Config reads how to reach a cluster: from a file of kubectl, or, for "", from the environment as kubectl does, and in a pod from its service account. namespace is
// that of its context.
func Config(file string) (c *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if file != "" {
		rules.ExplicitPath = file
	}
	from := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	if c, err = from.ClientConfig(); err == nil {
		namespace, _, err = from.Namespace()
	}
	if err != nil {
		return nil, "", fault.E(fault.InvalidArgument, fault.At("--kubeconfig"), fault.Cause(err), fault.Want("a file of kubectl, or a pod with a service account"))
	}
	return c, namespace, nil
}

func newAPI(c *rest.Config, namespace string) (*api, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	of := func(path string, group schema.GroupVersion) *rest.RESTClient {
		own := rest.CopyConfig(c)
		own.APIPath, own.GroupVersion, own.NegotiatedSerializer = path, &group, codecs
		own.QPS, own.Burst = 50, 200 // a job of many roles begins at once
		client, failed := rest.RESTClientFor(own)
		err = errors.Join(err, failed)
		return client
	}
	a := &api{namespace: namespace, core: of("/api", corev1.SchemeGroupVersion), batch: of("/apis", batchv1.SchemeGroupVersion)}
	return a, fault.Wrap(fault.InvalidArgument, "kubernetes", err)
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
