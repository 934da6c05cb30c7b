package role_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// A trainer drains while the coordinator that has heard of it does not answer any more: it counts as lost, or the next coordinator would believe in
// it for ever.
func TestDrainedUnheard(t *testing.T) {
	store := cluster.NewMemory()
	spec := crew(t, 1)[3]
	ctx, drain := context.WithCancelCause(bounded(t))
	registry := open(t, store)
	lost, err := registry.Lost(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, silent{heard: func() { drain(fault.New(fault.Drained, "terminated")) }})
	address := strings.TrimPrefix(rig.Serve(t, service).Target(), "passthrough:///")
	if err := registry.SetDesired(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.ClaimServer(bounded(t), 0, address); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.LeadCoordinator(bounded(t), address); err != nil {
		t.Fatal(err)
	}
	handle := open(t, store)
	if err := role.Run(ctx, spec, role.Options{Registry: handle}); !errors.Is(err, fault.Drained) {
		t.Errorf("it ends with %v", err)
	}
	handle.Close()
	if m, more := <-lost; !more || m != (cluster.Member{Role: job.Role_TRAINER, Index: int(spec.Index)}) {
		t.Errorf("%v is told as lost, want the trainer", m)
	}
}

// silent is a coordinator that answers nothing.
type silent struct {
	rpc.UnimplementedCoordinatorServer
	heard func()
}

func (s silent) Join(ctx context.Context, _ *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	s.heard()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Leave(ctx context.Context, _ *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
