package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// A slowServer sends rows only when the test lets it.
type slowServer struct {
	rpc.ParameterServerClient
	asked chan struct{} // gets a token with each request
	may   chan error    // each lets one request go on: to the server, or with an error to nobody
}

func (s slowServer) CopyRows(ctx context.Context, m *rpc.CopyRequest, opts ...grpc.CallOption) (*rpc.CopyResponse, error) {
	s.asked <- struct{}{}
	select {
	case err := <-s.may:
		if err != nil {
			return nil, err
		}
		return s.ParameterServerClient.CopyRows(ctx, m, opts...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// arriving is a server that has trained 3 rounds, and the second of two servers of the next placement, which asks for its half.
type arriving struct {
	t    *testing.T
	old  *pstest.Server
	next *pstest.Server
	slow slowServer
}

func newArriving(t *testing.T) *arriving {
	whole := pstest.SGD(0, true, 1, 4)
	copy(whole.Variables["w0"].Float32s(), []float32{0, 10, 20, 30})
	a := &arriving{t: t, old: pstest.Start(t, pstest.Config(1), whole)}
	for round := range uint64(3) {
		trainRound(t, a.old, round)
	}
	a.pause(g, 3)
	a.slow = slowServer{a.old.Client, make(chan struct{}, 8), make(chan error)}
	cfg := pstest.Config(1)
	cfg.Index, cfg.Servers = 1, 2
	cfg.Before = []*job.Held{{Server: 0, Name: "w0", Origin: "w0", Rows: 4, TotalRows: 4}}
	cfg.Peer = func(int) (rpc.ParameterServerClient, error) { return a.slow, nil }
	half := pstest.SGD(1, true, 1, 2)
	half.Service.Slices[0].FirstRow, half.Service.Slices[0].TotalRows = 2, 4
	a.next = pstest.New(t, cfg)
	a.next.Serve(half)
	return a
}

// pause ends a generation of the server before, and begins the next one.
func (a *arriving) pause(generation id.Generation, round uint64) {
	a.t.Helper()
	if _, err := a.old.Client.Freeze(a.t.Context(), &rpc.FreezeRequest{Id: byCoordinator(generation).Of(0, 0, 0)}); err != nil {
		a.t.Fatal(err)
	}
	m := &rpc.ResumeRequest{Id: byCoordinator(generation+1).Of(0, 0, 0), Round: round, Members: pstest.Members(0)}
	if _, err := a.old.Client.Resume(a.t.Context(), m); err != nil {
		a.t.Fatal(err)
	}
}

// move asks for the state of a round, which may arrive later, as the coordinator of a generation.
func (a *arriving) move(generation id.Generation, round id.Round) {
	a.t.Helper()
	m, err := a.next.Client.Restore(a.t.Context(), &rpc.RestoreRequest{Id: byCoordinator(generation).Of(0, round, 0), Later: true})
	if err != nil || m.Bytes != 0 {
		a.t.Fatalf("%v, %v", m, err)
	}
	<-a.slow.asked
}

// byCoordinator is who speaks for a coordinator in a generation.
func byCoordinator(generation id.Generation) wire.Identity {
	who := pstest.Identity
	who.Generation, who.Fence = generation, 10
	return who
}

// train begins a generation on the next server.
func (a *arriving) train(generation id.Generation, round uint64) {
	a.t.Helper()
	f, err := a.next.Client.Freeze(a.t.Context(), &rpc.FreezeRequest{Id: byCoordinator(generation-1).Of(0, 0, 0)})
	if err != nil || f.Round != round || len(f.Declared)+len(f.Applied) > 0 {
		a.t.Fatalf("it tells %v, %v", f, err)
	}
	if _, err := a.next.Client.Resume(a.t.Context(), &rpc.ResumeRequest{Id: byCoordinator(generation).Of(0, 0, 0), Round: round, Members: pstest.Members(0)}); err != nil {
		a.t.Fatal(err)
	}
}

// arrived waits until the next server has all rows.
func (a *arriving) arrived() (*rpc.ArrivedResponse, error) {
	m, err := a.next.Client.Arrived(a.t.Context(), &rpc.ArrivedRequest{Id: byCoordinator(0).Of(0, 0, 0)})
	return m, wire.FromStatus("", err)
}

// round is the version that the next server serves.
func (a *arriving) round() uint64 {
	a.t.Helper()
	m, err := a.next.Client.Status(a.t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil {
		a.t.Fatal(err)
	}
	return m.Round
}

// While rows arrive, a generation begins and ends, and a trainer reads and contributes. All of that waits, and has the bits of a server that had its rows.
func TestRowsArriveLater(t *testing.T) {
	a := newArriving(t)
	a.move(g+1, 3)
	a.train(g+2, 3)
	a.train(g+3, 3) // a trainer was lost
	b := pstest.Trainer{Client: a.next.Client, Generation: g + 3}
	results := make(chan error, 2)
	go func() {
		w, _, err := b.Get(t.Context(), 3, "w0", 2)
		if err == nil && !slices.Equal(w.Float32s(), []float32{17, 27}) {
			err = fmt.Errorf("version 3 is %v", w.Float32s())
		}
		results <- err
		if _, err = b.Send(t.Context(), 3, "w0@GRAD", pstest.Filled(2, 1)); err == nil {
			err = b.Barrier(t.Context(), 3, 1, 1)
		}
		results <- err
	}()
	if have := a.round(); have != 2 {
		t.Errorf("without its rows it serves version %d, want 2: that of round 3 is on its way", have)
	}
	select {
	case err := <-results:
		t.Errorf("a trainer reads rows that are not here: %v", err)
	default:
	}
	a.slow.may <- nil
	if m, err := a.arrived(); err != nil || m.Bytes != 8 {
		t.Errorf("it tells %v, %v", m, err)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if w, _, err := b.Get(t.Context(), 4, "w0", 2); err != nil || !slices.Equal(w.Float32s(), []float32{16, 26}) {
		t.Errorf("after a round it has %v, %v", w, err)
	}
}

// A move that was given up leaves nothing behind: the job trains on with the placement before, and moves later.
func TestRowsArriveForNothing(t *testing.T) {
	for name, asked := range map[string]bool{"asked after the job has gone on": false, "while rows are on their way": true} {
		a := newArriving(t)
		a.move(g+1, 3)
		if !asked {
			b := pstest.Trainer{Client: a.old.Client, Generation: g + 1}
			if _, err := b.Send(t.Context(), 3, "w0@GRAD", pstest.Filled(4, 1)); err != nil {
				t.Fatal(err)
			}
			if err := b.Barrier(t.Context(), 3, 1, 1); err != nil {
				t.Fatal(err)
			}
			if _, _, err := b.Get(t.Context(), 4, "w0", 4); err != nil {
				t.Fatal(err)
			}
			a.slow.may <- nil
			if m, err := a.arrived(); err == nil && m.Bytes > 0 { // it may be forgotten already
				t.Errorf("%s: it has rows of a round that is past: %v", name, m)
			}
		}
		round := uint64(3)
		if !asked {
			round = 4
		}
		a.pause(g+1, round)
		a.move(g+2, id.Round(round)) // gives up what was asked for
		a.slow.may <- nil
		if m, err := a.arrived(); err != nil || m.Bytes != 8 {
			t.Fatalf("%s: it tells %v, %v", name, m, err)
		}
		a.train(g+3, round)
		b := pstest.Trainer{Client: a.next.Client, Generation: g + 3}
		want := []float32{20 - float32(round), 30 - float32(round)}
		if w, _, err := b.Get(t.Context(), round, "w0", 2); err != nil || !slices.Equal(w.Float32s(), want) {
			t.Errorf("%s: it has %v, %v; want %v", name, w, err, want)
		}
	}
}

// A server that cannot have its rows any more ends, so that the job goes back to a checkpoint.
func TestRowsDoNotArrive(t *testing.T) {
	a := newArriving(t)
	a.move(g+1, 3)
	a.train(g+2, 3)
	a.slow.may <- fault.New(fault.LostMember, "a pserver that has other rows")
	if m, err := a.arrived(); err == nil {
		t.Errorf("it tells %v", m)
	}
	if err := a.next.Wait(); !errors.Is(err, fault.LostMember) {
		t.Errorf("it ends with %v", err)
	}
}

// A job that goes back to a checkpoint while rows arrive needs none of them.
func TestRestoreWhileRowsArrive(t *testing.T) {
	a := newArriving(t)
	c := cutter{a.old, t.TempDir()}
	name := c.publish(t, 3, a.old)
	a.move(g+1, 3)
	a.train(g+2, 3)
	if _, err := (cutter{a.next, c.dir}).restore(t.Context(), 12, g+3, 3, 1, name); err != nil {
		t.Fatal(err)
	}
	who := byCoordinator(g + 4)
	who.Fence = 12
	if _, err := a.next.Client.Resume(t.Context(), &rpc.ResumeRequest{Id: who.Of(0, 0, 0), Round: 3, Members: pstest.Members(0)}); err != nil {
		t.Fatal(err)
	}
	b := pstest.Trainer{Client: a.next.Client, Generation: g + 4}
	if w, _, err := b.Get(t.Context(), 3, "w0", 2); err != nil || !slices.Equal(w.Float32s(), []float32{17, 27}) {
		t.Errorf("it has %v, %v", w, err)
	}
}
