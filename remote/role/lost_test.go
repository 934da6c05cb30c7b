package role_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
)

// A role whose word that it leaves is lost says it again.
func TestLeaveThatIsLost(t *testing.T) {
	store := cluster.NewMemory()
	specs := crew(t, 1)
	ctx := bounded(t)
	if err := open(t, store).SetDesired(ctx, 2); err != nil {
		t.Fatal(err)
	}
	ends := make(chan ended, len(specs))
	for _, s := range specs {
		registry := &mumbling{Registry: open(t, store)}
		go func() { ends <- ended{role.Name(s), role.Run(ctx, s, role.Options{Registry: registry})} }()
	}
	for range specs {
		if e := <-ends; e.err != nil {
			t.Errorf("%s ends with %v", e.name, e.err)
		}
	}
}

// mumbling is a registry that does not hear the first word of a trainer's leaving.
type mumbling struct{ cluster.Registry }

func (r *mumbling) JoinTrainer(ctx context.Context, rank int) (cluster.Membership, error) {
	m, err := r.Registry.JoinTrainer(ctx, rank)
	return &unheard{Membership: m}, err
}

type unheard struct {
	cluster.Membership
	once atomic.Bool
}

func (m *unheard) Leave(ctx context.Context) error {
	if !m.once.Swap(true) {
		return fault.New(fault.Unavailable, "no answer")
	}
	return m.Membership.Leave(ctx)
}

// A coordinator that is told of no more losses, or of no other number of trainers, ends and says so: else a job of which a member is lost would wait
// without a reason, and one that is scaled would not change.
func TestCoordinatorThatHearsNothing(t *testing.T) {
	for what, registry := range map[string]func(cluster.Registry) cluster.Registry{
		"members that are lost":        func(r cluster.Registry) cluster.Registry { return deafToLosses{r} },
		"how many trainers are wanted": func(r cluster.Registry) cluster.Registry { return deafToScaling{r} },
	} {
		store := cluster.NewMemory()
		specs := crew(t, 1)
		ctx := bounded(t)
		if err := open(t, store).SetDesired(ctx, 2); err != nil {
			t.Fatal(err)
		}
		err := role.Run(ctx, specs[0], role.Options{Registry: registry(open(t, store))})
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: it ends with %v", what, err)
		}
	}
}

// These are registries whose store refuses to tell something.
type (
	deafToLosses  struct{ cluster.Registry }
	deafToScaling struct{ cluster.Registry }
)

func (deafToLosses) Lost(context.Context) (<-chan cluster.Member, error) {
	lost := make(chan cluster.Member)
	close(lost)
	return lost, nil
}

func (deafToScaling) WatchTrainers(context.Context) (<-chan int, error) {
	wanted := make(chan int)
	close(wanted)
	return wanted, nil
}
