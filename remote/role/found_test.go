package role_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
)

// A role that is told no more of where another one is ends and says so: else it would call where that one has been, for as long as it has patience.
func TestRoleThatFindsNobody(t *testing.T) {
	for _, of := range []job.Role{job.Role_COORDINATOR, job.Role_TRAINER} {
		store, ctx, specs := cluster.NewMemory(), bounded(t), crew(t, 1)
		others := open(t, store)
		if err := others.SetDesired(ctx, 2); err != nil {
			t.Fatal(err)
		}
		spec := specs[0]
		if of == job.Role_TRAINER {
			spec = specs[3]
			if _, err := others.LeadCoordinator(ctx, "127.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			if _, err := others.ClaimServer(ctx, i, "127.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		}
		err := role.Run(ctx, spec, role.Options{Registry: deafToAddresses{open(t, store)}})
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no more word of where") {
			t.Errorf("%s ends with %v", role.Name(spec), err)
		}
	}
}

// deafToAddresses is a registry whose store tells an address that was, and refuses to tell more.
type deafToAddresses struct{ cluster.Registry }

func (deafToAddresses) Follow(context.Context, cluster.Member) (<-chan string, error) {
	addresses := make(chan string, 1)
	addresses <- "127.0.0.1:1"
	close(addresses)
	return addresses, nil
}
