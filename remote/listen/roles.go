package listen

import (
	"context"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// Bounds of what a job does beside its roles.
const (
	stopGrace    = 3 * time.Second // for roles that are told to stop
	lastWords    = time.Second     // for the rest of what the servers had to tell, when all roles have ended
	registryTime = 5 * time.Second // for a change of the registry
)

// runRoles runs the roles of the job to their end, in one history or several.
func (j *Job) runRoles(ctx context.Context) error {
	registry, err := j.manager.cfg.Registry(ctx, j.roleSpec(cluster.Member{Role: job.Role_COORDINATOR}, 0))
	if err != nil {
		return err
	}
	defer registry.Close()
	if err := j.prepare(ctx, registry); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(ctx)
	connections := cluster.NewPeers(watching, registry)
	defer connections.Close()
	peers, err := newPeers(connections, int(j.spec.Pservers))
	if err != nil {
		unwatch()
		return err
	}
	c, err := j.man(ctx, registry, peers)
	if err != nil {
		unwatch()
		return err
	}
	defer j.unman()
	var group sync.WaitGroup
	defer func() { unwatch(); group.Wait() }()
	c.watcher, c.lasts = newWatcher(j, peers.coordinator), newLasts(watching, j, peers, &group)
	group.Go(func() { c.watcher.watch(watching) })
	group.Go(func() { j.probeNowAndThen(watching, peers) })

	err = c.run(ctx)
	if err == nil {
		c.hearTheRest(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registryTime)
	defer cancel()
	if wrong := registry.Forget(ctx); wrong != nil {
		j.manager.cfg.Log.Warn("traces of the job are left in the registry", "job", j.ID, "error", wrong)
	}
	return err
}

// prepare makes the registry that of a new job. An earlier job of the name may have left its traces; one that still runs keeps its name.
func (j *Job) prepare(ctx context.Context, registry cluster.Registry) error {
	ctx, cancel := context.WithTimeout(ctx, j.spec.StartDeadline.AsDuration())
	defer cancel()
	live, err := registry.Live(ctx)
	if err != nil {
		return err
	}
	for m := range live {
		return fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a name whose "+m.String()+" lives"),
			fault.Want("another name"), fault.Hint("another listener of the cluster runs a job of this name, or its roles have not ended yet"))
	}
	if err := registry.Forget(ctx); err != nil {
		return err
	}
	if err := registry.SetDesired(ctx, int(j.spec.Pservers)); err != nil {
		return err
	}
	return nil
}

// man gives the job its crew, when the registry knows the number of trainers that is wanted by then.
func (j *Job) man(ctx context.Context, registry cluster.Registry, peers *peers) (*crew, error) {
	ctx, cancel := context.WithTimeout(ctx, j.spec.StartDeadline.AsDuration())
	defer cancel()
	for known := int32(0); ; {
		j.mu.Lock()
		wanted := j.wanted
		if wanted == known {
			defer j.mu.Unlock()
			j.crew = newCrew(j, registry, peers, int(wanted))
			close(j.manned)
			return j.crew, nil
		}
		j.mu.Unlock()
		if err := registry.SetTrainers(ctx, int(wanted)); err != nil {
			return nil, err
		}
		known = wanted
	}
}

// unman takes the crew away when its roles have ended.
func (j *Job) unman() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.crew = nil
}

// hearTheRest waits until what the servers had to tell in the end has come, but no longer than lastWords.
func (c *crew) hearTheRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	select {
	case <-c.watcher.told():
	case <-ctx.Done():
	}
	c.lasts.wait(ctx.Done())
}
