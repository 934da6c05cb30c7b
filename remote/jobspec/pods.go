package jobspec

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// pod is what a job file says of pods. Fields that Kubernetes has, too, have its names. There is none for what the Pod Security Standard "restricted" forbids.
type pod struct {
	Image          string            `yaml:"image" doc:"with the same build of edl; empty: that of the listener"`
	NodeSelector   map[string]string `yaml:"nodeSelector" doc:"labels that nodes must have"`
	Tolerations    []toleration      `yaml:"tolerations" doc:"taints of nodes that pods bear"`
	Affinity       map[string]any    `yaml:"affinity" doc:"an Affinity of Kubernetes"`
	PriorityClass  string            `yaml:"priorityClassName" doc:"PriorityClass of Kubernetes"`
	ServiceAccount string            `yaml:"serviceAccountName" doc:"ServiceAccount of the namespace, as for buckets; pods get no token of the API server"`
	Annotations    map[string]string `yaml:"annotations" doc:"of pods"`
	Env            map[string]string `yaml:"env" doc:"environment of the role"`
	EnvFrom        []string          `yaml:"envFrom" doc:"secret/NAME or configmap/NAME, whose entries are environment, too"`
	Volumes        []podVolume       `yaml:"volumes" doc:"folders of the role; each has one of claim, configMap, secret and scratchMiB"`
}

type toleration struct {
	Key      string `yaml:"key" doc:"of the taint; empty: every one, with Exists"`
	Operator string `yaml:"operator" one:"Equal Exists" doc:"default Equal"`
	Value    string `yaml:"value" doc:"of the taint, with Equal"`
	Effect   string `yaml:"effect" one:"NoSchedule PreferNoSchedule NoExecute" doc:"absent: every one"`
	Seconds  *int64 `yaml:"tolerationSeconds" doc:"for which pods stay with NoExecute; absent: for ever"`
}

type podVolume struct {
	Claim      string `yaml:"claim" doc:"a persistent volume claim"`
	ConfigMap  string `yaml:"configMap" doc:"one of the namespace"`
	Secret     string `yaml:"secret" doc:"one of the namespace"`
	ScratchMiB int64  `yaml:"scratchMiB" doc:"size of an empty folder"`
	MountPath  string `yaml:"mountPath" doc:"below /data, /home, /mnt or /srv"`
	SubPath    string `yaml:"subPath" doc:"folder of the claim; empty: all of it"`
	ReadOnly   bool   `yaml:"readOnly" doc:"the role does not write there"`
}

// Bounds of a Pod.
const (
	maxPodList  = 32       // entries of each list
	maxPodText  = 4096     // bytes of a text
	maxAffinity = 16 << 10 // bytes of an Affinity as JSON
	maxScratch  = 1 << 40  // bytes of an empty folder
)

var (
	objectName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	imageName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$`)
	qualifiedName  = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	nodeLabelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	envName        = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)
	envSource      = regexp.MustCompile(`^(secret|configmap)/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	// mountPath keeps volumes from what the image and EDL have: a program could otherwise take the place of edl.
	mountPath = regexp.MustCompile(`^/(data|home|mnt|srv)(/[A-Za-z0-9._-]+){0,16}$`)
)

// message is the pod of a JobSpec; nil for nil.
func (p *pod) message() (*job.Pod, error) {
	if p == nil {
		return nil, nil
	}
	m := &job.Pod{Image: p.Image, NodeSelector: p.NodeSelector, PriorityClass: p.PriorityClass, ServiceAccount: p.ServiceAccount, Annotations: p.Annotations, Env: p.Env, EnvFrom: p.EnvFrom}
	if p.Affinity != nil {
		b, err := json.Marshal(p.Affinity)
		if err != nil {
			return nil, fault.E(fault.InvalidArgument, fault.At("affinity"), fault.Cause(err), fault.Want("an Affinity of Kubernetes"))
		}
		m.Affinity = string(b)
	}
	for _, t := range p.Tolerations {
		m.Tolerations = append(m.Tolerations, &job.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect, Seconds: t.Seconds})
	}
	for _, v := range p.Volumes {
		if v.ScratchMiB < 0 || v.ScratchMiB > maxScratch>>20 {
			return nil, fault.E(fault.InvalidArgument, fault.At("volumes"), fault.Gotf("scratchMiB %d", v.ScratchMiB), fault.Wantf("1 to %d", int64(maxScratch)>>20))
		}
		m.Volumes = append(m.Volumes, &job.PodVolume{Claim: v.Claim, ConfigMap: v.ConfigMap, Secret: v.Secret, Scratch: v.ScratchMiB << 20, MountPath: v.MountPath, SubPath: v.SubPath, ReadOnly: v.ReadOnly})
	}
	return m, nil
}

// podsOf are the pods that a job says something of, by field.
func podsOf(s *job.JobSpec) iter.Seq2[string, *job.Pod] {
	return func(yield func(string, *job.Pod) bool) {
		for _, of := range []struct {
			field string
			pod   *job.Pod
		}{{"pod", s.Pod}, {"trainer_pod", s.TrainerPod}, {"pserver_pod", s.PserverPod}} {
			if of.pod != nil && !yield(of.field, of.pod) {
				return
			}
		}
	}
}

// HasPods reports whether a job says something of pods, which only a listener on Kubernetes has.
func HasPods(s *job.JobSpec) bool {
	return s.GetPod() != nil || s.GetTrainerPod() != nil || s.GetPserverPod() != nil
}

// Pods returns what a job says of the pods of a trainer, of a pserver or standby, and of the coordinator: for all of them together, and for these. It never is nil.
func Pods(s *job.JobSpec) (trainer, pserver, coordinator *job.Pod) {
	return overPod(s.GetPod(), s.GetTrainerPod()), overPod(s.GetPod(), s.GetPserverPod()), overPod(s.GetPod(), nil)
}

// PodOf returns what a job says of the pod of a role.
func PodOf(spec *job.RoleSpec) *job.Pod {
	trainer, pserver, coordinator := Pods(spec.GetSpec())
	switch spec.GetRole() {
	case job.Role_TRAINER:
		return trainer
	case job.Role_PSERVER, job.Role_STANDBY:
		return pserver
	default:
		return coordinator
	}
}

// overPod is a pod with another one over it: texts and entries of maps take the place of earlier ones, and lists follow them.
func overPod(under, over *job.Pod) *job.Pod {
	m := &job.Pod{}
	if under != nil {
		m = proto.CloneOf(under)
	}
	if over == nil {
		return m
	}
	proto.Merge(m, over) // which does just that
	return m
}

// wrongPod is the first mistake in what a job says of pods; nil: there is none. Texts of Kubernetes are checked as its API server does, so that a job is refused, and not its pods.
func wrongPod(field string, p *job.Pod) *fault.Fault {
	wrong := func(what, got, want string) *fault.Fault {
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got(field+"."+what+" "+got), fault.Want(want))
	}
	for what, n := range map[string]int{"nodeSelector": len(p.NodeSelector), "tolerations": len(p.Tolerations), "annotations": len(p.Annotations), "env": len(p.Env), "envFrom": len(p.EnvFrom), "volumes": len(p.Volumes)} {
		if n > maxPodList {
			return wrong(what, fmt.Sprintf("with %d entries", n), fmt.Sprintf("at most %d", maxPodList))
		}
	}
	if p.Image != "" && !imageName.MatchString(p.Image) {
		return wrong("image", fault.Quote(p.Image), "such as registry.example/edl:1")
	}
	for what, name := range map[string]string{"priorityClassName": p.PriorityClass, "serviceAccountName": p.ServiceAccount} {
		if name != "" && !objectName.MatchString(name) {
			return wrong(what, fault.Quote(name), "the name of an object of Kubernetes")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		if !qualifiedName.MatchString(key) || !nodeLabelValue.MatchString(p.NodeSelector[key]) {
			return wrong("nodeSelector", fault.Quote(key)+": "+fault.Quote(p.NodeSelector[key]), "a label of nodes")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if !qualifiedName.MatchString(key) || len(p.Annotations[key]) > maxPodText {
			return wrong("annotations", fault.Quote(key), "such as example.org/name, with at most 4096 bytes")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		switch {
		case !envName.MatchString(name) || len(p.Env[name]) > maxPodText:
			return wrong("env", fault.Quote(name), "letters, digits and '_', with at most 4096 bytes")
		case strings.HasPrefix(name, "EDL_") || name == "TMPDIR":
			return wrong("env", fault.Quote(name), "another name: this one is EDL's")
		}
	}
	for _, from := range p.EnvFrom {
		if !envSource.MatchString(from) {
			return wrong("envFrom", fault.Quote(from), "secret/NAME or configmap/NAME")
		}
	}
	if len(p.Affinity) > maxAffinity {
		return wrong("affinity", "of more bytes", "at most 16 KiB as JSON")
	}
	for _, t := range p.Tolerations {
		if what, want := wrongToleration(t); what != "" {
			return wrong("tolerations", what, want)
		}
	}
	seen := map[string]bool{}
	for _, v := range p.Volumes {
		if what, want := wrongVolume(v); what != "" {
			return wrong("volumes", what, want)
		}
		if seen[v.MountPath] {
			return wrong("volumes", "twice at "+v.MountPath, "a place for each")
		}
		seen[v.MountPath] = true
	}
	return nil
}

func wrongToleration(t *job.Toleration) (got, want string) {
	switch {
	case t.Key != "" && !qualifiedName.MatchString(t.Key):
		return "with the key " + fault.Quote(t.Key), "the key of a taint"
	case !nodeLabelValue.MatchString(t.Value):
		return "with the value " + fault.Quote(t.Value), "the value of a taint"
	case !slices.Contains([]string{"", "Equal", "Exists"}, t.Operator):
		return "with the operator " + fault.Quote(t.Operator), "Equal or Exists"
	case t.Key == "" && t.Operator != "Exists", t.Value != "" && t.Operator == "Exists":
		return "with the key " + fault.Quote(t.Key) + " and the value " + fault.Quote(t.Value), "a key with Equal, and no value with Exists"
	case !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect):
		return "with the effect " + fault.Quote(t.Effect), "NoSchedule, PreferNoSchedule or NoExecute"
	case t.Seconds != nil && t.Effect != "NoExecute":
		return "with tolerationSeconds", "it with the effect NoExecute"
	}
	return "", ""
}

func wrongVolume(v *job.PodVolume) (got, want string) {
	sources := 0
	for _, name := range []string{v.Claim, v.ConfigMap, v.Secret} {
		if name == "" {
			continue
		}
		if sources++; !objectName.MatchString(name) {
			return "of " + fault.Quote(name), "the name of an object of Kubernetes"
		}
	}
	if v.Scratch != 0 {
		sources++
	}
	switch {
	case sources != 1 || v.Scratch < 0 || v.Scratch > maxScratch:
		return "at " + fault.Quote(v.MountPath), "one of claim, configMap, secret and scratchMiB, up to 1 TiB"
	case !mountPath.MatchString(v.MountPath) || path.Clean(v.MountPath) != v.MountPath:
		return "at " + fault.Quote(v.MountPath), "mountPath below /data, /home, /mnt or /srv"
	case v.SubPath != "" && (v.Claim == "" || path.IsAbs(v.SubPath) || path.Clean(v.SubPath) != v.SubPath || strings.HasPrefix(v.SubPath, "..") || len(v.SubPath) > maxPodText):
		return "with subPath " + fault.Quote(v.SubPath), "a folder of a claim"
	}
	return "", ""
}
