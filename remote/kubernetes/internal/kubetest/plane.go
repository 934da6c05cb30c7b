//go:build linux

// Package kubetest is a Kubernetes cluster for tests: the real API server, controller manager and scheduler, as processes of this machine, and a small kubelet that runs
// containers as processes. Nothing of it is a fake: what the control plane refuses is refused.
//
// plane.go starts the control plane, kubelet.go is a node, pod.go runs a pod, volumes.go makes its files, memory.go holds it to its limit, names.go lets pods find each other, and logs.go shows what it writes. simulate.go is for nodes whose
// containers are goroutines.
package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/edl-go/edl/remote/cluster"
)

// Binaries returns the folder with the programs of the control plane, or skips the test: `make kubernetes` builds them.
func Binaries(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("EDL_CONTROL_PLANE")
	if dir == "" {
		t.Skip("EDL_CONTROL_PLANE does not name a folder with the control plane of Kubernetes: `make kubernetes` builds it and runs this test")
	}
	return dir
}

// A Plane is a control plane.
type Plane struct {
	Kubeconfig string // file for clients that may do everything
	t          testing.TB
	config     *rest.Config
	core       *rest.RESTClient
	api        func() (stop func()) // starts the API server
	stopAPI    func()
	names      *names // nil: pods know no names
	pods       string // folder of the files of all pods
}

const admin = "admin-token-of-a-test"

// Start starts a control plane, and ends it with the test. It returns when it takes requests.
func Start(t testing.TB) *Plane {
	bin, dir := Binaries(t), t.TempDir()
	etcd, err := cluster.Embed(t.Context(), filepath.Join(dir, "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	port := freePort(t)
	key := filepath.Join(dir, "key.pem")
	writeKey(t, key)
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, admin+",admin,admin,system:masters\n")
	p := &Plane{t: t, Kubeconfig: filepath.Join(dir, "kubeconfig"), pods: t.TempDir()}
	server := fmt.Sprintf("https://127.0.0.1:%d", port)
	write(t, p.Kubeconfig, Kubeconfig(server, "default", admin))
	p.config = &rest.Config{Host: server, BearerToken: admin, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 500, Burst: 1000}
	p.core = client(t, p.config)
	p.api = func() func() {
		return process(t, filepath.Join(bin, "kube-apiserver"), "--etcd-servers=http://"+strings.Join(etcd.Endpoints(), ",http://"), fmt.Sprintf("--secure-port=%d", port), "--bind-address=127.0.0.1",
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+dir, "--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file="+key,
			"--service-account-key-file="+key, "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--token-auth-file="+tokens)
	}
	p.startAPI()
	process(t, filepath.Join(bin, "kube-controller-manager"), "--kubeconfig="+p.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--service-account-private-key-file="+key)
	process(t, filepath.Join(bin, "kube-scheduler"), "--kubeconfig="+p.Kubeconfig, "--leader-elect=false", "--secure-port=0")
	return p
}

func (p *Plane) startAPI() {
	p.stopAPI = p.api()
	p.Await("the API server takes requests", func(ctx context.Context) (bool, error) {
		return p.core.Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
}

// WithoutAPI stops the API server, and starts it again when during has returned.
func (p *Plane) WithoutAPI(during func()) {
	p.stopAPI()
	during()
	p.startAPI()
}

// WithoutAPIFor lets the API server be away for a time, which is the fault that a test is about, and for as long as it takes to start again.
func (p *Plane) WithoutAPIFor(d time.Duration) {
	stopped := time.Now() // it takes no more requests while it ends
	p.WithoutAPI(func() {
		timer := time.NewTimer(d - time.Since(stopped))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.t.Context().Done():
		}
	})
}

// Namespace makes a namespace in which pods must hold to the standard "restricted". It returns when pods can be made there.
func (p *Plane) Namespace(name string) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := p.core.Post().Resource("namespaces").Body(ns).Do(p.t.Context()).Error(); err != nil {
		p.t.Fatal(err)
	}
	p.Await("the namespace has its service account", func(ctx context.Context) (bool, error) {
		err := p.core.Get().Namespace(name).Resource("serviceaccounts").Name("default").Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// Kubeconfig is a file of kubectl for who has a token.
func Kubeconfig(server, namespace, token string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
"clusters": [{"name": "test", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
"users": [{"name": "test", "user": {"token": %q}}],
"contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": %q}}]}`, server, token, namespace)
}

// KubeconfigOf is a file of kubectl for who has a token, with a context "test" for a namespace.
func (p *Plane) KubeconfigOf(namespace, token string) string {
	return Kubeconfig(p.config.Host, namespace, token)
}

// Apply makes the objects of a YAML file in a namespace, as kubectl does. change may change each of them before.
func (p *Plane) Apply(namespace string, file []byte, change func(kind string, object map[string]any)) {
	p.t.Helper()
	for _, document := range bytes.Split(file, []byte("\n---\n")) {
		object := map[string]any{}
		if err := yaml.Unmarshal(document, &object); err != nil {
			p.t.Fatalf("%v:\n%s", err, document)
		}
		kind, group := fmt.Sprint(object["kind"]), fmt.Sprint(object["apiVersion"])
		change(kind, object)
		b, err := json.Marshal(object)
		if err != nil {
			p.t.Fatal(err)
		}
		root := "/apis/" + group
		if group == "v1" {
			root = "/api/v1"
		}
		if !strings.HasPrefix(kind, "Cluster") {
			root += "/namespaces/" + namespace
		}
		path := root + "/" + strings.ToLower(kind) + "s"
		if err := p.core.Post().AbsPath(path).Param("fieldValidation", "Strict").SetHeader("Content-Type", "application/json").Body(b).Do(p.t.Context()).Error(); err != nil {
			p.t.Errorf("%s: %v\n%s", path, err, document)
		}
	}
}

// Core speaks to the group of pods and nodes.
func (p *Plane) Core() *rest.RESTClient { return p.core }

// Config says how to reach the API server, as who may do everything.
func (p *Plane) Config() *rest.Config { return rest.CopyConfig(p.config) }

// As is Core of who has a token.
func (p *Plane) As(token string) *rest.RESTClient {
	c := rest.CopyConfig(p.config)
	c.BearerToken = token
	return client(p.t, c)
}

// Await waits until holds is true, for as long as the test may take. An error that lasts is told at the end.
func (p *Plane) Await(what string, holds func(ctx context.Context) (bool, error)) {
	p.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		ok, err := holds(p.t.Context())
		if ok {
			return
		}
		last = err
		select {
		case <-ticker.C:
		case <-p.t.Context().Done():
			p.t.Fatalf("%s: not so when the test ended; the last error: %v", what, last)
		}
	}
}

func client(t testing.TB, c *rest.Config) *rest.RESTClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	own := rest.CopyConfig(c)
	own.APIPath, own.GroupVersion, own.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, serializer.NewCodecFactory(scheme).WithoutConversion()
	r, err := rest.RESTClientFor(own)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// process starts a process, and ends it when stop is called, or with the test, also with one that is killed: a shell waits for the end of its input, which the
// test holds open. What the process has written is shown if the test has failed.
func process(t testing.TB, binary string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `"$@" & read -r _; kill $!; wait`, "sh", binary}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	held, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = held.Close()
		kill := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer kill.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			b := log.Bytes()
			t.Logf("%s wrote last:\n%s", filepath.Base(binary), b[max(0, len(b)-4000):])
		}
	})
	t.Cleanup(stop)
	return stop
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func writeKey(t testing.TB, path string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
