package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

// A launcherRig is a launcher on a server, and a role for it.
type launcherRig struct {
	*server
	launcher *kubernetes.Launcher
	url      string // of the server
	image    string // of listeners
	own      *credential.Credentials
	spec     *job.RoleSpec
	log      bytes.Buffer // to be read when the role has ended
}

func newLauncherRig(t *testing.T, prepare func(s *server)) *launcherRig {
	t.Helper()
	s, h := newServer(t)
	prepare(s)
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := listen.OwnCredentials(authority, 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf(job.Role_TRAINER, 0)
	c, err := authority.Issue(credential.Name{Kind: credential.Role, Job: spec.Job, Role: "trainer"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	spec.Credentials = c.PEM()
	r := &launcherRig{image: "edl", server: s, url: h.URL, own: own, spec: spec}
	r.launcher = r.listener("")
	t.Cleanup(r.launcher.Close)
	return r
}

// listener returns the launcher of a listener that keeps logs in a folder.
func (r *launcherRig) listener(keep string) *kubernetes.Launcher {
	r.t.Helper()
	l, err := kubernetes.NewLauncher(r.t.Context(), &rest.Config{Host: r.url}, kubernetes.Settings{Namespace: "team-a", Image: r.image, Name: "edl", Keep: keep}, r.own, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

func (r *launcherRig) start() launch.Handle {
	r.t.Helper()
	h, err := r.launcher.Start(r.t.Context(), r.spec, &r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// says waits until the role says that it waits for what the cluster says.
func says(t *testing.T, h launch.Handle, words string) {
	t.Helper()
	for {
		list, changed := h.Waits()
		if len(list) == 1 && strings.Contains(list[0].LastError, words) {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("the role waits for %v, want %q", list, words)
		}
	}
}

// A role is made, followed to its end, and leaves nothing behind, however it ends.
func TestRolesArePods(t *testing.T) {
	wrong := fault.E(fault.NotFound, fault.At("train.rec"), fault.Got("no file"))
	running := make(chan struct{}, 1)
	for _, c := range []struct {
		name    string
		work    func(ctx context.Context, log io.Writer) error
		during  func(r *launcherRig, h launch.Handle) // once the role runs
		want    fault.Kind
		message string
	}{
		{"succeeds", func(context.Context, io.Writer) error { return nil }, nil, fault.OK, ""},
		{"fails", func(context.Context, io.Writer) error { return wrong }, nil, fault.NotFound, "train.rec"},
		{"stopped", untilEnd, func(_ *launcherRig, h launch.Handle) { h.Stop(time.Minute) }, fault.Drained, "its round is over"},
		{"killed", untilEnd, func(_ *launcherRig, h launch.Handle) { h.Kill() }, fault.Drained, "its round is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLauncherRig(t, func(s *server) {
				s.work = func(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
					fmt.Fprintln(log, "it begins")
					running <- struct{}{}
					err := c.work(ctx, log)
					fmt.Fprintln(log, "it ends")
					return err
				}
			})
			h := r.start()
			<-running
			if c.during != nil {
				connected(t, h)
				c.during(r, h)
			}
			err := h.Wait()
			if fault.KindOf(err) != c.want || err != nil && !strings.Contains(err.Error(), c.message) {
				t.Errorf("the role has ended with %v, want %v", err, c.want)
			}
			if got := r.log.String(); got != "it begins\nit ends\n" {
				t.Errorf("its log is %q", got)
			}
			if left := r.left(); left != "" {
				t.Errorf("left are %s", left)
			}
		})
	}
}

func untilEnd(ctx context.Context, _ io.Writer) error {
	<-ctx.Done()
	return fault.New(fault.Drained, "its round is over")
}

// connected waits until a handle has its role: the waits are those of the role then, which has none.
func connected(t *testing.T, h launch.Handle) {
	t.Helper()
	for {
		list, changed := h.Waits()
		if len(list) == 0 {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the pod is not connected")
		}
	}
}

// A pod that does not run says why in the words of the cluster. A role that is stopped meanwhile leaves nothing behind.
func TestPodsThatDoNotRun(t *testing.T) {
	for _, c := range []struct {
		name, words string
		prepare     func(s *server)
	}{
		{"unschedulable", "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.", func(s *server) {
			s.state = func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu."}}
			}
		}},
		{"no image", "ErrImagePull: no such image", func(s *server) {
			s.state = func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "edl", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}}}
			}
		}},
		{"quota", "FailedCreate: exceeded quota: team", func(s *server) { // there is no pod
			s.warning = &corev1.Event{Type: "Warning", Reason: "FailedCreate", Message: "exceeded quota: team"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLauncherRig(t, c.prepare)
			h := r.start()
			says(t, h, c.words)
			h.Stop(time.Minute)
			if err := h.Wait(); !errors.Is(err, fault.Canceled) {
				t.Errorf("the role has ended with %v", err)
			}
			if left := r.left(); left != "" {
				t.Errorf("left are %s", left)
			}
		})
	}
}

// How a pod has ended that nobody was connected to is what the cluster says.
func TestPodsThatEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		state func(p *corev1.Pod)
		want  fault.Kind
		words string
	}{
		{"out of memory", func(p *corev1.Pod) { finish(p, 137, "OOMKilled") }, fault.LostMember, "OOMKilled), want at most its limit of 1Gi; the plan of the program counts at least 300Mi"},
		{"evicted", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		}, fault.LostMember, "Evicted: The node was low on resource: memory."},
		{"preempted", func(p *corev1.Pod) {
			finish(p, 137, "Error")
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "for another pod"}}
		}, fault.LostMember, "PreemptionByScheduler: for another pod"},
		{"lost lease", func(p *corev1.Pod) { finish(p, 138, "Error") }, fault.Fenced, "exit status 138"},
		{"terminated", func(p *corev1.Pod) { finish(p, 143, "Error") }, fault.Drained, "exit status 143"},
		{"told", func(p *corev1.Pod) {
			finish(p, 2, "Error")
			p.Status.ContainerStatuses[0].State.Terminated.Message = `{"kind": 6, "message": "train.rec: no file"}`
		}, fault.NotFound, "train.rec: no file"},
		{"succeeded", func(p *corev1.Pod) { finish(p, 0, "Completed") }, fault.OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLauncherRig(t, func(s *server) { s.state = c.state })
			err := r.start().Wait()
			if fault.KindOf(err) != c.want || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("the role has ended with %v, want %v with %q", err, c.want, c.words)
			}
			if left := r.left(); left != "" {
				t.Errorf("left are %s", left)
			}
		})
	}
}

// A pod that is deleted while its role runs is lost, so that the listener starts the role again.
func TestPodIsDeleted(t *testing.T) {
	running := make(chan struct{})
	r := newLauncherRig(t, func(s *server) {
		s.state = func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
			close(running)
		}
	})
	h := r.start()
	<-running
	says(t, h, "Unschedulable")
	r.mu.Lock()
	for name := range r.pods {
		r.endPod(name)
	}
	r.mu.Unlock()
	if err := h.Wait(); !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), "which was deleted") {
		t.Errorf("the role has ended with %v", err)
	}
}

// Objects that the API server does not delete now are deleted later, and the role need not wait for that.
func TestObjectsAreDeletedLater(t *testing.T) {
	r := newLauncherRig(t, func(s *server) {
		s.state, s.away = func(p *corev1.Pod) { finish(p, 0, "Completed") }, 1
	})
	if err := r.start().Wait(); err != nil {
		t.Error(err)
	}
	<-r.deleted
	if left := r.left(); left != "" {
		t.Errorf("left are %s", left)
	}
}

// What the API server refuses is the error of Start, and a role without credentials is not made.
func TestRefusals(t *testing.T) {
	r := newLauncherRig(t, func(s *server) {
		s.refusal = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "jobs.batch is forbidden"}
	})
	if _, err := r.launcher.Start(t.Context(), r.spec, nil); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "jobs.batch is forbidden") {
		t.Error(err)
	}
	r.spec.Credentials = nil
	if _, err := r.launcher.Start(t.Context(), r.spec, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}

// A listener deletes the Jobs of an earlier one of its name, and no others.
func TestEarlierListener(t *testing.T) {
	r := newLauncherRig(t, func(s *server) {
		for _, name := range []string{"edl", "other"} {
			s.jobs[name] = &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kubernetes.LabelListener: name}}}
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs["edl"] != nil || r.jobs["other"] == nil {
		t.Errorf("the Jobs are %v", r.jobs)
	}
}

// Many roles that start at a time are made in turns, so that no call of one waits behind those of all others until its time is over.
func TestRolesTakeTurns(t *testing.T) {
	const roles, most = 40, 8
	r := newLauncherRig(t, func(s *server) { s.state = func(*corev1.Pod) {} })
	var now, peak, arrived atomic.Int32
	crowd := make(chan struct{}) // closed when as many calls are under way as there are places
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/jobs") {
			defer now.Add(-1)
			for n, high := now.Add(1), peak.Load(); n > high && !peak.CompareAndSwap(high, n); high = peak.Load() {
			}
			if arrived.Add(1) == most {
				close(crowd)
			}
			select {
			case <-crowd:
			case <-q.Context().Done():
			}
			for range 10_000 { // lets come who would come
				runtime.Gosched()
			}
		}
		r.ServeHTTP(w, q)
	}))
	defer front.Close()
	r.url = front.URL
	l := r.listener("")
	defer l.Close()
	var group sync.WaitGroup
	for i := range roles {
		spec := proto.CloneOf(r.spec)
		spec.Index = uint32(i)
		group.Go(func() {
			h, err := l.Start(t.Context(), spec, io.Discard)
			if err != nil {
				t.Error(err)
				return
			}
			h.Stop(time.Minute)
		})
	}
	group.Wait()
	if n := peak.Load(); n > most {
		t.Errorf("%d roles were made at a time, want at most %d", n, most)
	}
	if left := r.left(); left != "" {
		t.Errorf("left are %s", left)
	}
	front.CloseClientConnections()
}

// What the client of the API server says by itself, such as a warning of the server, goes to the log.
func TestLogOfClient(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "pods are old"`)
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "PodList", "items": []}`))
	}))
	defer h.Close()
	log := &bytes.Buffer{}
	kubernetes.LogTo(slog.New(slog.NewTextHandler(log, nil)))
	defer kubernetes.LogTo(slog.New(slog.DiscardHandler))
	r, err := kubernetes.NewPodReader(&rest.Config{Host: h.URL}, "team-a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.List(t.Context(), "digits"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=INFO") || !strings.Contains(log.String(), "pods are old") {
		t.Errorf("the log is %q", log)
	}
}
