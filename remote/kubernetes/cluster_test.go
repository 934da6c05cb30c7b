//go:build linux

package kubernetes_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/internal/kubetest"
)

// A clusterRig is a cluster, a build of edl, and the data of recognize_digits on a claim that pods mount.
type clusterRig struct {
	*testing.T
	*kubetest.Plane
	dir      string // of everything; the claim is mounted at the same path
	edl      string
	template string
	etcd     string // that outlives listeners
	models   int    // that jobs have saved
}

const (
	namespace = "team-a"
	image     = "edl:test"
)

// newClusterRig starts a cluster of two nodes. more prepares it before they start, and returns the programs of further images; nil: there are none.
func newClusterRig(t *testing.T, more func(r *clusterRig) map[string]string) *clusterRig {
	t.Helper()
	kubetest.Binaries(t)
	dir := t.TempDir()
	r := &clusterRig{T: t, dir: dir, edl: filepath.Join(dir, "command"), template: filepath.Join(dir, "template.yaml")}
	r.command(exec.CommandContext(t.Context(), "go", "build", "-o", r.edl, "github.com/edl-go/edl/cmd/edl"))
	r.command(exec.CommandContext(t.Context(), "go", "run", "github.com/edl-go/edl/examples/recognize_digits", "-out", dir))
	etcd, err := cluster.Embed(t.Context(), filepath.Join(dir, "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	r.etcd = strings.Join(etcd.Endpoints(), ",")
	r.Plane = kubetest.Start(t)
	images := map[string]string{image: r.edl, "edl:latest": r.edl}
	if more != nil {
		maps.Copy(images, more(r))
	}
	for node := range 2 {
		r.Node(1+node, images)
	}
	r.claim(namespace)
	write(t, r.template, fmt.Appendf(nil, "spec:\n  volumes:\n  - {name: data, persistentVolumeClaim: {claimName: data}}\n  containers:\n  - name: edl\n    volumeMounts:\n    - {name: data, mountPath: %s}\n", dir))
	return r
}

// claim makes a namespace with a claim of the data.
func (r *clusterRig) claim(namespace string) {
	r.Helper()
	r.claimOf(namespace, r.dir)
}

// claimOf makes a namespace with a claim of a folder.
func (r *clusterRig) claimOf(namespace, dir string) {
	r.Helper()
	none := ""
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	r.volumeOf(namespace, dir)
	claim := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: &none, VolumeName: namespace, Resources: corev1.VolumeResourceRequirements{Requests: size}}
	if err := r.Core().Post().Namespace(namespace).Resource("persistentvolumeclaims").Body(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claim}).Do(r.Context()).Error(); err != nil {
		r.Fatal(err)
	}
}

// volumeOf makes a namespace, and a volume of a folder for a claim there that somebody else makes.
func (r *clusterRig) volumeOf(namespace, dir string) {
	r.Helper()
	r.Namespace(namespace)
	r.volume(namespace, dir, &corev1.ObjectReference{Namespace: namespace, Name: "data"}, corev1.ReadWriteMany)
}

// volume makes a volume of a folder, for a claim.
func (r *clusterRig) volume(name, dir string, claim *corev1.ObjectReference, mode corev1.PersistentVolumeAccessMode) {
	r.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.Fatal(err)
	}
	spec := corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
		ClaimRef: claim, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain}
	spec.HostPath = &corev1.HostPathVolumeSource{Path: dir}
	if err := r.Core().Post().Resource("persistentvolumes").Body(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}).Do(r.Context()).Error(); err != nil {
		r.Fatal(err)
	}
}

// tokenOf is a token of a service account.
func (r *clusterRig) tokenOf(namespace, account string) string {
	r.Helper()
	token := &struct{ Status struct{ Token string } }{}
	b, err := r.Core().Post().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`)).Do(r.Context()).Raw()
	if err == nil {
		err = json.Unmarshal(b, token)
	}
	if err != nil {
		r.Fatal(err)
	}
	return token.Status.Token
}

// command runs a command to its end, and returns what it wrote.
func (r *clusterRig) command(cmd *exec.Cmd) string {
	r.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// run makes a command of edl.
func (r *clusterRig) run(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.Context(), r.edl, args...)
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
	return cmd
}

// A listenerProcess is a listener of a test.
type listenerProcess struct {
	*exec.Cmd
	said *bufio.Reader // what it writes when its port is open
	log  *lockedText
}

// A lockedText is what a process writes while others read it.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// listen starts a listener, and ends it with the test. It returns its address.
func (r *clusterRig) listen(name, image string) string {
	r.Helper()
	return r.listenAt("127.77.0.1:0", name, image).address(r.T)
}

// address waits until the port of the listener is open.
func (l *listenerProcess) address(t *testing.T) string {
	t.Helper()
	line, err := l.said.ReadString('\n')
	if err != nil {
		t.Fatalf("the listener says %q: %v", line, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// listenAt starts a listener with further flags, and ends it with the test.
func (r *clusterRig) listenAt(address, name, image string, more ...string) *listenerProcess {
	r.Helper()
	cmd := r.run(append([]string{"listen", "--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", namespace, "--image", image, "--kubernetes-name", name, "--pod-template", r.template,
		"--addr", address, "--data-dir", filepath.Join(r.dir, "listener-"+name)}, more...)...)
	log := &lockedText{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if r.Failed() {
			r.Logf("the listener %s wrote:\n%s", name, log)
		}
	})
	return &listenerProcess{cmd, bufio.NewReader(out), log}
}

// job is how a job of 2 trainers and 2 pservers is started.
func (r *clusterRig) job(verb, address, save string, passes int) *exec.Cmd {
	return r.run(verb, filepath.Join(r.dir, "program.pb"), "--data", "train="+filepath.Join(r.dir, "train-*"), "--passes", strconv.Itoa(passes), "--save", save, "--remote="+address,
		"--trainers", "2", "--pservers", "2")
}

// compare fails the test if what a job has saved differs from what the reference executor saves after as many passes, in any bit.
func (r *clusterRig) compare(save string, passes int) {
	r.Helper()
	p, err := program.Load(filepath.Join(r.dir, "program.pb"), program.DefaultLimits())
	if err != nil {
		r.Fatal(err)
	}
	e, err := reference.New(p, 2)
	if err != nil {
		r.Fatal(err)
	}
	defer e.Close()
	expected := filepath.Join(r.dir, "reference-"+strconv.Itoa(passes))
	data := map[string][]string{"train": {filepath.Join(r.dir, "train-*")}}
	if _, err := e.Train(r.Context(), p, executor.TrainOptions{Data: data, Passes: passes, Save: expected}, nil); err != nil {
		r.Fatal(err)
	}
	files, err := os.ReadDir(expected)
	if err != nil || len(files) == 0 {
		r.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(expected, f.Name()))
		if err != nil {
			r.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(save, f.Name())); err != nil || !bytes.Equal(got, want) {
			r.Errorf("%s differs from that of the reference, %v", f.Name(), err)
		}
	}
}

// pods lists the pods of a role of a job.
func (r *clusterRig) pods(ctx context.Context, selector string) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	return list, r.Core().Get().Namespace(namespace).Resource("pods").Param("labelSelector", selector).Do(ctx).Into(list)
}

// nothingLeft waits until the cluster has deleted all objects of all roles.
func (r *clusterRig) nothingLeft(namespace string) {
	r.Helper()
	for _, resource := range []string{"/api/v1/namespaces/%s/pods", "/api/v1/namespaces/%s/configmaps", "/api/v1/namespaces/%s/secrets", "/apis/batch/v1/namespaces/%s/jobs", "/apis/policy/v1/namespaces/%s/poddisruptionbudgets"} {
		r.Await("no "+resource+" are left", func(ctx context.Context) (bool, error) {
			b, err := r.Core().Get().AbsPath(fmt.Sprintf(resource, namespace)).Param("labelSelector", kubernetes.LabelListener).Do(ctx).Raw()
			return err == nil && bytes.Contains(b, []byte(`"items":[]`)), err
		})
	}
}

// deletes deletes a pod.
func (r *clusterRig) deletes(ctx context.Context, pod string) error {
	return r.Core().Delete().Namespace(namespace).Resource("pods").Name(pod).Do(ctx).Error()
}

// evicts asks the API server to evict a pod, as a drain of its node does. It refuses while the PodDisruptionBudget does not allow that.
func (r *clusterRig) evicts(ctx context.Context, pod string) error {
	return r.Core().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("eviction").SetHeader("Content-Type", "application/json").MaxRetries(0).
		Body([]byte(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "` + pod + `"}}`)).Do(ctx).Error()
}

// disturbed removes the pod of a role of a job while it runs, once before was called. The job must compute the bits of the reference, and leave nothing. A job that was over by then
// is repeated with more passes than those that it begins with.
func (r *clusterRig) disturbed(address, role string, passes int, before func(), remove func(ctx context.Context, pod string) error) {
	r.Helper()
	for deleted := false; !deleted; passes *= 2 {
		r.models++
		save := filepath.Join(r.dir, "model-"+strconv.Itoa(r.models))
		cmd := r.job("run", address, save, passes)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			r.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		var err error
		ended := false
		r.Await("a "+role+" is deleted, or its job is over", func(ctx context.Context) (bool, error) {
			select {
			case err = <-over:
				ended = true
				return true, nil
			default:
			}
			list, err := r.pods(ctx, kubernetes.LabelRole+"="+role+","+kubernetes.LabelIndex+"=1")
			if err != nil || len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning {
				return false, err
			}
			before()
			before = func() {}
			err = remove(ctx, list.Items[0].Name)
			deleted = err == nil
			return deleted, err
		})
		if !ended {
			err = <-over
		}
		if err != nil {
			r.Fatalf("the job ends with %v\n%s", err, out.Bytes())
		}
		r.compare(save, passes)
	}
	r.nothingLeft(namespace)
}

// quota lets the namespace have no pods. It returns when the API server holds to it.
func (r *clusterRig) quota(name string) {
	r.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	if err := r.Core().Post().Namespace(namespace).Resource("resourcequotas").Body(q).Do(r.Context()).Error(); err != nil {
		r.Fatal(err)
	}
	r.Await("the quota is known", func(ctx context.Context) (bool, error) {
		err := r.Core().Get().Namespace(namespace).Resource("resourcequotas").Name(name).Do(ctx).Into(q)
		return len(q.Status.Hard) > 0, err
	})
}

// takesOver kills a listener while a job runs, and a trainer after it. The listener that waits finds the job, and starts the trainer again. A pserver of another job is evicted, which its
// budget allows.
func (r *clusterRig) takesOver() {
	r.Helper()
	more := []string{"--etcd", r.etcd}
	first := r.listenAt("127.77.0.1:0", "lasting", image, more...)
	address := first.address(r.T)
	second := r.listenAt(address, "lasting", image, more...)
	r.disturbed(address, "trainer", 4, func() {
		if err := first.Process.Kill(); err != nil {
			r.Error(err)
		}
		_ = first.Wait()
	}, r.deletes)
	if got := second.address(r.T); got != address {
		r.Errorf("the next listener is at %s, want %s", got, address)
	}
	name := ""
	r.disturbed(address, "pserver", 64, func() {}, func(ctx context.Context, pod string) error {
		out, err := r.run("jobs", "--listener="+address).Output()
		trains := trainingJob.FindSubmatch(out)
		if err != nil || trains == nil {
			return fmt.Errorf("no job trains yet: %s, %v", out, err)
		}
		name = string(trains[1])
		return r.evicts(ctx, pod)
	})
	if out, err := r.run("logs", name, "pserver-1", "--listener="+address).Output(); err != nil || !bytes.Contains(out, []byte("told to end; a checkpoint is made first")) {
		r.Errorf("the log of the pserver that was evicted: %v\n%s", err, out)
	}
}

// trainingJob finds a job that has trained in what "edl jobs" prints.
var trainingJob = regexp.MustCompile(`(?m)^(\S+) +running .*/\d+ +[1-9]`)

// A job on a cluster trains the bits of the reference executor, and leaves nothing behind, also if pods are deleted while it runs. What keeps pods from running is told in the
// words of the cluster.
func TestCluster(t *testing.T) {
	r := newClusterRig(t, nil)
	working := r.listenAt("127.77.0.1:0", "edl", image)
	address := working.address(t)

	save := filepath.Join(r.dir, "model")
	r.command(r.job("run", address, save, 1))
	r.compare(save, 1)
	r.nothingLeft(namespace)

	r.disturbed(address, "pserver", 4, func() {}, r.deletes)
	r.takesOver()

	// While the API server is away, a job goes on, and then starts its role again.
	r.disturbed(address, "trainer", 4, func() {
		r.WithoutAPI(func() {
			r.Await("the listener knows that the API server is away", func(context.Context) (bool, error) {
				return strings.Contains(working.log.String(), "roles that run go on"), nil
			})
		})
	}, r.deletes)

	r.deployed()
	broken := r.listen("broken", "edl:missing")
	for _, c := range []struct{ address, name, want string }{{address, "too-large", "Insufficient cpu"}, {broken, "no-image", "ErrImagePull: no image edl:missing"}, {address, "over-quota", "exceeded quota: team"}} {
		if c.name == "over-quota" {
			r.quota("team")
		}
		cmd := r.job("submit", c.address, filepath.Join(r.dir, c.name), 1)
		cmd.Args = append(cmd.Args, "--name", c.name)
		if c.name == "too-large" {
			cmd.Args = append(cmd.Args, "--trainer-cores", "1000")
		}
		r.command(cmd)
		r.Await("edl why tells "+c.want, func(ctx context.Context) (bool, error) {
			out, err := r.run("why", c.name, "--listener="+c.address).CombinedOutput()
			return strings.Contains(string(out), c.want), fmt.Errorf("%w: %s", err, out)
		})
		r.command(r.run("stop", c.name, "--listener="+c.address))
	}
	r.nothingLeft(namespace)
}
