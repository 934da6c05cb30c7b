package kubernetes

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// container is the name of the container of a role.
const container = "edl"

// Ports of a pod. Pods have addresses of their own, so these are the same in all of them.
const (
	keeperPort = 7165 // TLS, for listeners
	healthPort = 7166 // grpc_health_v1 in clear text: a kubelet speaks nothing else
)

// Services of the health port.
const (
	alive = "liveness"  // the keeper of the role answers
	ready = "readiness" // the role was started
)

// Where a pod finds what the objects hold, and where it writes.
const (
	specDir         = "/etc/edl/role"
	secretDir       = "/etc/edl/secret"
	scratchDir      = "/tmp"
	terminationFile = corev1.TerminationMessagePathDefault
)

// The environment that tells the command of a pod where it runs.
const (
	addressEnv     = "EDL_POD_IP"
	specEnv        = "EDL_POD_ROLE"
	secretEnv      = "EDL_POD_SECRET"
	terminationEnv = "EDL_POD_TERMINATION"
)

const (
	user        = 65532    // nobody, as images without a system name it
	leastMemory = 64 << 20 // of a role whose memory is not counted
	leastCores  = 50       // thousandths: a server that computes nothing still answers
)

// podOf is the pod of a role: what the template of the settings says, what the job asks for, and over both what the role needs. It holds to the Pod Security Standard "restricted".
func podOf(s Settings, spec *job.RoleSpec, name string, labels map[string]string) (corev1.PodTemplateSpec, error) {
	t := corev1.PodTemplateSpec{}
	asked := jobspec.PodOf(spec)
	if err := s.Allowed.check(asked, s.Image); err != nil {
		return t, err
	}
	if s.Template != nil {
		t = *s.Template.DeepCopy()
	}
	all := maps.Clone(t.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	t.Labels = all
	p := &t.Spec
	no, yes, id, once := false, true, int64(user), corev1.FSGroupChangeOnRootMismatch // each time would let the group read private files of the volume
	p.RestartPolicy, p.AutomountServiceAccountToken, p.EnableServiceLinks = corev1.RestartPolicyNever, &no, &no
	if p.SecurityContext == nil {
		p.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, FSGroupChangePolicy: &once}
	}
	p.SecurityContext.RunAsNonRoot, p.SecurityContext.SeccompProfile = &yes, &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	// The keeper gives a role NodeStop to end in order. The kubelet then waits a little for the keeper.
	grace := int64((jobspec.DeadlinesOf(spec.Spec).NodeStop + 10*time.Second).Seconds())
	p.TerminationGracePeriodSeconds = &grace
	if len(p.TopologySpreadConstraints) == 0 {
		p.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spread(labels[LabelJob])}
	}
	mode := int32(0o440)
	at := slices.IndexFunc(p.Containers, func(c corev1.Container) bool { return c.Name == container })
	if at < 0 {
		p.Containers, at = slices.Insert(p.Containers, 0, corev1.Container{Name: container}), 0
	}
	image := cmp.Or(asked.Image, s.Image)
	if err := dress(&t, &p.Containers[at], asked); err != nil {
		return t, err
	}
	p.Volumes = append(p.Volumes,
		corev1.Volume{Name: "role", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
		corev1.Volume{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode}}},
		corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if spec.PlannedMemory > 0 {
		t.Annotations = under(map[string]string{annotationPlanned: resource.NewQuantity(mebibytes(spec.PlannedMemory), resource.BinarySI).String()}, t.Annotations)
	}
	roleIn(&p.Containers[at], image, spec)
	return t, nil
}

// mebibytes rounds bytes up to whole MiB, so that people can read them.
func mebibytes(n int64) int64 { return (n + 1<<20 - 1) &^ (1<<20 - 1) }

// spread lets the scheduler put the pods of a job on different nodes, where it can.
func spread(job string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelJob: job}}}
}

// roleIn makes a container run the role.
func roleIn(c *corev1.Container, image string, spec *job.RoleSpec) {
	no, yes := false, true
	c.Image = image
	c.Command, c.Args = []string{"edl"}, []string{"pod", "--", spec.Job, memberOf(spec).ID()}
	c.TerminationMessagePath = terminationFile
	c.Env = append(c.Env, corev1.EnvVar{Name: addressEnv, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}})
	for _, e := range [][2]string{{specEnv, specDir}, {secretEnv, secretDir}, {terminationEnv, terminationFile}, {"TMPDIR", scratchDir}} {
		c.Env = append(c.Env, corev1.EnvVar{Name: e[0], Value: e[1]})
	}
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: "role", MountPath: specDir, ReadOnly: true},
		corev1.VolumeMount{Name: "secret", MountPath: secretDir, ReadOnly: true},
		corev1.VolumeMount{Name: "scratch", MountPath: scratchDir})
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: "keeper", ContainerPort: keeperPort}, corev1.ContainerPort{Name: "health", ContainerPort: healthPort})
	c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	c.LivenessProbe, c.ReadinessProbe = probe(alive, 10, 6), probe(ready, 5, 3)
	requests(&c.Resources, spec)
}

func probe(service string, every, failures int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: healthPort, Service: &service}}, PeriodSeconds: every, FailureThreshold: failures, TimeoutSeconds: 5}
}

// requests asks for what the listener counts for the role, unless the template has said it. Memory that the user of the job has named is a limit, too; what follows
// from the program is only the least.
func requests(r *corev1.ResourceRequirements, spec *job.RoleSpec) {
	set := func(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		if _, said := (*list)[name]; !said {
			(*list)[name] = q
		}
	}
	set(&r.Requests, corev1.ResourceCPU, *resource.NewMilliQuantity(max(leastCores, spec.GetNeeds().GetMillicores()), resource.DecimalSI))
	set(&r.Requests, corev1.ResourceMemory, *resource.NewQuantity(cmp.Or(spec.GetNeeds().GetMemory(), leastMemory), resource.BinarySI))
	if said := jobspec.Said(spec).GetMemory(); said > 0 {
		set(&r.Limits, corev1.ResourceMemory, *resource.NewQuantity(said, resource.BinarySI))
	}
}
