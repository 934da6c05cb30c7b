//go:build linux

package kubernetes_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/internal/kubetest"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

var podsOfJob = flag.Int("pods", 100, "trainers of the job of TestClusterOfManyPods")

// calls counts what a client asks the API server for.
type calls struct {
	next http.RoundTripper

	mu sync.Mutex
	by map[string]int // by verb and resource
}

func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := slices.Index(parts, "namespaces")
	what := r.Method + " " + parts[min(at+2, len(parts)-1)]
	if r.URL.Query().Get("watch") == "true" {
		what = "WATCH" + strings.TrimPrefix(what, http.MethodGet)
	}
	c.mu.Lock()
	c.by[what]++
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

// take returns what was counted since the last time.
func (c *calls) take() (by map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by, c.by = c.by, map[string]int{}
	return by
}

func sum(by map[string]int) (all int) {
	for _, n := range by {
		all += n
	}
	return all
}

// A job of many trainers costs the API server three calls for each of them to begin, few while their pods wait, none while they run, and one or two when they end. Nodes are simulated, and their pods run
// roles that do nothing until they end.
func TestClusterOfManyPods(t *testing.T) {
	kubetest.Binaries(t)
	const perNode = 60 // of which a node takes 100
	n := *podsOfJob
	plane := kubetest.Start(t)
	plane.Namespace(namespace)
	work := launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	run := func(ctx context.Context, p *corev1.Pod, address string, host func(string) string) int {
		pod := kubernetes.Pod{Address: address, SpecDir: host("/etc/edl/role"), SecretDir: host("/etc/edl/secret"), Termination: host("/tmp") + "/word", Log: io.Discard, Launcher: work}
		return fault.KindOf(kubernetes.Run(ctx, pod, slog.New(slog.DiscardHandler))).ExitCode()
	}
	for node := range (n + perNode - 1) / perNode {
		plane.Simulate(1+node, run)
	}

	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := listen.OwnCredentials(authority, 0)
	if err != nil {
		t.Fatal(err)
	}
	counted := &calls{by: map[string]int{}}
	config := plane.Config()
	config.QPS, config.Burst = 0, 0 // as that of a listener
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		counted.mu.Lock()
		defer counted.mu.Unlock()
		counted.next = next
		return counted
	}
	l, err := kubernetes.NewLauncher(t.Context(), config, kubernetes.Settings{Namespace: namespace, Image: image, Name: "edl"}, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	counted.take()

	began := time.Now()
	handles := make([]launch.Handle, n)
	var group sync.WaitGroup
	for i := range n {
		spec := specOf(job.Role_TRAINER, uint32(i))
		spec.Needs.Millicores, spec.Spec.TrainerNeeds, spec.Needs.Memory = new(int64(100)), nil, 1<<20
		c, err := authority.Issue(credential.Name{Kind: credential.Role, Job: spec.Job, Role: "trainer"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		spec.Credentials = c.PEM()
		group.Go(func() {
			h, err := l.Start(t.Context(), spec, io.Discard)
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = h
			for waits, changed := h.Waits(); len(waits) > 0; waits, changed = h.Waits() {
				select {
				case <-changed:
				case <-t.Context().Done():
					t.Errorf("trainer %d does not run when the test ends: %v", i, waits)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	took := time.Since(began)
	starting := counted.take()
	t.Logf("%d trainers run after %v: calls %v, %.0f a minute", n, took.Round(100*time.Millisecond), starting, float64(sum(starting))/took.Minutes())
	for _, made := range []string{"POST jobs", "POST configmaps", "POST secrets"} {
		if starting[made] != n {
			t.Errorf("%d times %s, want %d", starting[made], made, n)
		}
	}
	// Roles whose pods wait ask at most five times a second, all together: for warnings, and for a Job without a pod.
	if asks, most := sum(starting)-3*n, 2*5*(int(took.Seconds())+2); asks > most {
		t.Errorf("%d calls while pods waited, want at most %d: %v", asks, most, starting)
	}

	// While they run, the launcher only watches.
	for range 3 {
		plane.AwaitBeat("node-1")
	}
	if running := counted.take(); sum(running) > running["WATCH pods"]+running["GET pods"] || sum(running) > 4 {
		t.Errorf("while nothing changes there are the calls %v", running)
	}

	began = time.Now()
	for _, h := range handles {
		group.Go(func() {
			h.Stop(time.Minute)
			if err := h.Wait(); err != nil && !errors.Is(err, fault.Canceled) && !errors.Is(err, fault.Drained) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	(&clusterRig{T: t, Plane: plane}).nothingLeft(namespace)
	ending := counted.take()
	t.Logf("they have ended after %v: calls %v", time.Since(began).Round(100*time.Millisecond), ending)
	if all := sum(ending); ending["DELETE jobs"] < n || all > 2*n+10 {
		t.Errorf("%d calls at the end, want at most %d: %v", all, 2*n+10, ending)
	}
}
