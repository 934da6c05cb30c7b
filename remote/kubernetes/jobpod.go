package kubernetes

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// AllowedPods are what jobs may give their pods, as patterns of path.Match by kind. What has no kind, jobs may choose: labels of nodes, affinity, environment and empty folders.
type AllowedPods map[string][]string

// Kinds of AllowedPods.
const (
	allowImage      = "image"
	allowAccount    = "serviceaccount"
	allowPriority   = "priorityclass"
	allowClaim      = "claim"
	allowSecret     = "secret"
	allowConfigMap  = "configmap"
	allowAnnotation = "annotation" // by key; some give rights
	allowToleration = "toleration" // by the key of the taint; one without a key has the name "*"
)

var allowKinds = []string{allowImage, allowAccount, allowPriority, allowClaim, allowSecret, allowConfigMap, allowAnnotation, allowToleration}

// AllowFlag is the flag of a listener that names what jobs may give their pods.
const AllowFlag = "--allow-pods"

// ParseAllowedPods reads entries KIND=PATTERN.
func ParseAllowedPods(entries []string) (AllowedPods, error) {
	a := AllowedPods{}
	for _, e := range entries {
		kind, pattern, _ := strings.Cut(e, "=")
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || !slices.Contains(allowKinds, kind) {
			return nil, fault.E(fault.InvalidArgument, fault.At(AllowFlag), fault.Got(fault.Quote(e)), fault.Want("KIND=PATTERN, such as claim=data-*, with one of the kinds "+strings.Join(allowKinds, ", ")))
		}
		a[kind] = append(a[kind], pattern)
	}
	return a, nil
}

// allows reports whether jobs may name something.
func (a AllowedPods) allows(kind, name string) bool {
	return slices.ContainsFunc(a[kind], func(pattern string) bool {
		if kind == allowImage || kind == allowAnnotation { // their names have slashes
			pattern, name = strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00")
		}
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// check refuses a pod with what jobs may not name. own is the image of the listener, which they may.
func (a AllowedPods) check(p *job.Pod, own string) error {
	type named struct{ kind, name string }
	var all []named
	if p.Image != own {
		all = append(all, named{allowImage, p.Image})
	}
	all = append(all, named{allowAccount, p.ServiceAccount}, named{allowPriority, p.PriorityClass})
	for _, v := range p.Volumes {
		all = append(all, named{allowClaim, v.Claim}, named{allowSecret, v.Secret}, named{allowConfigMap, v.ConfigMap})
	}
	for _, from := range p.EnvFrom {
		kind, name, _ := strings.Cut(from, "/")
		all = append(all, named{kind, name})
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		all = append(all, named{allowAnnotation, key})
	}
	for _, t := range p.Tolerations {
		all = append(all, named{allowToleration, cmp.Or(t.Key, "*")})
	}
	for _, n := range all {
		if n.name != "" && !a.allows(n.kind, n.name) {
			return fault.E(fault.Denied, fault.At("job"), fault.Got("pods with the "+n.kind+" "+fault.Quote(n.name)), fault.Want("what the listener lets jobs give their pods"),
				fault.Hint("who runs the listener allows it with "+AllowFlag+" "+n.kind+"="+n.name))
		}
	}
	return nil
}

// CheckPods refuses a job whose pods this listener cannot make, before anything of it starts.
func (l *Launcher) CheckPods(spec *job.JobSpec) error {
	for _, role := range []job.Role{job.Role_COORDINATOR, job.Role_PSERVER, job.Role_TRAINER} {
		if _, err := podOf(l.settings, &job.RoleSpec{Job: "job", Role: role, Spec: spec}, "", nil); err != nil {
			return err
		}
	}
	return nil
}

// dress gives a pod what its job asks for. Where the template of the listener says something, too, that counts: it may keep jobs to some nodes.
func dress(t *corev1.PodTemplateSpec, c *corev1.Container, asked *job.Pod) error {
	p := &t.Spec
	t.Annotations = under(t.Annotations, asked.Annotations)
	p.NodeSelector = under(p.NodeSelector, asked.NodeSelector)
	p.ServiceAccountName = cmp.Or(asked.ServiceAccount, p.ServiceAccountName)
	p.PriorityClassName = cmp.Or(asked.PriorityClass, p.PriorityClassName)
	for _, a := range asked.Tolerations {
		p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: a.Key, Operator: corev1.TolerationOperator(a.Operator), Value: a.Value, Effect: corev1.TaintEffect(a.Effect), TolerationSeconds: a.Seconds})
	}
	if asked.Affinity != "" {
		if p.Affinity != nil {
			return fault.E(fault.Denied, fault.At("job"), fault.Got("pods with an affinity, at a listener whose template has one"), fault.Want("a nodeSelector"))
		}
		p.Affinity = &corev1.Affinity{}
		if err := yaml.UnmarshalStrict([]byte(asked.Affinity), p.Affinity); err != nil {
			return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("affinity"), fault.Cause(err), fault.Want("an Affinity of Kubernetes"))
		}
	}
	var env []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(asked.Env)) {
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name }) {
			// Kubernetes would put other variables in the place of $(NAME), and "$" in that of "$$".
			env = append(env, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(asked.Env[name], "$", "$$")})
		}
	}
	c.Env = append(env, c.Env...)
	var from []corev1.EnvFromSource
	for _, of := range asked.EnvFrom {
		kind, name, _ := strings.Cut(of, "/")
		ref := corev1.LocalObjectReference{Name: name}
		if kind == allowSecret {
			from = append(from, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}})
		} else {
			from = append(from, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}})
		}
	}
	c.EnvFrom = append(from, c.EnvFrom...) // of two that have a name, the last one counts
	for i, v := range asked.Volumes {
		for _, m := range c.VolumeMounts {
			if within(v.MountPath, m.MountPath) || within(m.MountPath, v.MountPath) {
				return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("a volume at "+v.MountPath+", where pods have one at "+m.MountPath), fault.Want("another mountPath"))
			}
		}
		name := "job-" + strconv.Itoa(i)
		p.Volumes = append(p.Volumes, corev1.Volume{Name: name, VolumeSource: sourceOf(v)})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: v.MountPath, SubPath: v.SubPath, ReadOnly: v.ReadOnly})
	}
	return nil
}

// sourceOf is where a volume is from. The kinds that there are hold to the Pod Security Standard "restricted".
func sourceOf(v *job.PodVolume) (s corev1.VolumeSource) {
	mode := int32(0o440)
	switch {
	case v.Claim != "":
		s.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Claim, ReadOnly: v.ReadOnly}
	case v.Secret != "":
		s.Secret = &corev1.SecretVolumeSource{SecretName: v.Secret, DefaultMode: &mode}
	case v.ConfigMap != "":
		s.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMap}, DefaultMode: &mode}
	default:
		s.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(v.Scratch, resource.BinarySI)}
	}
	return s
}

// within reports whether a path is another one, or lies below it.
func within(p, of string) bool {
	return p == of || strings.HasPrefix(p, strings.TrimSuffix(of, "/")+"/")
}

// under is a map with another one below it.
func under(over, below map[string]string) map[string]string {
	if len(below) == 0 {
		return over
	}
	all := maps.Clone(below)
	maps.Copy(all, over)
	return all
}
