package transpiler_test

import (
	"context"
	"errors"
	"sync"

	"github.com/edl-go/edl/tensor"
)

// exchange is one round's exchange of values between servers.
type exchange struct {
	mu      sync.Mutex
	changed *sync.Cond
	parts   map[string][]*tensor.Tensor
	arrived int
	failed  bool // a server will not arrive
}

func (e *exchange) fail() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = true
	e.changed.Broadcast()
}

type exchangeKey struct{}

// Exchange implements ops.Server.
func (s *server) Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	e := ctx.Value(exchangeKey{}).(*exchange)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parts[name] == nil {
		e.parts[name] = make([]*tensor.Tensor, len(s.cluster.servers))
	}
	e.parts[name][s.index] = own.Clone()
	e.arrived++
	e.changed.Broadcast()
	for e.arrived < len(s.cluster.servers) {
		if e.failed {
			return errors.New("another server failed")
		}
		e.changed.Wait()
	}
	for i := range all {
		if err := all[i].CopyFrom(e.parts[name][i]); err != nil {
			return err
		}
	}
	return nil
}
