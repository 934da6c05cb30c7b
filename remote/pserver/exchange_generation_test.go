package pserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/tensor"
)

// A trainer is lost when server 0 has its barrier and server 1 has not: server 0 applies the round and waits for the partial sums of server 1, which
// applies only when it is told to commit. Freeze answers meanwhile, values as they are can be read, and the next generation trains on from the same
// round everywhere.
func TestFreezeDuringExchange(t *testing.T) {
	ctx := t.Context()
	servers := exchanging(t, 2, func(cfg *pserver.Config) { cfg.MaxTrainers = 2 }, func(int, uint64) {})
	for server, s := range servers {
		for rank := range uint32(2) {
			trainer := rig.Trainer{Client: s.Client, Rank: rank}
			if _, err := trainer.Send(ctx, 0, "w0@GRAD", rig.Filled(1, float32(rank))); err != nil {
				t.Fatal(err)
			}
			if server == 0 || rank == 0 {
				if err := trainer.Barrier(ctx, 0, 1, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	untilWaits(t, servers[0], "partial sums of round 0")
	var made []*rpc.Declared
	for i, s := range servers {
		state, err := s.Freeze(g)
		if err != nil || state.Round != uint64(1-i) || len(state.Applied) != 2*(1-i) || len(state.Declared) != i {
			t.Fatalf("server %d: %v, %v", i, state, err)
		}
		if i == 0 {
			made = state.Applied
		}
		m := &rpc.GetRequest{Id: rig.Identity.Of(0, 0, 0), Name: "w0", AnyVersion: true}
		if _, _, err := (rig.Trainer{Client: s.Client}).GetAs(ctx, m, 1); err != nil {
			t.Error(err)
		}
	}
	untilWaits(t, servers[0], "the generation after 7")
	for _, s := range servers {
		if err := s.Resume(g+1, 1, rig.Members(0), made...); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		trainer := rig.Trainer{Client: s.Client, Generation: g + 1}
		if w, _, err := trainer.Get(ctx, 1, "w0", 1); err != nil || w.Float32s()[0] != -0.5 {
			t.Error(w, err)
		}
	}
	if err := trainIn(ctx, servers, g+1, 1, 4); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// silent is a pserver that never answers.
type silent struct{ rpc.ParameterServerClient }

func (silent) GetVariable(ctx context.Context, _ *rpc.GetRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.VariableChunk], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The deadline of partial sums does not pass while the server is frozen, and then names the server that they are missing from.
func TestExchangeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := rig.Config(1)
		cfg.Servers, cfg.StartDeadline, cfg.RoundDeadline = 2, 10*time.Minute, time.Minute
		cfg.Peer = func(int) (rpc.ParameterServerClient, error) { return silent{}, nil }
		s := timedServer{Server: pserver.New(cfg), ended: make(chan error, 1), start: time.Now()}
		p := rig.SGD(0, true, 1, 1)
		p.Service.Global = 8
		p.Blocks[8] = func(ctx context.Context, _ ops.Step) error {
			return s.Exchange(ctx, "norm", rig.Vector(1), []*tensor.Tensor{rig.Vector(1), rig.Vector(1)})
		}
		go func() { s.ended <- s.Serve(t.Context(), p.Op(), p) }()
		resume := func(generation, round uint64) {
			id := rig.Identity.Of(0, 0, 0)
			id.Generation = generation
			if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: id, Round: round, Members: rig.Members(0)}); err != nil {
				t.Fatal(err)
			}
		}
		resume(g, 0)
		header := &rpc.VariableChunk{Id: rig.Identity.Of(0, 0, 0), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{1}, Bytes: 4}
		if err := s.SendVariable(&upload{ctx: t.Context(), header: header, between: func() {}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: rig.Identity.Of(0, 0, 0), Rows: 1, Variables: 1}); err != nil {
			t.Fatal(err)
		}
		if got := s.waits(t); len(got) != 1 || got[0] != "pserver 0: partial sums of round 0, by [pserver 1] since 0s, until 1m0s; " {
			t.Errorf("waits %q", got)
		}
		time.Sleep(30 * time.Second)
		s.freeze(t, 0)
		time.Sleep(5 * time.Minute)
		resume(g+1, 1)
		err := <-s.ended
		if took := time.Since(s.start); took != 6*time.Minute+30*time.Second || !errors.Is(err, fault.LostMember) {
			t.Errorf("after %v: %v", took, err)
		}
		for _, want := range []string{"partial sums of round 0: pserver 1 within 1m0s", "round_deadline"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %s", err, want)
			}
		}
	})
}
