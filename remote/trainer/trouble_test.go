package trainer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/edl-go/edl/fault"
)

// trouble supersedes the generation of a crew at chosen calls of its trainers to pservers: the server of the call is frozen at once, the others when
// it happens; then a new generation begins.
type trouble struct {
	crew  *crew
	ctx   context.Context
	ranks func() []uint32 // of the next generation
	kills float64         // how likely a trainer is killed with it
	group sync.WaitGroup

	mu       sync.Mutex
	chance   *rand.Rand
	calls    int
	round    uint64 // that has been reached
	until    uint64 // then the crew is left alone, so that it ends
	at       map[int]bool
	busy     bool
	happened []string
	err      error
}

func (x *trouble) call(rank uint32, server int, when string, round uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls++
	x.round = max(x.round, round)
	if !x.at[x.calls] || x.busy || x.round >= x.until {
		return
	}
	x.busy = true
	what := fmt.Sprintf("call %d: %s of trainer %d, server %d", x.calls, when, rank, server)
	next := x.ranks()
	x.crew.conductor.end()
	x.err = errors.Join(x.err, x.crew.conductor.freeze(x.ctx, server))
	if x.chance.Float64() < x.kills {
		victim := uint32(x.chance.IntN(int(x.crew.spec.Trainers)))
		what += fmt.Sprintf("; trainer %d is killed", victim)
		x.crew.killTrainer(victim)
	}
	x.happened = append(x.happened, what)
	x.group.Go(func() {
		err := x.crew.conductor.regroup(x.ctx, next...)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.busy, x.err = false, errors.Join(x.err, err)
	})
}

// overlooked leaves out that trainers who were waiting for a generation were told that the job has ended.
func overlooked(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, overlooked(e))
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, fault.Canceled) {
		return nil
	}
	return err
}
