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
		Needs: &job.Needs{Millicores: &cores, Memory: 1 << 30}}
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
	for _, c := range []struct {
		name     string
		settings kubernetes.Settings
		spec     *job.RoleSpec
	}{
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
