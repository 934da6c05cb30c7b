package listen_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/supervise"
	"google.golang.org/protobuf/types/known/timestamppb"
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
			if w.What == "an answer of coordinator" && w.By[0] == "coordinator" && strings.Contains(r.Status.Paused, "does not answer since") {
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

// The root of the matter comes first: a wait for someone who waits for nobody, before the waits for those who wait.
func TestRootFirst(t *testing.T) {
	wait := func(seconds int64, who, by string) *job.Wait {
		return &job.Wait{Who: who, By: strings.Fields(by), Since: &timestamppb.Timestamp{Seconds: seconds}}
	}
	for name, c := range map[string]struct {
		waits []*job.Wait
		want  string
	}{
		"nothing": {nil, ""},
		"a chain": {[]*job.Wait{wait(1, "trainer-0", "pserver-0"), wait(2, "pserver-0", "trainer-1"), wait(3, "trainer-1", "coordinator")},
			"trainer-1 pserver-0 trainer-0"},
		"the longest": {[]*job.Wait{wait(5, "b", "x"), wait(3, "a", "x"), wait(4, "c", "x")}, "a c b"},
		"a circle":    {[]*job.Wait{wait(2, "a", "b"), wait(1, "b", "a"), wait(3, "c", "a")}, "b a c"},
		"itself":      {[]*job.Wait{wait(1, "a", "a")}, "a"},
		"several":     {[]*job.Wait{wait(1, "coordinator", "trainer-0 trainer-1"), wait(2, "trainer-1", "data")}, "trainer-1 coordinator"},
	} {
		var got []string
		for _, w := range listen.RootFirst(c.waits) {
			got = append(got, w.Who)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
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
