package role

import (
	"context"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/coordinator"
)

// wantTrainers tells the coordinator of an elastic job how many trainers it is to begin with.
func (r *runner) wantTrainers(ctx context.Context, server *coordinator.Server) error {
	ctx, cancel := context.WithTimeout(ctx, r.spec.Spec.StartDeadline.AsDuration())
	defer cancel()
	n, err := r.registry.Trainers(ctx)
	if err == nil {
		server.Want(n)
	}
	return err
}

// watchMembers tells the coordinator who has lost his lease, and how many trainers are wanted, until ctx ends. The group ends after that.
func (r *runner) watchMembers(ctx context.Context, server *coordinator.Server) (*sync.WaitGroup, error) {
	lost, err := r.registry.Lost(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := r.registry.WatchTrainers(ctx)
	if err != nil {
		return nil, err
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for m := range lost {
			if err := server.Lost(ctx, m); err != nil && ctx.Err() == nil {
				server.Fail(err)
			}
		}
		failDeaf(ctx, server, "members that are lost")
	})
	watching.Go(func() {
		for n := range wanted {
			server.Want(n)
		}
		failDeaf(ctx, server, "how many trainers are wanted")
	})
	return &watching, nil
}

// failDeaf ends a coordinator that the registry tells no more of what, before its time: else nobody would know why the job hangs when a member is
// lost, or does not change its size.
func failDeaf(ctx context.Context, server *coordinator.Server, what string) {
	if ctx.Err() == nil {
		server.Fail(fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("no more word of "+what),
			fault.Hint("look at the rights of the user in etcd")))
	}
}
