package kubernetes

import (
	"io"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
)

// Settings say what the pods of a listener have in common.
type Settings struct {
	Namespace string // of all objects
	Image     string // with the command edl, of the ops of this listener
	Name      string // of the listener in the namespace: objects that it finds there under this name are its own
	// Template is what pods have beside what roles need: node selector, tolerations, affinity, priority, volumes, service account, annotations. What it says of a
	// container named "edl" is for the role: environment, mounts, resources. nil: nothing.
	Template *corev1.PodTemplateSpec
	Etcd     map[string][]byte // of ReadAccess
	Allowed  AllowedPods       // what jobs may give their pods
	// Keep is a folder of the listener for the logs of its jobs, with which roles outlive it: the next listener of the name finds them. Empty: they end with it.
	Keep string
}

// DefaultName is the name of a listener that has none.
const DefaultName = "edl"

// objectName is what Kubernetes takes as a name and as a label.
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check refuses settings that no pod can have.
func (s Settings) Check() error {
	for _, name := range []struct{ of, value string }{{"--namespace", s.Namespace}, {"--kubernetes-name", s.Name}} {
		if !objectName.MatchString(name.value) {
			return fault.E(fault.InvalidArgument, fault.At(name.of), fault.Got(fault.Quote(name.value)), fault.Want("letters, digits and '-', at most 63"))
		}
	}
	if s.Image == "" {
		return fault.E(fault.InvalidArgument, fault.At("--image"), fault.Got("no image"), fault.Want("the image with edl that pods run"))
	}
	return nil
}

// maxTemplate bounds a file with a template in bytes.
const maxTemplate = 256 << 10

// ReadTemplate reads a PodTemplateSpec from a file, as YAML or JSON. Unknown fields are an error.
func ReadTemplate(path string) (*corev1.PodTemplateSpec, error) {
	f, size, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxTemplate {
		return nil, fault.E(fault.TooLarge, fault.At(path), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", maxTemplate))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTemplate))
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, path, err)
	}
	t := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict(b, t); err != nil {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Cause(err), fault.Want("a PodTemplateSpec: metadata and spec of a pod"))
	}
	return t, nil
}
