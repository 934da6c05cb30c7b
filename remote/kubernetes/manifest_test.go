package kubernetes_test

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/kubernetes"
)

var update = flag.Bool("update", false, "write the golden files anew")

// specOf is what a listener would give to a role.
func specOf(role job.Role, index uint32) *job.RoleSpec {
	cores := int64(2000)
	return &job.RoleSpec{Job: "digits", Role: role, Index: index, Start: 1, CheckpointRun: "digits-20260102T030405", Program: []byte("program"), Credentials: []byte("secret"),
		EtcdCredentials: []byte("another secret"), Spec: &job.JobSpec{Trainers: 2, Pservers: 2, TrainerNeeds: &job.Needs{Memory: 1 << 30}},
		Needs: &job.Needs{Millicores: &cores, Memory: 1 << 30}, PlannedMemory: 300<<20 - 1}
}

// The objects of a role are as the golden files say, which a person has read.
func TestObjects(t *testing.T) {
	template, err := kubernetes.ReadTemplate("testdata/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := kubernetes.Settings{Namespace: "team-a", Image: "registry.example/edl:1", Name: "edl"}
	dressed := plain
	dressed.Template, dressed.Etcd = template, map[string][]byte{"etcd-user": []byte("edl"), "etcd-password": []byte("secret")}
	asking := specOf(job.Role_TRAINER, 0)
	asking.Spec.Pod = &job.Pod{NodeSelector: map[string]string{"kubernetes.io/arch": "arm64", "pool": "spot"}, Env: map[string]string{"AWS_REGION": "mars", "COST": "$(POD) $5"},
		Affinity: `{"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}}`}
	seconds := int64(60)
	asking.Spec.TrainerPod = &job.Pod{Image: "registry.example/edl-avx:1", Annotations: map[string]string{"example.org/team": "b", "example.org/job": "digits"}, ServiceAccount: "reader", PriorityClass: "high",
		Tolerations: []*job.Toleration{{Key: "spot", Operator: "Exists", Effect: "NoExecute", Seconds: &seconds}}, EnvFrom: []string{"secret/bucket", "configmap/settings"},
		Volumes: []*job.PodVolume{{Claim: "records", MountPath: "/mnt/records", SubPath: "a", ReadOnly: true}, {Scratch: 1 << 30, MountPath: "/mnt/cache"}, {Secret: "bucket", MountPath: "/mnt/keys"}, {ConfigMap: "settings", MountPath: "/srv/settings"}}}
	for _, c := range []struct {
		name     string
		settings kubernetes.Settings
		spec     *job.RoleSpec
	}{
		{"trainer-asks", allowing(t, dressed, "image=registry.example/*", "annotation=example.org/*", "serviceaccount=reader", "priorityclass=high", "toleration=spot", "secret=bucket", "configmap=settings", "claim=rec*"), asking},
		{"trainer", plain, specOf(job.Role_TRAINER, 1)},
		{"pserver-template", dressed, specOf(job.Role_PSERVER, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := kubernetes.NewObjects(c.settings, c.spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(got, []byte("c2VjcmV0")) {
				t.Error("a secret is in the manifests")
			}
			path := filepath.Join("testdata", c.name+".yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// How gzip compresses may change with a version of Go.
			packed := regexp.MustCompile(`role.pb.gz: .*`)
			if got, want := packed.ReplaceAll(got, nil), packed.ReplaceAll(want, nil); !bytes.Equal(got, want) {
				t.Errorf("%s differs; -update writes it anew. Got:\n%s", path, got)
			}
		})
	}
}

// allowing lets jobs give their pods something.
func allowing(t *testing.T, s kubernetes.Settings, entries ...string) kubernetes.Settings {
	t.Helper()
	var err error
	if s.Allowed, err = kubernetes.ParseAllowedPods(entries); err != nil {
		t.Fatal(err)
	}
	return s
}

// What a job may give its pods is what the listener allows, and none of it takes the place of what the role or the template has.
func TestAllowedPods(t *testing.T) {
	plain := kubernetes.Settings{Namespace: "a", Image: "edl:1", Name: "edl", Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{},
		Containers: []corev1.Container{{Name: "edl", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}}}}}
	for _, c := range []struct {
		pod   *job.Pod
		allow string
		want  fault.Kind
		says  string
	}{
		{&job.Pod{Image: "edl:1"}, "", 0, ""},
		{&job.Pod{Image: "other:1"}, "", fault.Denied, "--allow-pods image=other:1"},
		{&job.Pod{Image: "reg/a/b:1"}, "image=reg/*", 0, ""},
		{&job.Pod{Image: "evil/reg/b:1"}, "image=reg/*", fault.Denied, "image"},
		{&job.Pod{ServiceAccount: "admin"}, "serviceaccount=reader", fault.Denied, `serviceaccount "admin"`},
		{&job.Pod{PriorityClass: "system-node-critical"}, "", fault.Denied, "priorityclass"},
		{&job.Pod{Annotations: map[string]string{"iam.example.org/role": "x"}}, "", fault.Denied, "annotation"},
		{&job.Pod{EnvFrom: []string{"secret/edl-etcd"}}, "configmap=*", fault.Denied, `secret "edl-etcd"`},
		{&job.Pod{Volumes: []*job.PodVolume{{Secret: "edl-etcd", MountPath: "/mnt/a"}}}, "claim=*", fault.Denied, `secret "edl-etcd"`},
		{&job.Pod{Volumes: []*job.PodVolume{{Claim: "data", MountPath: "/mnt/a"}}}, "claim=data-*", fault.Denied, `claim "data"`},
		{&job.Pod{Volumes: []*job.PodVolume{{Claim: "data-1", MountPath: "/mnt/a"}}}, "claim=data-*", 0, ""},
		{&job.Pod{Tolerations: []*job.Toleration{{Operator: "Exists"}}}, "toleration=spot", fault.Denied, `toleration "*"`},
		{&job.Pod{Volumes: []*job.PodVolume{{Scratch: 1, MountPath: "/data/edl"}}}, "", fault.InvalidArgument, "where pods have one at /data"},
		{&job.Pod{Affinity: `{}`}, "", fault.Denied, "affinity"},
	} {
		s := plain
		if c.allow != "" {
			s = allowing(t, plain, c.allow)
		}
		spec := specOf(job.Role_PSERVER, 0)
		spec.Spec.PserverPod = c.pod
		_, err := kubernetes.NewObjects(s, spec)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v with %q: %v, want %v", c.pod, c.allow, err, c.want)
		}
		other := specOf(job.Role_TRAINER, 0)
		other.Spec.PserverPod = c.pod
		if _, err := kubernetes.NewObjects(s, other); err != nil {
			t.Errorf("the pod of a trainer whose job says %v of pservers: %v", c.pod, err)
		}
	}
	plain.Template = nil
	spec := specOf(job.Role_COORDINATOR, 0)
	spec.Spec.Pod = &job.Pod{Affinity: `{"nodeAffinty": {}}`}
	if _, err := kubernetes.NewObjects(plain, spec); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "nodeAffinty") {
		t.Errorf("a misspelt affinity: %v", err)
	}
	for _, entry := range []string{"hostpath=/", "claim", "claim=", "image=[", "=x"} {
		if _, err := kubernetes.ParseAllowedPods([]string{entry}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// Every container of a role holds to the Pod Security Standard "restricted", whatever a template says of it, and has no token of the API server.
func TestPodsAreRestricted(t *testing.T) {
	root, yes := int64(0), true
	for _, template := range []*corev1.PodTemplateSpec{nil,
		{Spec: corev1.PodSpec{AutomountServiceAccountToken: &yes, Containers: []corev1.Container{{Name: "edl", SecurityContext: &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root}}}}}} {
		o, err := kubernetes.NewObjects(kubernetes.Settings{Namespace: "a", Image: "edl", Name: "edl", Template: template}, specOf(job.Role_COORDINATOR, 0))
		if err != nil {
			t.Fatal(err)
		}
		p := o.Job.Spec.Template.Spec
		if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken || !*p.SecurityContext.RunAsNonRoot ||
			p.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || p.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("pod %+v", p)
		}
		for _, c := range p.Containers {
			s := c.SecurityContext
			if s.Privileged != nil || s.RunAsUser != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("security context %+v", s)
			}
		}
	}
}

// A spec that is too large for an object is not in the ConfigMap: the listener sends it. Neither the program nor credentials of any other are.
func TestLargeSpecsAreNotMounted(t *testing.T) {
	s := kubernetes.Settings{Namespace: "a", Image: "edl", Name: "edl"}
	spec := specOf(job.Role_TRAINER, 0)
	spec.Program = make([]byte, 2<<20) // zeros are small when they are compressed
	small, err := kubernetes.NewObjects(s, spec)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(spec.Program)
	large, err := kubernetes.NewObjects(s, spec)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(small.ConfigMap.BinaryData["role.pb.gz"]); n == 0 || n > 700<<10 {
		t.Errorf("a spec that fits has %d bytes", n)
	}
	if n := len(large.ConfigMap.BinaryData["role.pb.gz"]); n != 0 {
		t.Errorf("a spec that does not fit has %d bytes", n)
	}
}

// Names are those of objects and labels, whatever the id of the job, and another start has another name.
func TestNames(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,56}[a-z0-9])?$`)
	seen := map[string]bool{}
	for _, id := range []string{"a", strings.Repeat("x", 63), "a-very-long-name-for--a-job", "digits"} {
		for _, role := range []job.Role{job.Role_COORDINATOR, job.Role_PSERVER, job.Role_STANDBY, job.Role_TRAINER} {
			for start := range uint32(2) {
				spec := specOf(role, 1<<31)
				spec.Job, spec.Start = id, start
				o, err := kubernetes.NewObjects(kubernetes.Settings{Namespace: "a", Image: "edl", Name: "edl"}, spec)
				if err != nil {
					t.Fatal(err)
				}
				if name := o.Job.Name; !valid.MatchString(name) || seen[name] || o.Secret.Name != name || o.ConfigMap.Name != name {
					t.Errorf("%s %v %d: name %s", id, role, start, name)
				}
				seen[o.Job.Name] = true
			}
		}
	}
	first, second := specOf(job.Role_TRAINER, 0), specOf(job.Role_TRAINER, 0)
	second.Program = []byte("of the next placement")
	a, _ := kubernetes.NewObjects(kubernetes.Settings{}, first)
	b, _ := kubernetes.NewObjects(kubernetes.Settings{}, second)
	if a.Job.Name != b.Job.Name || proto.Equal(first, second) {
		t.Errorf("names %s and %s of one start", a.Job.Name, b.Job.Name)
	}
}

// A template that is no pod, and settings that no pod can have, are refused.
func TestMistakesInSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "template.yaml")
	for text, want := range map[string]error{"spec: {nodeSelecter: {a: b}}": fault.InvalidArgument, "[": fault.InvalidArgument, strings.Repeat("#", 300<<10): fault.TooLarge} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := kubernetes.ReadTemplate(path); !errors.Is(err, want) {
			t.Errorf("%.30q: %v, want %v", text, err, want)
		}
	}
	for _, s := range []kubernetes.Settings{{Namespace: "A", Image: "edl", Name: "edl"}, {Namespace: "a", Name: "edl"}, {Namespace: "a", Image: "edl", Name: "x/y"}} {
		if err := s.Check(); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
