package listen_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
)

// refusing is a registry that does not say who lives, or who is lost and wanted.
type refusing struct {
	cluster.Registry
	refuse, mute *atomic.Bool
	refused      *atomic.Int32 // by mute
}

func (r refusing) Live(ctx context.Context) (map[cluster.Member]uint64, error) {
	if r.refuse.Load() {
		return nil, fault.New(fault.InvalidArgument, "a user without rights")
	}
	return r.Registry.Live(ctx)
}

func (r refusing) Lost(ctx context.Context) (<-chan cluster.Member, error) {
	if r.mute.Load() {
		r.refused.Add(1)
		return closed[cluster.Member](), nil
	}
	return r.Registry.Lost(ctx)
}

func (r refusing) WatchTrainers(ctx context.Context) (<-chan int, error) {
	if r.mute.Load() {
		r.refused.Add(1)
		return closed[int](), nil
	}
	return r.Registry.WatchTrainers(ctx)
}

func closed[T any]() <-chan T {
	c := make(chan T)
	close(c)
	return c
}

// What a registry refused to tell is told when it has ceased to: of lost leases, and of trainers that are wanted.
func TestRefusalPasses(t *testing.T) {
	t.Parallel()
	var refuse, mute atomic.Bool
	var refused atomic.Int32
	mute.Store(true)
	h := &house{store: cluster.NewMemory()}
	newHouseIn(t, h, listen.Config{Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		registry, err := h.store.Open(spec.Prefix)
		return refusing{registry, &refuse, &mute, &refused}, err
	}}, func(name string) run {
		return func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
			registry, err := h.store.Open(spec.Prefix)
			if err != nil {
				return err
			}
			defer registry.Close()
			if name == "trainer-1" {
				if _, err := registry.JoinTrainer(ctx, 1); err != nil {
					return err
				}
			}
			return idle(ctx, spec, log)
		}
	})
	spec := reading(t)
	spec.TrainersMax = 3
	j := h.begin(t, spec)
	eventually(t, func() bool { return h.started.Load() == 5 && refused.Load() >= 4 })
	mute.Store(false)
	if err := j.Scale(bounded(t), 3); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return j.Status().Trainers == 3 })
	registry, err := h.store.Open(cluster.Prefix(j.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	trainer := cluster.Member{Role: job.Role_TRAINER, Index: 1}
	eventually(t, func() bool {
		live, err := registry.Live(bounded(t))
		return err == nil && live[trainer] != 0
	})
	h.store.Expire(cluster.Prefix(j.ID), trainer)
	eventually(t, func() bool { return startsOf(j) == "1 1 1 1 2 1" })
}

// A registry that refuses to say whose leases have ended is no reason to end the job, but it is said.
func TestRefusedLeases(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var refuse atomic.Bool
	h, log := &house{store: cluster.NewMemory()}, &strings.Builder{}
	newHouseIn(t, h, listen.Config{Log: slog.New(slog.NewTextHandler(locked{&mu, log}, nil)),
		Registry: func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
			registry, err := h.store.Open(spec.Prefix)
			return refusing{Registry: registry, refuse: &refuse, mute: &atomic.Bool{}}, err
		}}, all(idle))
	j := h.begin(t, reading(t))
	eventually(t, func() bool { return h.started.Load() == 5 })
	refuse.Store(true)
	eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), "which roles hold their leases") && strings.Contains(log.String(), "a user without rights")
	})
	if j.Ended() {
		t.Error("the job has ended")
	}
}
