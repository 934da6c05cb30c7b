package pserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A pair is a server, its standby, and who is the server now.
type pair struct {
	*pstest.Server
	standby *pstest.Server
	program func() *pstest.Program
	sizes   []int64
	starts  uint32
}

// startPair starts a server of a sync job with two trainers. It has no standby yet.
func startPair(t testing.TB, sizes ...int64) *pair {
	return startPairOf(t, func() *pstest.Program { return pstest.Momentum(0, true, 0.5, sizes...) }, sizes...)
}

func startPairOf(t testing.TB, program func() *pstest.Program, sizes ...int64) *pair {
	cfg := pstest.WithData(t, pstest.Config(2))
	cfg.Standby = true
	return &pair{Server: pstest.Start(t, cfg, program()), program: program, sizes: sizes}
}

// follow starts a standby of the server.
func (p *pair) follow(t testing.TB) {
	cfg := pstest.WithData(t, pstest.Config(2))
	server := p.Client
	cfg.Standby, cfg.Peer = true, func(int) (rpc.ParameterServerClient, error) { return server, nil }
	p.starts++
	cfg.Follows = &pserver.Follows{Start: p.starts, TakeOver: func(context.Context) error { return nil }}
	p.standby = pstest.New(t, cfg)
	p.standby.Serve(p.program())
}

// inStep waits until the standby may take over.
func (p *pair) inStep(t testing.TB) {
	t.Helper()
	for until := time.Now().Add(pstest.Patience); ; {
		s, err := p.Status(context.Background(), &rpc.StatusRequest{Job: pstest.Identity.Job})
		if err != nil || time.Now().After(until) {
			t.Fatalf("the standby is not in step: %v, %v", s, err)
		}
		if s.Standby == rpc.StatusResponse_IN_STEP {
			return
		}
	}
}

// takeOver kills the server, and makes the standby the server.
func (p *pair) takeOver(t testing.TB, history uint64) error {
	p.Stop()
	_, err := p.standby.Client.TakeOver(t.Context(), &rpc.TakeOverRequest{Id: pstest.Identity.Of(0, 0, 0), History: history})
	if err == nil {
		p.Server = p.standby
	}
	return wire.FromStatus("standby", err)
}

// A shareOf is what a trainer contributes to a round: it is a function of both.
func (p *pair) shareOf(rank uint32, round uint64) (values []*tensor.Tensor) {
	random := rand.New(rand.NewPCG(uint64(rank), round))
	for _, n := range p.sizes {
		some := [13]float32{} // which repeat: n may be large
		for i := range some {
			some[i] = random.Float32() - 0.5
		}
		v := pstest.Vector(n)
		for out := v.Float32s(); len(out) > 0; out = out[min(len(some), len(out)):] {
			copy(out, some[:])
		}
		values = append(values, v)
	}
	return values
}

// send sends the contribution of a trainer; declare declares it.
func (p *pair) send(ctx context.Context, generation uint64, rank uint32, round uint64) error {
	a := pstest.Trainer{Client: p.Client, Rank: rank, Generation: generation}
	for i, v := range p.shareOf(rank, round) {
		if _, err := a.Send(ctx, round, fmt.Sprintf("w%d@GRAD", i), v); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) declare(ctx context.Context, generation uint64, rank uint32, round uint64) error {
	a := pstest.Trainer{Client: p.Client, Rank: rank, Generation: generation}
	record := int64(2*round) + int64(rank)
	return a.Declare(ctx, round, &rpc.Declared{Rows: int64(rank) + 3, Records: []*rpc.RecordRange{{From: record, To: record + 1}}}, len(p.sizes))
}

// train trains a round.
func (p *pair) train(t testing.TB, generation, round uint64) {
	t.Helper()
	for rank := range uint32(2) {
		err := p.send(t.Context(), generation, rank, round)
		if err == nil {
			err = p.declare(t.Context(), generation, rank, round)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.values(t, generation, round+1)
}

// values returns the bytes of all parameters of a version.
func (p *pair) values(t testing.TB, generation, version uint64) []byte {
	t.Helper()
	var all []byte
	for i, n := range p.sizes {
		v, _, err := (pstest.Trainer{Client: p.Client, Generation: generation}).Get(t.Context(), version, fmt.Sprintf("w%d", i), n)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := wire.Memory(v)
		all = append(all, b...)
	}
	return all
}

// records tells how many records the ledger has, and how many of them more than once.
func (p *pair) records(t testing.TB) (records, again int64) {
	t.Helper()
	l, err := wire.Ledger(t.Context(), "pserver 0", p.Client, &rpc.LedgerRequest{Job: "job"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pass := range l.Passes {
		records, again = records+pass.Records, again+pass.Again
	}
	return records, again
}

// undisturbed returns the parameters after so many rounds without any loss.
func undisturbed(t testing.TB, rounds uint64, sizes ...int64) []byte {
	p := startPair(t, sizes...)
	for round := range rounds {
		p.train(t, g, round)
	}
	return p.values(t, g, rounds)
}

// beyondAPortion is the number of elements of a slice that is more than is sent between two rounds. Short tests, which look for races, have less to compute.
func beyondAPortion() int64 {
	if testing.Short() {
		return 1 << 18
	}
	return 4 << 20
}

// A standby that catches up while rounds go on is equal to its server in every bit, whenever it takes over. Those who have sent something for the round that is
// open then send it again, in the same generation. Another standby follows the one that has taken over.
func TestStandbyTakesOver(t *testing.T) {
	sizes := []int64{3, beyondAPortion(), 7}
	const rounds = 12
	want := undisturbed(t, rounds, sizes...)
	p := startPair(t, sizes...)
	for round := range uint64(rounds) {
		switch round {
		case 2, 6:
			p.follow(t)
		case 4: // one trainer has sent its share, the other has declared it, too
			p.inStep(t)
			for rank := range uint32(2) {
				if err := p.send(t.Context(), g, rank, round); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.declare(t.Context(), g, 1, round); err != nil {
				t.Fatal(err)
			}
			if err := p.takeOver(t, 0); err != nil {
				t.Fatal(err)
			}
		case 9:
			p.inStep(t)
			if err := p.takeOver(t, 0); err != nil {
				t.Fatal(err)
			}
		}
		p.train(t, g, round)
	}
	if !bytes.Equal(p.values(t, g, rounds), want) {
		t.Error("the parameters differ from those without a loss")
	}
	if records, again := p.records(t); records != 2*rounds || again != 0 {
		t.Errorf("the ledger has %d records and %d more than once", records, again)
	}
}

// A server tells nobody that a round is applied before its standby has it. It waits for a standby in step whose connection has ended, until one begins anew.
func TestServerWaitsForItsStandby(t *testing.T) {
	p := startPair(t, 4)
	p.train(t, g, 0)
	p.follow(t)
	p.inStep(t)
	p.train(t, g, 1)
	p.standby.Stop()
	for rank := range uint32(2) {
		if err := errors.Join(p.send(t.Context(), g, rank, 2), p.declare(t.Context(), g, rank, 2)); err != nil {
			t.Fatal(err)
		}
	}
	untilWaits(t, p.Server, "a standby that is in step")
	p.follow(t)
	p.values(t, g, 3)
	p.inStep(t)
	p.train(t, g, 3)
	if err := p.takeOver(t, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.values(t, g, 4), undisturbed(t, 4, 4)) {
		t.Error("the parameters differ from those without a loss")
	}
}

// A standby takes over only what it has: not before it is in step, and not the state of another history.
func TestTakeOverRefuses(t *testing.T) {
	p := startPair(t, 4)
	if _, err := p.Client.TakeOver(t.Context(), &rpc.TakeOverRequest{Id: pstest.Identity.Of(0, 0, 0)}); !errors.Is(wire.FromStatus("", err), fault.LostMember) {
		t.Errorf("a server that is no standby is told %v", err)
	}
	p.follow(t)
	p.inStep(t)
	if err := p.takeOver(t, 1); !errors.Is(err, fault.LostMember) {
		t.Errorf("a standby of an earlier history is told %v", err)
	}
	if err := p.takeOver(t, 0); err != nil {
		t.Error(err)
	}
	if err := p.takeOver(t, 0); err == nil { // the test stops the standby itself here
		t.Error("a standby that has ended takes over")
	}
	q := startPair(t, 4)
	q.Stop()
	q.follow(t)
	if err := q.takeOver(t, 0); !errors.Is(err, fault.LostMember) {
		t.Errorf("a standby that has heard nothing is told %v", err)
	}
}

// What a coordinator does reaches the standby before it is answered: the generation that a server is lost in ends at its standby, and Freeze says which
// contributions may be missing.
func TestGenerationsOfAStandby(t *testing.T) {
	p := startPair(t, 4)
	p.follow(t)
	p.inStep(t)
	p.train(t, g, 0)
	if f, err := p.Freeze(g); err != nil || f.Lacks {
		t.Fatal(f, err)
	}
	if err := p.Resume(g+1, 1, pstest.Members(0, 1)); err != nil {
		t.Fatal(err)
	}
	p.train(t, g+1, 1)
	if err := errors.Join(p.send(t.Context(), g+1, 0, 2), p.declare(t.Context(), g+1, 0, 2)); err != nil {
		t.Fatal(err)
	}
	if err := p.takeOver(t, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Resume(g+2, 2, pstest.Members(0, 1)); !errors.Is(wire.FromStatus("", err), fault.Unavailable) {
		t.Errorf("a generation that begins before the last one has ended: %v", err)
	}
	if err := errors.Join(p.send(t.Context(), g+1, 1, 2), p.declare(t.Context(), g+1, 1, 2)); err != nil {
		t.Fatal(err)
	}
	f, err := p.Freeze(g + 1)
	if err != nil || !f.Lacks || f.Round != 2 || len(f.Declared) != 1 || f.Declared[0].Rank != 1 || len(f.Applied) != 2 {
		t.Fatal(f, err)
	}
	if err := p.Resume(g+2, 3, pstest.Members(0, 1), f.Applied...); err == nil {
		t.Error("a round is committed that is not here")
	}
	if err := p.Resume(g+2, 2, pstest.Members(0, 1)); err != nil {
		t.Fatal(err)
	}
	p.train(t, g+2, 2)
	if !bytes.Equal(p.values(t, g+2, 3), undisturbed(t, 3, 4)) {
		t.Error("the parameters differ from those without a loss")
	}
	if f, err := p.Freeze(g + 2); err != nil || f.Lacks {
		t.Error(f, err)
	}
}

// A standby ends with the job. Trainers that have completed at the server need not at the standby.
func TestEndOfAStandby(t *testing.T) {
	for _, lost := range []bool{false, true} {
		p := startPair(t, 4)
		p.follow(t)
		p.inStep(t)
		p.train(t, g, 0)
		if err := (pstest.Trainer{Client: p.Client}).Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lost {
			if err := p.takeOver(t, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := (pstest.Trainer{Client: p.Client, Rank: 1}).Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
		if err := p.Resume(g+1, 1, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.standby.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// At whatever moment the server is lost, no round is lost and none is applied twice.
func TestStandbyProperty(t *testing.T) {
	const rounds = 6
	want := undisturbed(t, rounds, 3, 2)
	rapid.Check(t, func(r *rapid.T) {
		p := startPair(t, 3, 2)
		p.follow(t)
		lost := rapid.SliceOfNDistinct(rapid.Uint64Range(0, rounds-1), 0, 3, rapid.ID).Draw(r, "lost in")
		for round := range uint64(rounds) {
			if slices.Contains(lost, round) {
				p.inStep(t)
				for rank := range uint32(2) {
					switch rapid.IntRange(0, 2).Draw(r, "trainer") {
					case 2:
						if err := errors.Join(p.send(t.Context(), g, rank, round), p.declare(t.Context(), g, rank, round)); err != nil {
							t.Fatal(err)
						}
					case 1:
						if err := p.send(t.Context(), g, rank, round); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := p.takeOver(t, 0); err != nil {
					t.Fatal(err)
				}
				p.follow(t)
				for rank := range uint32(2) { // as trainers do: to a server that has the round, this says nothing
					_ = errors.Join(p.send(t.Context(), g, rank, round), p.declare(t.Context(), g, rank, round))
				}
				p.values(t, g, round+1)
				continue
			}
			p.train(t, g, round)
		}
		if !bytes.Equal(p.values(t, g, rounds), want) {
			r.Error("the parameters differ from those without a loss")
		}
		if records, again := p.records(t); records != 2*rounds || again != 0 {
			r.Errorf("the ledger has %d records and %d more than once", records, again)
		}
	})
}
