package listen_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// A role that is down is the first thing that a job waits for, with what ended it and when it comes back.
func TestWhyNamesTheRoleThatIsDown(t *testing.T) {
	spec := reading(t)
	spec.MaxRestarts = 1000
	j := newHarness(t, listen.Config{}, func(name string) run {
		if name == "trainer-1" {
			return func(context.Context, *job.RoleSpec, io.Writer) error {
				return fault.New(fault.LostMember, "killed by a tester")
			}
		}
		return idle
	}).begin(t, spec)
	eventually(t, func() bool {
		w := j.Why(bounded(t)).Waits
		return len(w) > 0 && w[0].What == "the next start of trainer 1" && w[0].By[0] == "trainer 1" &&
			strings.Contains(w[0].LastError, "killed by a tester") && w[0].Until != nil && w[0].Since != nil
	})
}

// A server that hangs is named within a second, with the time of its last sign of life.
func TestWhyNamesTheServerThatHangs(t *testing.T) {
	release := make(chan struct{})
	var h *harness
	h = newHarness(t, listen.Config{}, func(name string) run {
		if name == "coordinator" {
			return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
				return serveCoordinator(ctx, h.store, spec, hanging{release: release})
			}
		}
		return idle
	})
	j := h.begin(t, reading(t))
	defer close(release)
	eventually(t, func() bool {
		began := time.Now()
		r := j.Why(bounded(t))
		if took := time.Since(began); took > patience/2 {
			t.Fatalf("an answer after %v", took)
		}
		for _, w := range r.Waits {
			if w.What == "an answer of coordinator" && w.By[0] == "coordinator" && strings.Contains(r.Status.Paused, "has not answered since") {
				return true
			}
		}
		return false
	})
}

// What a trainer waits for reaches those who ask although its coordinator hangs.
func TestWhyTellsWhatTrainersWaitFor(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var h *harness
	h = newHarness(t, listen.Config{}, func(name string) run {
		if name == "coordinator" {
			return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
				return serveCoordinator(ctx, h.store, spec, hanging{release: release})
			}
		}
		return nil
	})
	j := h.begin(t, reading(t))
	defer close(release)
	for _, name := range []string{"trainer 0", "trainer 1"} {
		eventually(t, func() bool {
			return slices.ContainsFunc(j.Why(bounded(t)).Waits, func(w *job.Wait) bool {
				return w.Who == name && w.What == "the next generation" && slices.Equal(w.By, []string{"coordinator"}) && w.Since.IsValid()
			})
		})
	}
}

// A server that has lost its lease is told of before the coordinator that has ended because of it.
func TestLostFirst(t *testing.T) {
	role := func(index int, lost bool) supervise.Role {
		return supervise.Role{Member: cluster.Member{Role: job.Role_PSERVER, Index: index}, Lost: lost}
	}
	var got []int
	for _, r := range listen.LostFirst([]supervise.Role{role(0, false), role(1, true), role(2, false), role(3, true)}) {
		got = append(got, r.Index)
	}
	if want := []int{1, 3, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// While etcd is away it is the first thing that a job waits for, by name, although its roles go on.
func TestWhyNamesEtcd(t *testing.T) {
	store := cluster.NewMemory()
	since, away := time.Now().Add(-time.Minute), atomic.Bool{}
	h := newHarnessIn(t, &harness{store: store}, listen.Config{Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		r, err := store.Open(spec.Prefix)
		return silent{r, func() (time.Time, error) {
			if away.Load() {
				return since, fault.E(fault.Unavailable, fault.At("etcd at host:2379"), fault.Got("no answer"), fault.Hint("start etcd again"))
			}
			return time.Time{}, nil
		}}, err
	}}, func(string) run { return idle })
	j := h.begin(t, reading(t))
	first := func() *job.Wait {
		if w := j.Why(bounded(t)).Waits; len(w) > 0 {
			return w[0]
		}
		return &job.Wait{}
	}
	eventually(t, func() bool { return first().What != "" && !strings.Contains(first().What, "etcd") })
	away.Store(true)
	if w := first(); !strings.Contains(w.What, "an answer of etcd") || !slices.Equal(w.By, []string{"etcd"}) || !w.Since.AsTime().Equal(since) ||
		!strings.Contains(w.LastError, "host:2379") || !strings.Contains(w.LastError, "start etcd again") {
		t.Errorf("the job waits for %v", w)
	}
	away.Store(false)
	if w := first(); strings.Contains(w.What, "etcd") {
		t.Errorf("the job waits for %v", w)
	}
}

// silent is a registry that says whether its store answers.
type silent struct {
	cluster.Registry
	since func() (time.Time, error)
}

func (s silent) Silent() (time.Time, error) { return s.since() }
