package role_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
)

// A coordinator that is told of no more losses ends and says so: a job of which a member is lost would wait without a reason.
func TestCoordinatorThatHearsOfNoLosses(t *testing.T) {
	store := cluster.NewMemory()
	specs := crew(t, 1)
	ctx := bounded(t)
	if err := open(t, store).SetDesired(ctx, 2); err != nil {
		t.Fatal(err)
	}
	err := role.Run(ctx, specs[0], role.Options{Registry: deaf{open(t, store)}})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "members that are lost") {
		t.Errorf("it ends with %v", err)
	}
}

// deaf is a registry whose store refuses to tell losses.
type deaf struct{ cluster.Registry }

func (deaf) Lost(context.Context) (<-chan cluster.Member, error) {
	lost := make(chan cluster.Member)
	close(lost)
	return lost, nil
}
