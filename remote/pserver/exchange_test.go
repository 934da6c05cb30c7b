package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/tensor"
)

// exchanging starts n servers. Their global blocks exchange one number a round, 100 times the round plus 10 times the server, and check what they
// get. prepare is the prepare block of a server.
func exchanging(t *testing.T, n int, change func(*pserver.Config), prepare func(server int, round uint64)) []*pstest.Server {
	servers, cfgs := make([]*pstest.Server, n), make([]pserver.Config, n)
	for i := range servers {
		cfg := pstest.Config(1)
		cfg.Servers, cfg.Index = n, i
		cfg.Peer = func(index int) (rpc.ParameterServerClient, error) {
			return servers[index].Client, nil
		}
		change(&cfg)
		servers[i], cfgs[i] = pstest.New(t, cfg), cfg
	}
	for i, s := range servers {
		p := pstest.SGD(i, true, 1, 1)
		p.Service.Prepare, p.Service.Global = []program.BlockIndex{7}, 8
		p.Blocks[7] = func(_ context.Context, step ops.Step) error {
			prepare(i, step.Round)
			return nil
		}
		p.Blocks[8] = func(ctx context.Context, step ops.Step) error {
			all := make([]*tensor.Tensor, n)
			var want []float32
			for j := range all {
				all[j] = pstest.Vector(1)
				want = append(want, float32(100*int(step.Round)+10*j))
			}
			own := pstest.Filled(1, want[i])
			if err := s.Exchange(ctx, "norm", own, all); err != nil {
				return err
			}
			own.Float32s()[0] = -1 // others may ask later for what was published
			var got []float32
			for _, v := range all {
				got = append(got, v.Float32s()[0])
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("server %d in round %d: got %v, want %v", i, step.Round, got, want)
			}
			return nil
		}
		s.Serve(p)
		if err := s.Begin(cfgs[i].MaxTrainers); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

// trainOn trains rounds on every server at once, as one trainer of the first generation.
func trainOn(ctx context.Context, servers []*pstest.Server, rounds uint64) error {
	return trainIn(ctx, servers, g, 0, rounds)
}

// trainIn trains from one round up to another, as the one trainer of a generation, and completes.
func trainIn(ctx context.Context, servers []*pstest.Server, generation, from, to uint64) error {
	for round := from; round < to; round++ {
		err := pstest.Parallel(len(servers), func(i int) error {
			trainer := pstest.Trainer{Client: servers[i].Client, Generation: generation}
			_, err := trainer.Send(ctx, round, "w0@GRAD", pstest.Filled(1, 1))
			if err == nil {
				err = trainer.Barrier(ctx, round, 1, 1)
			}
			if err == nil {
				_, _, err = trainer.Get(ctx, round+1, "w0", 1)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return pstest.Parallel(len(servers), func(i int) error {
		return pstest.Trainer{Client: servers[i].Client, Generation: generation}.Complete(ctx)
	})
}

// Every server gets what every other published for the same round, in the order of servers. One of them comes last, and still has the sums of an
// earlier round.
func TestExchange(t *testing.T) {
	for n := 1; n <= 3; n++ {
		asked := make(chan struct{}, 100)
		servers := exchanging(t, n, func(cfg *pserver.Config) {
			peer := cfg.Peer
			cfg.Peer = func(index int) (rpc.ParameterServerClient, error) {
				asked <- struct{}{}
				return peer(index)
			}
		}, func(server int, round uint64) {
			if n > 1 && server == int(round)%n { // this one publishes only after the others have asked for everything
				asks := (n - 1) * (n - 1)
				if round > 0 {
					asks += n - 1 // of the server that came last in the round before
				}
				for range asks {
					<-asked
				}
			}
		})
		if err := trainOn(t.Context(), servers, 5); err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestExchangeOverManyRounds(t *testing.T) {
	servers := exchanging(t, 3, func(*pserver.Config) {}, func(int, uint64) {})
	if err := trainOn(t.Context(), servers, 9); err != nil {
		t.Fatal(err)
	}
	stale := &rpc.GetRequest{Id: pstest.Identity.Of(1, 3, 0), Name: "norm", Exchange: true}
	if _, _, err := (pstest.Trainer{Client: servers[0].Client}).GetAs(t.Context(), stale, 1); !errors.Is(err, fault.Stale) {
		t.Errorf("partial results of a round long past: %v", err)
	}
}

// When the deadline of a round has passed, a server names the one whose partial sums are missing.
func TestExchangeWithoutOne(t *testing.T) {
	hang := make(chan struct{})
	servers := exchanging(t, 2, func(cfg *pserver.Config) { cfg.RoundDeadline = time.Second }, func(server int, _ uint64) {
		if server == 1 {
			<-hang
		}
	})
	go func() { _ = trainOn(t.Context(), servers, 1) }() // fails with the servers
	err := servers[0].Wait()
	if !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), "partial sums of round 0: pserver 1") {
		t.Error(err)
	}
	close(hang)
}

// An exchange is refused when its outputs are not as many as the servers of the job, and in async mode.
func TestExchangeOfOtherSize(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 1))
	if err := s.Exchange(t.Context(), "norm", pstest.Vector(1), make([]*tensor.Tensor, 2)); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
	async := pstest.Start(t, pstest.Config(1), pstest.SGD(0, false, 1, 1))
	if err := async.Exchange(t.Context(), "norm", pstest.Vector(1), make([]*tensor.Tensor, 1)); !errors.Is(err, fault.InvalidProgram) {
		t.Error(err)
	}
	request := &rpc.GetRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "norm", Exchange: true}
	if _, _, err := (pstest.Trainer{Client: async.Client}).GetAs(t.Context(), request, 1); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}

// A trainer is lost when server 0 has its barrier and server 1 has not. Server 0 applies the round and waits for the partial sums of server 1, which
// applies the round only when it is told to commit it. Meanwhile server 0 answers Freeze, and reads of any version. The next generation trains on
// from the same round everywhere.
func TestFreezeDuringExchange(t *testing.T) {
	ctx := t.Context()
	servers := exchanging(t, 2, func(cfg *pserver.Config) { cfg.MaxTrainers = 2 }, func(int, uint64) {})
	for server, s := range servers {
		for rank := range uint32(2) {
			trainer := pstest.Trainer{Client: s.Client, Rank: rank}
			if _, err := trainer.Send(ctx, 0, "w0@GRAD", pstest.Filled(1, float32(rank))); err != nil {
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
		m := &rpc.GetRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w0", AnyVersion: true}
		if _, _, err := (pstest.Trainer{Client: s.Client}).GetAs(ctx, m, 1); err != nil {
			t.Error(err)
		}
	}
	untilWaits(t, servers[0], "the generation after 7")
	for _, s := range servers {
		if err := s.Resume(g+1, 1, pstest.Members(0), made...); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		trainer := pstest.Trainer{Client: s.Client, Generation: g + 1}
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

// The deadline of partial sums does not count while the server is frozen. When it passes, the error names the server whose sums are missing.
func TestExchangeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pstest.Config(1)
		cfg.Servers, cfg.StartDeadline, cfg.RoundDeadline = 2, 10*time.Minute, time.Minute
		cfg.Peer = func(int) (rpc.ParameterServerClient, error) { return silent{}, nil }
		s := timedServer{Server: pserver.New(cfg), ended: make(chan error, 1), start: time.Now()}
		p := pstest.SGD(0, true, 1, 1)
		p.Service.Global = 8
		p.Blocks[8] = func(ctx context.Context, _ ops.Step) error {
			return s.Exchange(ctx, "norm", pstest.Vector(1), []*tensor.Tensor{pstest.Vector(1), pstest.Vector(1)})
		}
		go func() { s.ended <- s.Serve(t.Context(), p.Op(), p) }()
		resume := func(generation, round uint64) {
			id := pstest.Identity.Of(0, 0, 0)
			id.Generation = generation
			if _, err := s.Resume(t.Context(), &rpc.ResumeRequest{Id: id, Round: round, Members: pstest.Members(0)}); err != nil {
				t.Fatal(err)
			}
		}
		resume(g, 0)
		header := &rpc.VariableChunk{Id: pstest.Identity.Of(0, 0, 0), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{1}, Bytes: 4}
		if err := s.SendVariable(&upload{ctx: t.Context(), header: header, between: func() {}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.SendBarrier(t.Context(), &rpc.BarrierRequest{Id: pstest.Identity.Of(0, 0, 0), Rows: 1, Variables: 1}); err != nil {
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
		for _, want := range []string{"timed out after 1m0s waiting for partial sums of round 0: pserver 1", "round_deadline"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %s", err, want)
			}
		}
	})
}
