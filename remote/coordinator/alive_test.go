package coordinator_test

import (
	"context"
	"maps"
	"sync"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// alive is who lives.
type alive struct {
	mu       sync.Mutex
	trainers map[cluster.Member]uint64
}

func trainerOf(rank uint32) cluster.Member {
	return cluster.Member{Role: job.Role_TRAINER, Index: int(rank)}
}

func (a *alive) set(rank uint32, incarnation uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trainers == nil {
		a.trainers = map[cluster.Member]uint64{}
	}
	a.trainers[trainerOf(rank)] = incarnation
}

func (a *alive) remove(rank uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.trainers, trainerOf(rank))
}

func (a *alive) list(context.Context) (map[cluster.Member]uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.trainers), nil
}

// lose ends a trainer, and tells the coordinator.
func (s running) lose(rank uint32) {
	s.home.live.remove(rank)
	if err := s.Lost(s.home.t.Context(), trainerOf(rank)); err != nil {
		s.home.t.Fatal(err)
	}
}
