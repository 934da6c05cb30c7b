package operator

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
)

// An api speaks to the API server about the TrainingJobs of a namespace.
type api struct {
	namespace string
	client    *rest.RESTClient
}

// requestTime bounds a call.
const requestTime = 10 * time.Second

func newAPI(c *rest.Config, namespace string) (*api, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(groupVersion.WithKind(Kind), &TrainingJob{})
	scheme.AddKnownTypeWithName(groupVersion.WithKind(Kind+"List"), &List{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	own := rest.CopyConfig(c)
	own.APIPath, own.GroupVersion, own.NegotiatedSerializer = "/apis", &groupVersion, serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentType = runtime.ContentTypeJSON // custom resources have no other
	own.QPS, own.Burst = 20, 100
	client, err := rest.RESTClientFor(own)
	return &api{namespace, client}, fault.Wrap(fault.InvalidArgument, "kubernetes", err)
}

// check finds out whether the API server knows the resource, and lets this process list it.
func (a *api) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := a.client.Get().Namespace(a.namespace).Resource(Resource).Param("limit", "1").Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return noDefinition(a.namespace)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fault.E(fault.Denied, fault.At("namespace "+a.namespace), fault.Cause(err), fault.Want("a service account that may read "+Resource))
	}
	return fault.E(fault.Unavailable, fault.At("namespace "+a.namespace), fault.Cause(err))
}

// patch merges a change into a resource, or into its status. The resource must be of the same version, where the change is to what others change, too.
func (a *api) patch(ctx context.Context, t *TrainingJob, subresource string, change map[string]any) error {
	b, err := json.Marshal(change)
	if err != nil {
		return fault.Wrap(fault.Internal, t.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	r := a.client.Patch(types.MergePatchType).Namespace(a.namespace).Resource(Resource).Name(t.Name).Body(b)
	if subresource != "" {
		r = r.SubResource(subresource)
	}
	return gone(r.Do(ctx).Error())
}

// gone ignores that a resource is not there any more: who has deleted it wanted that.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// protect adds the finalizer, or removes it.
func (a *api) protect(ctx context.Context, t *TrainingJob, on bool) error {
	list := slices.DeleteFunc(slices.Clone(t.Finalizers), func(f string) bool { return f == Finalizer })
	if on {
		list = append(list, Finalizer)
	}
	return a.patch(ctx, t, "", map[string]any{"metadata": map[string]any{"resourceVersion": t.ResourceVersion, "finalizers": list}})
}

func (a *api) hold(ctx context.Context, t *TrainingJob) error {
	return a.patch(ctx, t, "", map[string]any{"metadata": map[string]any{"resourceVersion": t.ResourceVersion}, "spec": map[string]any{"suspend": true}})
}

func (a *api) tell(ctx context.Context, t *TrainingJob, s *Status) error {
	return a.patch(ctx, t, "status", map[string]any{"metadata": map[string]any{"uid": t.UID}, "status": s})
}

func (a *api) remove(ctx context.Context, t *TrainingJob) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return gone(a.client.Delete().Namespace(a.namespace).Resource(Resource).Name(t.Name).Body(metav1.NewPreconditionDeleteOptions(string(t.UID))).Do(ctx).Error())
}

// program reads an entry of a ConfigMap.
func (a *api) program(ctx context.Context, from *ConfigMapKey) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	where := fault.At("ConfigMap " + from.ConfigMap)
	code := 0
	b, err := a.client.Get().AbsPath("/api/v1/namespaces", a.namespace, "configmaps", from.ConfigMap).Do(ctx).StatusCode(&code).Raw()
	switch {
	case err != nil && code == http.StatusNotFound:
		return nil, fault.E(fault.NotFound, where, fault.Got("no such object in the namespace "+a.namespace), fault.Hint("kubectl create configmap NAME --from-file=program.pb"))
	case err != nil:
		return nil, fault.E(fault.Unavailable, where, fault.Cause(err))
	}
	var m struct {
		BinaryData map[string][]byte `json:"binaryData"`
		Data       map[string]string `json:"data"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fault.Wrap(fault.Corrupt, "ConfigMap "+from.ConfigMap, err)
	}
	if program, ok := m.BinaryData[from.Key]; ok {
		return program, nil
	}
	if program, ok := m.Data[from.Key]; ok {
		return []byte(program), nil
	}
	return nil, fault.E(fault.NotFound, where, fault.Got("no key "+fault.Quote(from.Key)), fault.Want("the key under which the program is"))
}
