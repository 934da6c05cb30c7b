package pserver_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

// The rows of a server move to two: to one of its own process, and to another. Those train on as if they had had their rows all the time. The server before
// keeps what it has.
func TestMove(t *testing.T) {
	whole := pstest.SGD(0, true, 1, 4)
	copy(whole.Variables["w0"].Float32s(), []float32{0, 10, 20, 30})
	old := pstest.Start(t, pstest.Config(1), whole)
	for round := range uint64(3) {
		trainRound(t, old, round)
	}
	if _, err := old.Freeze(g); err != nil {
		t.Fatal(err)
	}
	if err := old.Resume(g+1, 3, pstest.Members(0)); err != nil {
		t.Fatal(err)
	}
	held := []*job.Held{{Server: 0, Name: "w0", Origin: "w0", Rows: 4, TotalRows: 4}}
	for index := range 2 {
		cfg := pstest.Config(1)
		cfg.Index, cfg.Servers, cfg.Before = index, 2, held
		cfg.Peer = func(int) (rpc.ParameterServerClient, error) { return old.Client, nil }
		if index == 0 {
			cfg.Same = old.Server
		}
		half := pstest.SGD(index, true, 1, 2)
		half.Service.Slices[0].FirstRow, half.Service.Slices[0].TotalRows = int64(2*index), 4
		s := pstest.New(t, cfg)
		s.Serve(half)
		move := func(fence id.Fence, round id.Round) (int64, error) {
			who := pstest.Identity
			who.Generation, who.Fence = g+1, fence
			a, err := s.Client.Restore(t.Context(), &rpc.RestoreRequest{Id: who.Of(0, round, 0)})
			return a.GetBytes(), wire.FromStatus("", err)
		}
		unready := func(when string) {
			t.Helper()
			if _, err := s.Freeze(g + 1); !errors.Is(wire.FromStatus("", err), fault.Unavailable) {
				t.Errorf("%s it answers %v", when, err)
			}
		}
		unready("before the move")
		if _, err := move(10, 2); !errors.Is(err, fault.Stale) {
			t.Errorf("the state of a round that is past: %v", err)
		}
		unready("after a move that has failed")
		for try := range 2 { // the answer to the first was lost
			if n, err := move(11, 3); err != nil || n != int64(8*index*(1-try)) {
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
		if _, err := move(10, 3); !errors.Is(err, fault.Fenced) {
			t.Errorf("a coordinator that has lost the lock: %v", err)
		}
		who := pstest.Identity
		who.Generation, who.Fence = g+1, 12
		if f, err := s.Client.Freeze(t.Context(), &rpc.FreezeRequest{Id: who.Of(0, 0, 0)}); err != nil || f.Generation != g+1 || f.Round != 3 || len(f.Declared)+len(f.Applied) > 0 {
			t.Errorf("it tells %v, %v", f, err)
		}
		who.Generation = g + 2
		if _, err := s.Client.Resume(t.Context(), &rpc.ResumeRequest{Id: who.Of(0, 0, 0), Round: 3, Members: pstest.Members(0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := move(12, 3); !errors.Is(err, fault.Stale) {
			t.Errorf("a move to a server that is in use: %v", err)
		}
		want := []float32{float32(20*index) - 3, float32(20*index) + 7}
		a := pstest.Trainer{Client: s.Client, Generation: g + 2}
		if w, _, err := a.Get(t.Context(), 3, "w0", 2); err != nil || !slices.Equal(w.Float32s(), want) {
			t.Errorf("it has %v, %v; want %v", w, err, want)
		}
		if index > 0 {
			continue
		}
		if l, err := wire.Ledger(t.Context(), "pserver 0", s.Client, &rpc.LedgerRequest{Job: "job"}); err != nil || len(l.Passes) != 1 || l.Passes[0].Records != 3 {
			t.Errorf("the ledger is %v, %v", l, err)
		}
	}
	a := pstest.Trainer{Client: old.Client, Generation: g + 1}
	if w, _, err := a.Get(t.Context(), 3, "w0", 4); err != nil || !slices.Equal(w.Float32s(), []float32{-3, 7, 17, 27}) {
		t.Errorf("the server before has %v, %v", w, err)
	}
}

// Rows that no server has are not made up.
func TestMoveWithoutAllRows(t *testing.T) {
	cfg := pstest.Config(1)
	cfg.Before = []*job.Held{{Name: "w0", Origin: "w0", Rows: 3, TotalRows: 4}}
	cfg.Same = pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4)).Server
	s := pstest.New(t, cfg)
	s.Serve(pstest.SGD(0, true, 1, 4))
	_, err := s.Client.Restore(t.Context(), &rpc.RestoreRequest{Id: pstest.Identity.Of(0, 0, 0)})
	if err = wire.FromStatus("", err); !errors.Is(err, fault.Internal) {
		t.Errorf("it answers %v", err)
	}
}

// A server that is told that nobody needs the placement before keeps nothing of it: not the server of its process, which has all rows of that.
func TestServersOfPlacementsBeforeGo(t *testing.T) {
	cfg := pstest.Config(1)
	cfg.Before, cfg.Same = []*job.Held{}, pserver.New(pstest.Config(1))
	before := weak.Make(cfg.Same)
	s := pserver.New(cfg)
	cfg.Same = nil
	if runtime.GC(); before.Value() == nil {
		t.Fatal("the server before is gone while it may be needed")
	}
	pserver.ForgetBefore(t.Context(), s)
	if runtime.GC(); before.Value() != nil {
		t.Error("the server before stays")
	}
	runtime.KeepAlive(s)
}
