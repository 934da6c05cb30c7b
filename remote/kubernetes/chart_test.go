//go:build linux

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/remote/kubernetes"
)

// etcdImage is that of the chart's values.
const etcdImage = "gcr.io/etcd-development/etcd:v3.6.6"

// A release is the chart in a namespace of its own, with data of its own.
type release struct {
	*clusterRig
	namespace string
	dir       string // of the claim; the same path in pods
}

// install renders the chart with values, and applies it. ownClaim lets the chart make the claim of the data.
func (r *clusterRig) install(namespace string, members int, ownClaim bool, values string) *release {
	r.Helper()
	c := &release{r, namespace, filepath.Join(r.dir, namespace)}
	if err := os.MkdirAll(filepath.Join(c.dir, "models"), 0o700); err != nil {
		r.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(r.dir, "train-*"))
	if err != nil || len(records) == 0 {
		r.Fatalf("%d files of records, %v", len(records), err)
	}
	for _, file := range append(records, filepath.Join(r.dir, "program.pb")) {
		if err := os.Link(file, filepath.Join(c.dir, filepath.Base(file))); err != nil {
			r.Fatal(err)
		}
	}
	if ownClaim {
		r.volumeOf(namespace, c.dir)
	} else {
		r.claimOf(namespace, c.dir)
	}
	for i := range members {
		r.volume(fmt.Sprintf("%s-etcd-%d", namespace, i), filepath.Join(c.dir, fmt.Sprint("etcd-", i)), &corev1.ObjectReference{Namespace: namespace, Name: fmt.Sprint("state-edl-etcd-", i)}, corev1.ReadWriteOnce)
	}
	file := filepath.Join(r.dir, namespace+".yaml")
	write(r.T, file, fmt.Appendf(nil, "image: {repository: edl, tag: test}\ndata: {path: %s, create: %t}\n%s", c.dir, ownClaim, values))
	rendered := exec.CommandContext(r.Context(), "go", "-C", filepath.Join("..", "..", "tools", "chart"), "run", ".", "-values", file, "-namespace", namespace)
	rendered.Stderr = os.Stderr
	manifests, err := rendered.Output()
	if err != nil {
		r.Fatal(err)
	}
	r.Apply(namespace, manifests, func(string, map[string]any) {})
	return c
}

// ready waits until so many pods of a component are ready, and returns the last of them.
func (c *release) ready(component string, pods int) (last corev1.Pod) {
	c.Helper()
	c.Await(fmt.Sprint(pods, " pods are ready: ", component), func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := c.Core().Get().Namespace(c.namespace).Resource("pods").Param("labelSelector", "app.kubernetes.io/component="+component).Do(ctx).Into(list); err != nil {
			return false, err
		}
		ready, state := 0, ""
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodFailed {
				c.Fatalf("pod %s has failed: %+v", p.Name, p.Status.ContainerStatuses)
			}
			state += fmt.Sprintf("%s %s %v; ", p.Name, p.Status.Phase, p.Status.Conditions)
			for _, s := range p.Status.Conditions {
				if s.Type == corev1.PodReady && s.Status == corev1.ConditionTrue {
					ready, last = ready+1, p
				}
			}
		}
		return ready == pods, fmt.Errorf("%s", state)
	})
	return last
}

// user makes an account of the namespace with a Role of the chart, and returns flags with which edl is that user.
func (c *release) user(name, role string) []string {
	c.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Core().Post().Namespace(c.namespace).Resource("serviceaccounts").Body(account).Do(c.Context()).Error(); err != nil {
		c.Fatal(err)
	}
	binding := fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: %s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %s}\nsubjects: [{kind: ServiceAccount, name: %s}]\n", name, role, name)
	c.Apply(c.namespace, []byte(binding), func(string, map[string]any) {})
	file := filepath.Join(c.clusterRig.dir, c.namespace+"-"+name)
	write(c.T, file, []byte(c.KubeconfigOf(c.namespace, c.tokenOf(c.namespace, name))))
	return []string{"--kubernetes", "--kubeconfig", file, "--context", "test"}
}

// edl runs a command of edl as a user of the cluster, who has no credentials of a listener.
func (c *release) edl(user []string, args ...string) (string, error) {
	out, err := c.run(append(args, user...)...).CombinedOutput()
	return string(out), err
}

// does runs a command that must succeed, and write what is wanted.
func (c *release) does(user []string, want string, args ...string) string {
	c.Helper()
	out, err := c.edl(user, args...)
	if err != nil || !strings.Contains(out, want) {
		c.Fatalf("edl %v: %v, want %q\n%s", args, err, want, out)
	}
	return out
}

// refuses runs a command that must fail, and say what is wanted.
func (c *release) refuses(user []string, want string, args ...string) {
	c.Helper()
	if out, err := c.edl(user, args...); err == nil || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
		c.Errorf("edl %v: %v, want a line with %q\n%s", args, err, want, out)
	}
}

// awaits runs a command until it writes what is wanted.
func (c *release) awaits(user []string, want string, args ...string) {
	c.Helper()
	c.Await(fmt.Sprintf("edl %v says %q", args, want), func(context.Context) (bool, error) {
		out, err := c.edl(user, args...)
		return err == nil && strings.Contains(out, want), fmt.Errorf("%v: %s", err, out)
	})
}

// submits makes a TrainingJob of a job file.
func (c *release) submits(user []string, name, more string) {
	c.Helper()
	file := filepath.Join(c.dir, name+".yaml")
	write(c.T, file, fmt.Appendf(nil, "name: %s\nprogram: program.pb\ndata: {train: %q}\npservers: 2\nsave: %s\n%s\n", name, filepath.Join(c.dir, "train-*"), filepath.Join(c.dir, "models", name), more))
	c.does(user, name, "submit", "-f", file)
}

// rolesAreAs runs a job until its pods run, which must all be as a function says, and stops it.
func (c *release) rolesAreAs(listener string, holds func(p *corev1.Pod) bool) {
	c.Helper()
	edl := func(args ...string) {
		cmd := c.run(args...)
		cmd.Env = append(cmd.Env, "EDL_AUTHORITY="+filepath.Join(c.dir, "edl", "authority.pem"))
		c.command(cmd)
	}
	edl("submit", filepath.Join(c.dir, "program.pb"), "--data", "train="+filepath.Join(c.dir, "train-*"), "--passes", "1000000", "--name", "dressed", "--remote="+listener)
	c.Await("the roles run", func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		err := c.Core().Get().Namespace(c.namespace).Resource("pods").Param("labelSelector", kubernetes.LabelJob+"=dressed").Do(ctx).Into(list)
		if err != nil || len(list.Items) < 3 {
			return false, err
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Status.Phase != corev1.PodRunning {
				return false, fmt.Errorf("pod %s: %+v", p.Name, p.Status)
			}
			if !holds(p) {
				c.Errorf("pod %s is %+v, %+v", p.Name, p.ObjectMeta, p.Spec)
			}
		}
		return true, nil
	})
	edl("stop", "dressed", "--listener="+listener)
}

// forward passes connections at a port of this machine on to an address, as kubectl port-forward does, until the test ends.
func forward(t *testing.T, to string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				_ = near.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
				group.Go(func() {
					_, _ = io.Copy(ends[0], ends[1]) // until one end hangs up
					_, _ = ends[0].Close(), ends[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
	return l.Addr().String()
}

// The chart runs as it is: with an etcd of its own over TLS, of three members or of one, as operator that counts nodes or as listener. Users of the cluster submit, list, explain, scale and stop TrainingJobs by
// kubectl's file alone, as far as their Role lets them.
func TestClusterChart(t *testing.T) {
	r := newClusterRig(t, func(r *clusterRig) map[string]string {
		etcd := filepath.Join(r.dir, "etcd-command")
		r.command(exec.CommandContext(r.Context(), "go", "build", "-o", etcd, "go.etcd.io/etcd/server/v3"))
		r.Names()
		return map[string]string{etcdImage: etcd}
	})
	admin := []string{"--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", "team-c"}
	r.Namespace("nobodys")
	(&release{clusterRig: r}).refuses([]string{"--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", "nobodys"}, "edl operator --crd | kubectl apply -f -", "jobs")
	r.define()
	c := r.install("team-c", 3, false, "listener: {trainingJobs: true, maxLoad: '0.9'}\netcd: {replicas: 3}\n")
	c.ready("etcd", 3)
	c.ready("listener", 1)
	viewer, submitter := c.user("ann", "edl-viewer"), c.user("bob", "edl-submitter")

	// What there is not, and what is not allowed, is told with what to do.
	c.does(viewer, "JOB  STATE", "jobs")
	c.refuses(viewer, "got a namespace without a TrainingJob", "why")
	c.refuses(viewer, "none of that name in the namespace team-c", "logs", "missing")
	c.refuses([]string{"--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", "nowhere"}, "kubectl create namespace nowhere", "jobs")
	c.refuses([]string{"--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", "nowhere"}, "kubectl create namespace nowhere", "why", "missing")
	c.refuses(append([]string{"--namespace", "team-a"}, viewer...), "edl-viewer", "jobs")
	c.refuses([]string{"--kubernetes", "--kubeconfig", r.Kubeconfig, "--context", "other"}, "--context", "jobs")

	c.submits(submitter, "whole", "trainers: 2\npasses: 1")
	c.awaits(viewer, "Complete", "jobs", "--name", "whole")
	r.compare(filepath.Join(c.dir, "models", "whole"), 1)
	c.does(viewer, "Complete for", "why", "whole")
	c.does(viewer, "trainer-1 | ", "logs", "whole") // whose pods are gone
	c.refuses(viewer, `got role "trainer-7", want one of coordinator, pserver-0, pserver-1, trainer-0, trainer-1`, "logs", "whole", "trainer-7")
	c.refuses(submitter, "got one that has ended: Complete", "jobs", "suspend", "whole")
	c.refuses(submitter, "kubectl delete tj/whole", "stop", "whole")
	c.refuses(submitter, "kubectl delete tj/NAME", "submit", "-f", filepath.Join(c.dir, "whole.yaml"))
	c.refuses([]string{"--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", "nowhere"}, "kubectl create namespace nowhere", "submit", "-f", filepath.Join(c.dir, "whole.yaml"))

	// A job that cannot make a checkpoint goes on when it is to be suspended, and who wants that is told at once.
	c.submits(submitter, "bare", "trainers: 1\npasses: 1000000\ncheckpoint: none")
	c.awaits(viewer, "job bare is running", "why", "bare")
	c.refuses(submitter, "a job without checkpoints", "jobs", "suspend", "bare")
	c.refuses(submitter, "no checkpoint, so the job is not stopped", "stop", "bare", "--save")
	c.does(viewer, "job bare is running", "why", "bare")
	c.does(submitter, "stopped", "stop", "bare")

	// A job that fits on the nodes alone waits for another one, because the operator counts nodes. The one that runs is looked at, scaled and stopped; a member of etcd is lost meanwhile.
	c.submits(submitter, "long", "trainers: 1:3\npasses: 1000000")
	c.awaits(viewer, "job long is running", "why")
	c.submits(submitter, "wide", "trainers: 2\ntrainer_cores: 14\npasses: 1")
	c.awaits(viewer, "cores", "why", "wide")
	c.refuses(viewer, "several TrainingJobs that have not ended: long, wide", "logs")
	c.does(submitter, "stopped", "stop", "wide")
	if err := c.Core().Delete().Namespace(c.namespace).Resource("pods").Name("edl-etcd-1").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	c.does(submitter, "job long wants 3 trainers", "scale", "long", "--trainers", "3")
	c.Await("3 trainers run", func(context.Context) (bool, error) {
		out, err := c.run(append([]string{"jobs", "--output", "json"}, viewer...)...).Output()
		var all struct{ Jobs []struct{ Trainers int } }
		if err == nil {
			err = json.Unmarshal(out, &all)
		}
		return err == nil && len(all.Jobs) == 2 && all.Jobs[1].Trainers == 3, fmt.Errorf("%w: %s", err, out)
	})
	c.refuses(submitter, "more than the trainers that the job may have", "scale", "long", "--trainers", "9")
	c.refuses(viewer, "edl-submitter", "stop", "long")
	c.refuses(viewer, "edl-submitter", "scale", "long", "--trainers", "2")
	c.does(viewer, "trainer-2 | ", "logs", "long")
	c.refuses(viewer, `got role "trainer-7"`, "logs", "long", "trainer-7")

	// It is suspended, leaves nothing but its log, and goes on.
	c.does(viewer, "pserver-1", "jobs", "show", "long")
	c.refuses(submitter, "want one that was suspended", "jobs", "resume", "long")
	c.does(submitter, "job long is suspended", "jobs", "suspend", "long")
	r.nothingLeft(c.namespace)
	c.awaits(viewer, "trainer-2 | ", "logs", "long")
	c.does(viewer, "edl/jobs/", "jobs", "show") // where its checkpoint is
	c.refuses(viewer, "edl-submitter", "jobs", "resume", "long")
	c.does(submitter, "job long goes on after ", "jobs", "resume", "long")
	c.awaits(viewer, "job long is running", "why")

	follows := c.run(append([]string{"logs", "long", "pserver-1", "--follow"}, viewer...)...)
	var followed lockedText
	follows.Stdout, follows.Stderr = &followed, &followed
	if err := follows.Start(); err != nil {
		t.Fatal(err)
	}
	c.ready("etcd", 3)
	c.does(submitter, "job long: checkpoint after ", "stop", "long", "--save")
	if err := follows.Wait(); err != nil || followed.String() == "" {
		t.Errorf("edl logs --follow ends with %v after\n%s", err, followed.String())
	}
	if out := c.does(admin, "JOB  STATE", "jobs", "--label", "team=none"); strings.Contains(out, "whole") {
		t.Errorf("jobs of another label are listed:\n%s", out)
	}
	r.nothingLeft(c.namespace)

	// A listener with an etcd of one member, a claim of the chart, and what its values give to the pods of roles.
	class := []byte(`{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "training"}, "value": 1000}`)
	if err := r.Core().Post().AbsPath("/apis/scheduling.k8s.io/v1/priorityclasses").SetHeader("Content-Type", "application/json").Body(class).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(r.dir, "train-*"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBucket(t, records)
	d := r.install("team-d", 1, true, fmt.Sprintf(`listener:
  replicas: 1
  flags: ['--allow-data=%[1]s', '--allow-save=%[1]s']
  accountAnnotations: {cloud/role: training}
  env: [{name: AWS_MAX_ATTEMPTS, value: "2"}]
  envFrom: [{secretRef: {name: bucket}}]
roles:
  serviceAccount: edl
  priorityClass: training
  nodeSelector: {kubernetes.io/hostname: node-2}
  tolerations: [{key: spot, operator: Exists}]
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}}
  annotations: {team: vision}
  env: [{name: COST, value: "5"}]
  envFrom: [{secretRef: {name: bucket}}]
  volumes: [{name: more, emptyDir: {}}]
  volumeMounts: [{name: more, mountPath: /mnt/more}]
`, b.url("")))
	b.secret(r, d.namespace)
	pod := d.ready("listener", 1)
	d.rolesAreAs(pod.Status.PodIP+":7164", func(p *corev1.Pod) bool {
		c := p.Spec.Containers[0]
		return p.Spec.ServiceAccountName == "edl" && !*p.Spec.AutomountServiceAccountToken && p.Spec.PriorityClassName == "training" && *p.Spec.Priority == 1000 && p.Spec.NodeName == "node-2" &&
			slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "spot" }) && p.Spec.Affinity.NodeAffinity != nil && p.Annotations["team"] == "vision" &&
			slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "COST" && e.Value == "5" }) && c.EnvFrom[0].SecretRef.Name == "bucket" &&
			slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "more" && m.MountPath == "/mnt/more" })
	})
	// Who has credentials of the listener reaches it through a port of this machine, too.
	save := filepath.Join(d.dir, "models", "deployed")
	cmd := r.run("credentials", "me", "--role", "submitter", "-o", "-")
	cmd.Env = append(cmd.Env, "EDL_AUTHORITY="+filepath.Join(d.dir, "edl", "authority.pem"))
	mine := filepath.Join(r.dir, "me.pem")
	write(t, mine, []byte(r.command(cmd)))
	cmd = r.run("run", filepath.Join(d.dir, "program.pb"), "--data", "train="+filepath.Join(d.dir, "train-*"), "--save", save, "--remote="+forward(t, pod.Status.PodIP+":7164"), "--trainers", "2", "--pservers", "2")
	cmd.Env = append(cmd.Env, "EDL_CREDENTIALS="+mine)
	r.command(cmd)
	r.compare(save, 1)
	r.nothingLeft(d.namespace)
	d.trainsIn(b, pod.Status.PodIP+":7164")
}
