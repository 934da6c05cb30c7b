package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/launch"
)

// linesOf is the log of a run as a launcher has it.
func linesOf(t *testing.T, l *kubernetes.Launcher, run string) string {
	t.Helper()
	var text strings.Builder
	if err := l.Lines(t.Context(), run, 0, false, func(m *rpc.LogLine) { fmt.Fprintf(&text, "%d %s: %s\n", m.Number, m.Role, m.Line) }); err != nil {
		t.Error(err)
	}
	return text.String()
}

// begin starts the role of a rig with a launcher.
func (r *launcherRig) begin(l *kubernetes.Launcher) launch.Handle {
	r.t.Helper()
	h, err := l.Start(r.t.Context(), r.spec, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// A role goes on when its listener has gone. The next one finds it, with its log, and how it ends. The one after that knows so, too, until the run is released.
func TestRolesOutliveTheirListener(t *testing.T) {
	ends := make(chan struct{})
	r := newLauncherRig(t, func(s *server) {
		s.work = func(_ context.Context, _ *job.RoleSpec, log io.Writer) error {
			fmt.Fprintln(log, "it begins")
			<-ends
			fmt.Fprintln(log, "it ends")
			return fault.New(fault.NotFound, "train.rec")
		}
	})
	folder, run := t.TempDir(), r.spec.CheckpointRun
	first := r.listener(folder)
	h := r.begin(first)
	connected(t, h)
	begun := make(chan struct{})
	reading, stop := context.WithCancel(t.Context())
	go func() { _ = first.Lines(reading, run, 0, true, func(*rpc.LogLine) { close(begun); stop() }) }()
	<-begun
	h.(interface{ Leave() }).Leave()
	if err := h.Wait(); !errors.Is(err, launch.ErrLeft) {
		t.Errorf("a role that was left has ended with %v", err)
	}
	first.Close()

	second := r.listener(folder)
	if err := second.Only(t.Context(), []string{run}); err != nil {
		t.Error(err)
	}
	h = r.begin(second)
	connected(t, h)
	close(ends)
	if err := h.Wait(); !errors.Is(err, fault.NotFound) {
		t.Errorf("the role has ended with %v", err)
	}
	second.Close()

	third := r.listener(folder)
	defer third.Close()
	if err := r.begin(third).Wait(); !errors.Is(err, fault.NotFound) {
		t.Errorf("a later listener says that the role has ended with %v", err)
	}
	if got, want := linesOf(t, third, run), "0 trainer-0: it begins\n1 trainer-0: it ends\n"; got != want {
		t.Errorf("the log is\n%swant\n%s", got, want)
	}
	r.mu.Lock()
	if len(r.jobs) != 1 {
		t.Errorf("%d Jobs of one start", len(r.jobs))
	}
	r.mu.Unlock()
	if err := third.Release(t.Context(), run); err != nil {
		t.Error(err)
	}
	if left := r.left() + linesOf(t, third, run); left != "" {
		t.Errorf("left are %s", left)
	}
}

// A run that is cleared leaves nothing in the cluster but its log, and goes on with the next starts of its roles.
func TestClearedRun(t *testing.T) {
	r := newLauncherRig(t, func(s *server) {
		s.work = func(_ context.Context, spec *job.RoleSpec, log io.Writer) error {
			fmt.Fprintln(log, "start", spec.Start)
			return nil
		}
	})
	l := r.listener(t.TempDir())
	defer l.Close()
	run := r.spec.CheckpointRun
	for _, role := range []job.Role{job.Role_COORDINATOR, job.Role_TRAINER} {
		r.spec.Role = role
		if err := r.begin(l).Wait(); err != nil {
			t.Error(err)
		}
	}
	r.mu.Lock()
	if len(r.jobs) != 2 || len(r.budgets) != 1 {
		t.Errorf("before it is cleared there are %d Jobs and %d budgets", len(r.jobs), len(r.budgets))
	}
	r.mu.Unlock()
	if err := l.Clear(t.Context(), run); err != nil {
		t.Error(err)
	}
	if left := r.left(); left != "" {
		t.Errorf("left are %s", left)
	}
	r.spec.Start++
	if err := r.begin(l).Wait(); err != nil {
		t.Error(err)
	}
	if got, want := linesOf(t, l, run), "0 coordinator: start 1\n1 trainer-0: start 1\n2 trainer-0: start 2\n"; got != want {
		t.Errorf("the log is\n%swant\n%s", got, want)
	}
	if err := l.Release(t.Context(), run); err != nil {
		t.Error(err)
	}
	if left := r.left(); left != "" {
		t.Errorf("left are %s", left)
	}
}

// The pods of a run have the image of the listener that began it, also those that the next listener starts, until the run is cleared.
func TestImageOfARunStays(t *testing.T) {
	r := newLauncherRig(t, func(s *server) {
		s.work = func(context.Context, *job.RoleSpec, io.Writer) error { return nil }
	})
	folder, run := t.TempDir(), r.spec.CheckpointRun
	begin := func(l *kubernetes.Launcher) {
		t.Helper()
		r.spec.Start++
		if err := r.begin(l).Wait(); err != nil {
			t.Error(err)
		}
	}
	images := func() (list []string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, j := range r.jobs {
			list = append(list, j.Spec.Template.Spec.Containers[0].Image)
		}
		slices.Sort(list)
		return list
	}
	first := r.listener(folder)
	begin(first)
	first.Close()
	r.image = "next"
	second := r.listener(folder)
	defer second.Close()
	begin(second)
	if got := images(); !slices.Equal(got, []string{"edl", "edl"}) {
		t.Errorf("the images are %v", got)
	}
	if err := second.Clear(t.Context(), run); err != nil {
		t.Error(err)
	}
	begin(second)
	if got := images(); !slices.Equal(got, []string{"next"}) {
		t.Errorf("after the run was cleared the images are %v", got)
	}
}

// A pod that was deleted while no listener was there is lost. A run that nobody knows any more leaves nothing. New credentials of a pod that does not run yet are in its Secret.
func TestListenerFindsWhatIsLeft(t *testing.T) {
	r := newLauncherRig(t, func(s *server) { s.state = func(*corev1.Pod) {} })
	folder := t.TempDir()
	first := r.listener(folder)
	h := r.begin(first)
	if err := h.Renew(&job.RoleRenewal{Credentials: []byte("the next")}); err != nil {
		t.Error(err)
	}
	h.(interface{ Leave() }).Leave()
	first.Close()
	r.mu.Lock()
	for name, j := range r.jobs {
		if got := string(r.owned["secrets"][name]["credentials"]); got != "the next" {
			t.Errorf("the Secret has %q", got)
		}
		r.endPod(name)
		fail(j, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	}
	r.mu.Unlock()

	second := r.listener(folder)
	defer second.Close()
	h = r.begin(second)
	if err := h.Wait(); !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), "BackoffLimitExceeded") {
		t.Errorf("the role has ended with %v", err)
	}
	if err := second.Only(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if left := r.left(); left != "" {
		t.Errorf("left are %s", left)
	}
	r.spec.Role = job.Role_COORDINATOR
	h = r.begin(second)
	r.mu.Lock()
	if len(r.budgets) != 1 || r.budgets[0].Spec.MinAvailable.IntValue() != int(r.spec.Spec.Pservers) {
		t.Errorf("the budgets of the coordinator's job are %v", r.budgets)
	}
	r.mu.Unlock()
	h.Stop(time.Minute)
	if err := second.Release(t.Context(), r.spec.CheckpointRun); err != nil {
		t.Error(err)
	}
	if left := r.left(); left != "" {
		t.Errorf("of a pod that was given up are left %s", left)
	}
}

// The budget of a job follows its number of pservers: one that starts beside the others counts, and one that has ended does not.
func TestBudgetFollowsServers(t *testing.T) {
	r := newLauncherRig(t, func(s *server) {
		s.state = func(p *corev1.Pod) {
			if p.Labels[kubernetes.LabelRole] == "pserver" {
				finish(p, 0, "Completed")
			}
		}
	})
	l := r.listener(t.TempDir())
	defer l.Close()
	r.spec.Role, r.spec.Index = job.Role_COORDINATOR, 0
	coordinator := r.begin(l)
	third := proto.CloneOf(r.spec)
	third.Role, third.Index = job.Role_PSERVER, 2
	r.spec = third
	if err := r.begin(l).Wait(); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	if want := []int{3, 2}; len(r.budgets) != 1 || !slices.Equal(r.least, want) {
		t.Errorf("%d budgets, which were changed to %v, want %v", len(r.budgets), r.least, want)
	}
	r.mu.Unlock()
	coordinator.Stop(time.Minute)
	if err := l.Release(t.Context(), third.CheckpointRun); err != nil {
		t.Error(err)
	}
	if left := r.left(); left != "" {
		t.Errorf("left are %s", left)
	}
}
