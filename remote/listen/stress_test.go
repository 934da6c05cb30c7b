package listen_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

// Each case of TestStopAtAnyPoint is a seed; -listen.seeds=N -listen.seed=S runs N of them from S on.
var (
	seeds     = flag.Int("listen.seeds", 20, "jobs that are stopped somewhere")
	firstSeed = flag.Uint64("listen.seed", 1, "the first of their seeds")
)

// Wherever a job is when it is stopped, finished or scaled, or its manager closed, it ends, and nothing of it is left: no role that runs, no member
// of the registry, no goroutine. Roles wait for their end, do their work, fail, or are lost.
func TestStopAtAnyPoint(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			stopSomewhere(t, seed)
		})
	}
}

func stopSomewhere(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	f := &trigger{wait: random.IntN(200), hold: random.IntN(2) == 0}
	h := &harness{store: cluster.NewMemory(), wrap: func(l launch.Launcher) launch.Launcher { return triggeringLauncher{l, f} }}
	fails := []error{fault.New(fault.LostMember, "lost"), fault.New(fault.NotFinite, "broken"), nil}[random.IntN(3)]
	failing := []string{"coordinator", "trainer-1", "pserver-0", "nobody"}[random.IntN(4)]
	idles := random.IntN(2) == 0
	fired := make(chan struct{})
	f.left.Store(1 + random.Int64N(map[bool]int64{true: 30, false: 80}[idles])) // that many there are
	var running atomic.Int32
	newHarnessIn(t, h, listen.Config{Registry: func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		f.point(ctx)
		registry, err := h.store.Open(spec.Prefix)
		return triggering{registry, f}, err
	}}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
			running.Add(1)
			defer running.Add(-1)
			f.point(ctx)
			defer f.point(ctx)
			switch {
			case name == failing && spec.Start < 2:
				return fails
			case idles:
				return idle(ctx, spec, log)
			}
			return h.real(ctx, spec, log)
		}
	})
	spec := reading(t)
	if fed(t); random.IntN(3) == 0 {
		spec = fed(t)
	} else {
		spec.TrainersMax = 3
	}
	spec.Name = "stress"

	var acting sync.WaitGroup
	act := []func(j *listen.Job) error{
		func(j *listen.Job) error { return j.Stop(bounded(t)) },
		func(*listen.Job) error { return h.Close() },
		func(j *listen.Job) error {
			ctx, cancel := context.WithCancel(bounded(t))
			acting.Go(func() { _ = j.Stop(bounded(t)); cancel() })
			_ = j.Finish(ctx, nil, false)
			return j.Stop(bounded(t))
		},
		func(j *listen.Job) error {
			_ = j.Scale(bounded(t), 3)
			_ = j.Scale(bounded(t), 2)
			return j.Stop(bounded(t))
		},
	}[random.IntN(4)]
	f.fire = func() {
		acting.Go(func() {
			defer close(fired)
			j, err := h.Job("stress")
			if err == nil {
				err = act(j)
			}
			if err != nil {
				t.Errorf("the end of the job: %v", err)
			}
			if n := running.Load(); n != 0 {
				t.Errorf("%d roles outlive the job", n)
			}
		})
	}
	j := h.begin(t, spec)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = j.Wait(bounded(t)) }()
	select {
	case <-fired:
	case <-ended:
	}
	acting.Wait()
	if err := j.Stop(bounded(t)); err != nil {
		t.Error(err)
	}
	registry, err := h.store.Open(cluster.Prefix(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	if live, err := registry.Live(bounded(t)); len(live) != 0 || err != nil || running.Load() != 0 {
		t.Errorf("left behind: members %v, %d roles, %v", live, running.Load(), err)
	}
	if err := errors.Join(registry.Close(), h.Close()); err != nil {
		t.Error(err)
	}
}
