package listen_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

// noKeeper is a keeper that has no lines of logs: the roles of these tests are goroutines.
type noKeeper struct{ rpc.KeeperClient }

func (noKeeper) Lines(context.Context, *rpc.LinesRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.LogLine], error) {
	return nil, fault.New(fault.Unavailable, "no lines")
}

func (noKeeper) Release(context.Context, *rpc.ReleaseRequest, ...grpc.CallOption) (*rpc.ReleaseResponse, error) {
	return &rpc.ReleaseResponse{}, nil
}

// durable is a manager with a data folder, whose processes are those of a keeper of a name.
func durable(t *testing.T, folder, keeper string, config listen.Config, instead func(name string) run) *harness {
	t.Helper()
	return durableIn(t, &harness{store: cluster.NewMemory()}, folder, keeper, config, instead)
}

// durableIn is durable for a harness that has its store.
func durableIn(t *testing.T, h *harness, folder, keeper string, config listen.Config, instead func(name string) run) *harness {
	t.Helper()
	data, err := listen.OpenData(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { data.Close() })
	config.Data = data
	if config.Kept == nil {
		config.Kept = &listen.Keeping{Launcher: launch.Kept{Keeper: noKeeper{}}, Keeper: keeper}
	}
	return newHarnessIn(t, h, config, instead)
}

// copied is a data folder whose listener has gone without closing it.
func copied(t *testing.T, folder string) string {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return left
}

// A job that was accepted is run, also if its listener dies before it has done anything for it, and its keeper with it. A job that was running then is lost.
func TestAcceptedJobsAreRun(t *testing.T) {
	folder, left := t.TempDir(), filepath.Join(t.TempDir(), "left")
	first := durable(t, folder, "first", listen.Config{Registry: func(ctx context.Context, _ *job.RoleSpec) (cluster.Registry, error) {
		<-ctx.Done()
		return nil, fault.Wrap(fault.Canceled, "registry", context.Cause(ctx))
	}}, nil)
	spec := reading(t)
	spec.Name, spec.Labels = "accepted", map[string]string{"team": "vision"}
	first.begin(t, spec)
	if err := os.CopyFS(left, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	second := durable(t, left, "second", listen.Config{}, nil)
	if err := listen.TakeOver(bounded(t), second.Manager); err != nil {
		t.Fatal(err)
	}
	j, err := second.Job("accepted")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.State != job.State_SUCCEEDED || s.Records != 20 || s.Labels["team"] != "vision" || s.SubmittedMs == 0 || s.EndedMs < s.SubmittedMs {
		t.Errorf("%v", s)
	}
}

// Jobs that have ended go, the oldest first, when they have too many bytes in the data folder.
func TestHistoryIsBounded(t *testing.T) {
	folder := t.TempDir()
	h := durable(t, folder, "keeper", listen.Config{MaxJobBytes: 1}, nil)
	for _, name := range []string{"one", "two"} {
		spec := reading(t)
		spec.Name = name
		if err := h.begin(t, spec).Wait(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return len(h.Jobs()) == 0 })
	if runs, err := os.ReadDir(filepath.Join(folder, "runs")); err != nil || len(runs) > 0 {
		t.Errorf("left: %v, %v", runs, err)
	}
}

// A list has the jobs that fit all that is said.
func TestListOfJobs(t *testing.T) {
	h := newHarness(t, listen.Config{}, all(idle))
	client := serve(t, h.Manager)
	for name, labels := range map[string]map[string]string{"a-1": {"team": "x"}, "a-2": {"team": "y", "run": "1"}, "b-1": {"team": "y"}} {
		spec := fedAs(t, name)
		spec.Labels = labels
		h.begin(t, spec)
	}
	j, err := h.Job("a-2")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for want, m := range map[string]*rpc.ListRequest{
		"a-1 a-2 b-1": {},
		"a-1 a-2":     {Name: "a-*"},
		"a-2 b-1":     {Labels: map[string]string{"team": "y"}},
		"b-1":         {Labels: map[string]string{"team": "y"}, Name: "b*"},
		"a-2":         {States: []job.State{job.State_STOPPED, job.State_FAILED}},
		"":            {Owner: "somebody"},
	} {
		r, err := client.List(bounded(t), m)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, s := range r.Jobs {
			names[s.Job] = true
		}
		if got := strings.Join(slices.Sorted(maps.Keys(names)), " "); got != want {
			t.Errorf("%v lists %q, want %q", m, got, want)
		}
	}
	if r, err := client.List(bounded(t), &rpc.ListRequest{Limit: 2}); err != nil || len(r.Jobs) != 2 {
		t.Errorf("two jobs: %v, %v", r, err)
	}
	for _, m := range []*rpc.ListRequest{{Name: "["}, {Limit: -1}, {Name: strings.Repeat("*", 1000)}} {
		if _, err := client.List(bounded(t), m); err == nil {
			t.Errorf("%v is answered", m)
		}
	}
}
