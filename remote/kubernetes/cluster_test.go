//go:build unix

package kubernetes_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/program"
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
}

const (
	namespace = "team-a"
	image     = "edl:test"
)

func newClusterRig(t *testing.T) *clusterRig {
	t.Helper()
	kubetest.Binaries(t)
	dir := t.TempDir()
	r := &clusterRig{T: t, dir: dir, edl: filepath.Join(dir, "edl"), template: filepath.Join(dir, "template.yaml")}
	r.command(exec.CommandContext(t.Context(), "go", "build", "-o", r.edl, "github.com/edl-go/edl/cmd/edl"))
	r.command(exec.CommandContext(t.Context(), "go", "run", "github.com/edl-go/edl/examples/recognize_digits", "-out", dir))
	r.Plane = kubetest.Start(t)
	r.Namespace(namespace)
	for node := range 2 {
		r.Node(1+node, map[string]string{image: r.edl})
	}
	spec := corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: "data"}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain}
	spec.HostPath = &corev1.HostPathVolumeSource{Path: dir}
	none := ""
	claim := corev1.PersistentVolumeClaimSpec{AccessModes: spec.AccessModes, StorageClassName: &none, VolumeName: "data", Resources: corev1.VolumeResourceRequirements{Requests: spec.Capacity}}
	meta := metav1.ObjectMeta{Name: "data"}
	for _, err := range []error{
		r.Core().Post().Resource("persistentvolumes").Body(&corev1.PersistentVolume{ObjectMeta: meta, Spec: spec}).Do(t.Context()).Error(),
		r.Core().Post().Namespace(namespace).Resource("persistentvolumeclaims").Body(&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: claim}).Do(t.Context()).Error()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, r.template, fmt.Appendf(nil, "spec:\n  volumes:\n  - {name: data, persistentVolumeClaim: {claimName: data}}\n  containers:\n  - name: edl\n    volumeMounts:\n    - {name: data, mountPath: %s}\n", dir))
	return r
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

// listen starts a listener, and ends it with the test. It returns its address.
func (r *clusterRig) listen(name, image string) string {
	r.Helper()
	cmd := r.run("listen", "--kubernetes", "--kubeconfig", r.Kubeconfig, "--namespace", namespace, "--image", image, "--kubernetes-name", name, "--pod-template", r.template,
		"--addr", "127.77.0.1:0", "--data-dir", filepath.Join(r.dir, "listener-"+name))
	var log bytes.Buffer
	cmd.Stderr = &log
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
			r.Logf("the listener %s wrote:\n%s", name, log.Bytes())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		r.Fatalf("the listener says %q: %v\n%s", line, err, log.Bytes())
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
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
func (r *clusterRig) nothingLeft() {
	r.Helper()
	for _, resource := range []string{"pods", "configmaps", "secrets"} {
		r.Await("no "+resource+" are left", func(ctx context.Context) (bool, error) {
			b, err := r.Core().Get().Namespace(namespace).Resource(resource).Param("labelSelector", kubernetes.LabelListener).Do(ctx).Raw()
			return err == nil && bytes.Contains(b, []byte(`"items":[]`)), err
		})
	}
}

// A job on a cluster trains the bits of the reference executor, and leaves nothing behind, also if pods are deleted while it runs. What keeps pods from running is told in the
// words of the cluster.
func TestCluster(t *testing.T) {
	r := newClusterRig(t)
	address := r.listen("edl", image)

	save := filepath.Join(r.dir, "model")
	r.command(r.job("run", address, save, 1))
	r.compare(save, 1)
	r.nothingLeft()

	for _, role := range []string{"trainer", "pserver"} {
		// A pod is deleted once it runs. A job that was over by then is repeated with more passes.
		for passes, deleted := 4, false; !deleted; passes *= 2 {
			save := filepath.Join(r.dir, "model-"+role+strconv.Itoa(passes))
			cmd := r.job("run", address, save, passes)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
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
				err = r.Core().Delete().Namespace(namespace).Resource("pods").Name(list.Items[0].Name).Do(ctx).Error()
				deleted = err == nil
				return deleted, err
			})
			if !ended {
				err = <-over
			}
			if err != nil {
				t.Fatalf("the job ends with %v\n%s", err, out.Bytes())
			}
			r.compare(save, passes)
		}
		r.nothingLeft()
	}

	broken := r.listen("broken", "edl:missing")
	for _, c := range []struct{ address, name, want string }{{address, "too-large", "Insufficient cpu"}, {broken, "no-image", "ErrImagePull: no image edl:missing"}} {
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
	r.nothingLeft()
}
