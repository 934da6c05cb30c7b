package pserver_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
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

// A single trainer's contributions are read where they are, whatever the carrier; they count when their connection has ended before they are declared.
func TestOneTrainer(t *testing.T) {
	sizes := []int64{3, 0, 1_200_000}
	for _, of := range []pstest.Trainer{{}, shared(t, 0)} {
		s := withData(t, 1, sizes...)
		l := open(t, s, of, 0, 3)
		for round := range uint64(4) {
			all(t, l.Contribute(round, float32(round+1), sizes...))
			if round == 2 {
				l.Free()
				l = open(t, s, of, round, 3)
			}
			sum := float32((round + 1) * (round + 2) / 2)
			all(t, l.Declare(round, 1, 3), values(l, round+1, -sum))
		}
		of.Client = s.Client
		if _, err := of.Open(t.Context(), 4, []string{"w0@GRAD"}, []string{"w0@GRAD"}, nil); !errors.Is(err, fault.Foreign) {
			t.Errorf("a trainer that asks for gradients: %v", err)
		}
		if n := s.Buffers(); of.Carrier == dataplane.Shared && n > 3 {
			t.Errorf("%d buffers", n)
		}
	}
}

// A gradient that is read in place belongs to the connection that it came over. Who asks for it meanwhile gets it when the update has ended.
func TestGradientThatIsAskedForWhileItIsRead(t *testing.T) {
	p := pstest.SGD(0, true, 1, 3)
	p.InPlace = true
	var s *pstest.Server
	of := shared(t, 0)
	update, asked := p.Blocks[p.Service.Optimize[0]], make(chan error, 1)
	p.Blocks[p.Service.Optimize[0]] = func(ctx context.Context, step ops.Step) error {
		go func() {
			_, _, err := pstest.Trainer{Client: s.Client}.Get(t.Context(), 0, "w0@GRAD", 3)
			asked <- err
		}()
		for !s.CopierWaits() && len(asked) == 0 {
			runtime.Gosched()
		}
		if len(asked) > 0 {
			t.Error("a gradient is sent while the update reads it")
		}
		return update(ctx, step)
	}
	s = pstest.Start(t, pstest.WithData(t, pstest.Config(1)), p)
	l := open(t, s, of, 0, 1)
	all(t, l.Contribute(0, 1, 3), l.Declare(0, 1, 1), values(l, 1, -1), <-asked)
}

// A server holds its parameters, the merged gradients, and for each member the slices that have arrived. Those in shared memory are
// not in the heap, until their connection ends. Rounds and new connections add nothing.
func TestMemoryOfAServer(t *testing.T) {
	const members, size, slice = 8, 1 << 20, 4 << 20 // elements; bytes
	for _, of := range []pstest.Trainer{{}, shared(t, 0)} {
		before := heap()
		s := withData(t, members, size)
		lines := make([]*pstest.Line, members)
		v := pstest.Filled(size, 1)
		for round := range uint64(3) {
			for rank := range lines {
				of.Rank = uint32(rank)
				if lines[rank] == nil || rank%2 == int(round%2) { // half of the connections are opened anew
					if lines[rank] != nil {
						lines[rank].Free()
						untilLines(t, s, members-1)
					}
					lines[rank] = open(t, s, of, round, 1)
				}
				all(t, lines[rank].Data(round, []int{0}, v), lines[rank].Answer(dataplane.Ack, round))
			}
			of.Rank = 0
			lines[0].Free() // what it has sent counts
			untilLines(t, s, members-1)
			lines[0] = open(t, s, of, round, 1)
			most := int64(2+members) * slice // parameters, gradients, and what has arrived
			if of.Carrier == dataplane.Shared {
				most = int64(2+round+1) * slice // and what was copied when its connection ended
			}
			if held := heap() - before - slice; held > most+slice/2 { // v has one slice
				t.Errorf("round %d: %d MB of heap in the server, want at most %d", round, held>>20, most>>20)
			}
			for _, l := range lines {
				all(t, l.Declare(round, 1, 1))
			}
			for _, l := range lines {
				all(t, values(l, round+1, -float32(round+1)))
			}
		}
		for _, l := range lines {
			l.Free()
		}
	}
}

// heap returns how many bytes live objects have.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
