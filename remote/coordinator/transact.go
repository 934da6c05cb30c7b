package coordinator

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// Keys of durable entries.
const (
	dataKey       = "data/" // of each dataset
	generationKey = "job/generation"
	settledKey    = "job/settled"
	leftKey       = "job/left/"
	saverKey      = "job/saver"
	stepsKey      = "job/steps"
)

// maxGroup is the number of entries beyond which no further request is taken into a transaction. An event of a queue changes few.
const maxGroup = cluster.MaxChanges - 2*queue.MaxStepChanges

// An op is a request that may change what is durable.
type op struct {
	apply func(*txn) error
	err   error
	done  chan error
}

// A txn is a copy of the queues to which requests happen. What they change is made durable at once for all of them, and then the copy takes the place
// of what it was made of; if that fails it is thrown away.
type txn struct {
	server  *Server
	queues  map[string]*queue.Queue
	changes []cluster.Change
	keys    map[string]bool
	notes   []note
	saver   *uint32  // that it elects, nil for none
	after   []func() // called with Server.mu held when all is durable
}

type note struct {
	dataset string
	queue.Note
}

// transact applies a request, makes what it changes durable, and returns. It fails with the error of apply, which has changed nothing then, or
// because nothing could be made durable, and nothing has changed either.
func (s *Server) transact(ctx context.Context, apply func(*txn) error) error {
	o := &op{apply: apply, done: make(chan error, 1)}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return gaveUp(ctx, "requests before this one")
	case <-s.done:
		return s.whyEnded()
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return gaveUp(ctx, "the store")
	}
}

func (s *Server) whyEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return passing(s.err)
	}
	return fault.E(fault.Stale, fault.At("coordinator"), fault.Got("a request after the end of the job"))
}
