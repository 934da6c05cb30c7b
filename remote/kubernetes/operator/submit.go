package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

const (
	programKey = "program.pb"
	// maxProgram is how many bytes of a program a ConfigMap takes.
	maxProgram = 1 << 20
)

// A Submission is a TrainingJob of a job file, with the ConfigMap that has its program. The TrainingJob owns the ConfigMap, which goes with it.
type Submission struct {
	Name      string
	ConfigMap *corev1.ConfigMap
	Job       map[string]any // as JSON has it, without a status
}

// NewSubmission makes the objects of a job file, which names the job. program takes the place of the path that the file names. An empty namespace is that of who creates the objects.
func NewSubmission(namespace string, file, program []byte) (*Submission, error) {
	read, err := jobspec.Parse("job file", file)
	if err != nil {
		return nil, err
	}
	name := read.Spec.Name
	switch {
	case name == "":
		return nil, fault.E(fault.InvalidArgument, fault.At("job file"), fault.Got("no name"), fault.Want("name: NAME, which the TrainingJob has"))
	case len(program) > maxProgram:
		return nil, fault.E(fault.TooLarge, fault.At("job "+name), fault.Gotf("a program of %d bytes", len(program)), fault.Wantf("at most %d, which a ConfigMap takes", maxProgram),
			fault.Hint("apply a TrainingJob whose program is a path of the operator"))
	}
	spec := map[string]any{}
	if err := yaml.Unmarshal(file, &spec); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, "job file", err)
	}
	asTexts(spec, "labels", read.Spec.Labels)
	for field, p := range map[string]*job.Pod{"pod": read.Spec.Pod, "trainer_pod": read.Spec.TrainerPod, "pserver_pod": read.Spec.PserverPod} {
		if of, ok := spec[field].(map[string]any); ok {
			asTexts(of, "env", p.GetEnv())
			asTexts(of, "nodeSelector", p.GetNodeSelector())
			asTexts(of, "annotations", p.GetAnnotations())
		}
	}
	delete(spec, "name")
	delete(spec, "program")
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name + "-program", Namespace: namespace},
		BinaryData: map[string][]byte{programKey: program}}
	spec["programFrom"] = map[string]any{"configMap": m.Name, "key": programKey}
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return &Submission{Name: name, ConfigMap: m, Job: map[string]any{"apiVersion": Group + "/" + Version, "kind": Kind, "metadata": meta, "spec": spec}}, nil
}

// asTexts gives a field the texts that a job file has for it. A number is a text there, and not for the API server.
func asTexts(of map[string]any, field string, texts map[string]string) {
	if of[field] != nil {
		of[field] = texts
	}
}

// YAML writes the objects as kubectl reads them.
func (s *Submission) YAML() ([]byte, error) {
	var all [][]byte
	for _, object := range []any{s.ConfigMap, s.Job} {
		b, err := yaml.Marshal(object)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, s.Name, err)
		}
		all = append(all, b)
	}
	return bytes.Join(all, []byte("---\n")), nil
}

// Create makes the objects in a namespace. If the TrainingJob is refused, nothing is left.
func (s *Submission) Create(ctx context.Context, c *rest.Config, namespace string) error {
	a, err := newAPI(c, namespace)
	if err != nil {
		return err
	}
	if err := a.check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resource, err := json.Marshal(s.Job)
	if err != nil {
		return fault.Wrap(fault.Internal, s.Name, err)
	}
	m := s.ConfigMap.DeepCopy()
	m.Namespace = namespace
	program, err := json.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.Internal, s.Name, err)
	}
	maps := []string{"/api/v1/namespaces", namespace, "configmaps"}
	if err := a.client.Post().AbsPath(maps...).SetHeader("Content-Type", "application/json").Body(program).Do(ctx).Error(); err != nil {
		return notMade(namespace, "ConfigMap "+m.Name, err)
	}
	one := a.client.Delete().AbsPath(append(maps, m.Name)...)
	var made TrainingJob
	if err := a.client.Post().Namespace(namespace).Resource(Resource).Param("fieldValidation", "Strict").Body(resource).Do(ctx).Into(&made); err != nil {
		_ = one.Do(context.WithoutCancel(ctx)).Error() // the refusal of the job says more
		return notMade(namespace, Kind+" "+s.Name, err)
	}
	owned := fmt.Appendf(nil, `{"metadata": {"ownerReferences": [{"apiVersion": "%s/%s", "kind": %q, "name": %q, "uid": %q}]}}`, Group, Version, Kind, s.Name, made.UID)
	if err := a.client.Patch(types.MergePatchType).AbsPath(append(maps, m.Name)...).Body(owned).Do(ctx).Error(); err != nil {
		return fault.E(fault.Unavailable, fault.At("ConfigMap "+m.Name), fault.Got("a ConfigMap that stays when its TrainingJob, which is there, is deleted"), fault.Cause(err))
	}
	return nil
}

// notMade is why an object was refused, in the words of the API server.
func notMade(namespace, what string, err error) error {
	kind := fault.Unavailable
	switch {
	case apierrors.IsNotFound(err):
		return missingNamespace(namespace)
	case apierrors.IsAlreadyExists(err):
		return fault.E(fault.InvalidArgument, fault.At(what), fault.Cause(err), fault.Want("another name"), fault.Hint("\"kubectl delete tj/NAME\" removes a job of the name, with its program"))
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		kind = fault.Denied
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		kind = fault.InvalidArgument
	}
	return fault.E(kind, fault.At(what), fault.Cause(err))
}
