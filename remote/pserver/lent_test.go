package pserver_test

import (
	"runtime"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// shared is a trainer that shares memory with its server, where the system has that.
func shared(t *testing.T, rank uint32) pstest.Trainer {
	t.Helper()
	if runtime.GOOS != "linux" {
		return pstest.Trainer{Rank: rank}
	}
	return pstest.Trainer{Rank: rank, Carrier: dataplane.Shared}
}

// What has arrived in the memory of a connection counts when the connection has ended, and its memory with it.
func TestLentMemoryThatIsGone(t *testing.T) {
	sizes := []int64{3, 0, 2_500_000}
	s := withData(t, 2, sizes...)
	b := open(t, s, shared(t, 1), 0, 3)
	for round := range uint64(2) {
		a := open(t, s, shared(t, 0), round, 3)
		all(t, a.Contribute(round, 1, sizes...))
		a.Free()
		untilLines(t, s, 1)
		all(t, b.Contribute(round, 3, sizes...))
		a = open(t, s, shared(t, 0), round, 3)
		all(t, a.Contribute(round, 50, sizes...)) // the first one counts
		all(t, a.Declare(round, 1, 3), b.Declare(round, 1, 3))
		want := -2 * float32(round+1)
		all(t, values(a, round+1, want), values(b, round+1, want))
		a.Free()
		untilLines(t, s, 1)
	}
}

// A connection keeps its memory while a round reads it, and a coordinator may commit a round whose connections have ended.
func TestLentMemoryOfARoundToCommit(t *testing.T) {
	const size = 1 << 20
	s := withData(t, 2, size)
	a, b := open(t, s, shared(t, 0), 0, 1), open(t, s, shared(t, 1), 0, 1)
	all(t, a.Contribute(0, 1, size), b.Contribute(0, 5, size), a.Declare(0, 1, 1))
	first := uint64(pstest.Identity.Generation)
	if _, err := s.Freeze(first); err != nil {
		t.Fatal(err)
	}
	b.Free()
	untilLines(t, s, 1)
	all(t, s.Resume(first+1, 1, []*rpc.Member{{Rank: 0, Since: first + 1}}, &rpc.Declared{Rank: 0, Rows: 1}, &rpc.Declared{Rank: 1, Rows: 3}))
	w, _, err := pstest.Trainer{Client: s.Client, Generation: first + 1}.Get(t.Context(), 1, "w0", size)
	if err != nil || w.Float32s()[size-1] != -4 {
		t.Errorf("after the commit w0 is %v, %v; want -4", w, err)
	}
	untilLines(t, s, 0)
	if n := s.Buffers(); n > 2 {
		t.Errorf("%d buffers are free; want at most those that were copied", n)
	}
}

// A trainer that receives nothing writes its next contribution while this one is applied. What it sent first counts.
func TestNothingLentWithoutParameters(t *testing.T) {
	s := withData(t, 2, 4, 4)
	of := shared(t, 0)
	of.Client = s.Client
	l, err := of.Open(t.Context(), 0, []string{"w0@GRAD", "w1@GRAD"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	all(t, l.Contribute(0, 1, 4, 4), l.Declare(0, 1, 2), l.Answer(dataplane.Ack, 0))
	all(t, l.Data(1, []int{0, 1}, pstest.Filled(4, 7), pstest.Filled(4, 7)))
	b := open(t, s, pstest.Trainer{Rank: 1}, 0, 2)
	all(t, b.Contribute(0, 3, 4, 4), b.Declare(0, 1, 2), values(b, 1, -2), l.Answer(dataplane.Ack, 1))
}
