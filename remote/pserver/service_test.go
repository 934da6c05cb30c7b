package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// large is the number of elements of 16 MB. A stream takes 8 MB that nobody reads, as package wire sets its window.
const large = 4 << 20

// receiving is a trainer that is lost while it receives. It has a connection of its own, and reads only the first chunk from it.
func receiving(t *testing.T, s *pstest.Server, id *rpc.Identity, name string) {
	t.Helper()
	conn, err := wire.Dial(s.Address, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); conn.Close() })
	stream, err := rpc.NewParameterServerClient(conn).GetVariable(ctx, &rpc.GetRequest{Id: id, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.Bytes != 4*large {
		t.Fatalf("%d bytes, %v", first.GetBytes(), err)
	}
}

// waitsFor checks that the server waits for a trainer.
func waitsFor(t *testing.T, s *pstest.Server, name string) {
	t.Helper()
	status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil || !slices.ContainsFunc(status.Waits, func(w *job.Wait) bool { return slices.Equal(w.By, []string{name}) }) {
		t.Errorf("waits %v, %v; want one for %s", status.GetWaits(), err, name)
	}
}

// A trainer is lost while it receives the parameters of a round. The next round waits for it, by name, until its generation ends. Then the others
// train on, although the lost trainer still does not read.
func TestTrainerLostWhileReceiving(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*pstest.Patience)
	defer cancel()
	s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, true, 1, large))
	a, lost := pstest.Trainer{Client: s.Client}, pstest.Trainer{Client: s.Client, Rank: 1}
	contribute := func(of pstest.Trainer, round uint64) {
		t.Helper()
		if _, err := of.Send(ctx, round, "w0@GRAD", pstest.Filled(large, 1)); err != nil {
			t.Fatal(err)
		}
		if err := of.Barrier(ctx, round, 2, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []pstest.Trainer{a, lost} {
		contribute(of, 0)
	}
	receiving(t, s, lost.ID(1), "w0")
	if _, version, err := a.Get(ctx, 1, "w0", large); err != nil || version != 1 {
		t.Fatalf("while a trainer that is lost receives, another has version %d, %v", version, err)
	}
	contribute(a, 1)
	waitsFor(t, s, "trainer 1")
	state, err := s.Freeze(g)
	if err != nil || state.Round != 1 || len(state.Declared) != 1 || state.Declared[0].Rank != 0 || len(state.Completed) != 0 ||
		len(state.Applied) != 2 {
		t.Fatalf("the server says %v, %v; want round 1, applied of two and declared by trainer 0 only", state, err)
	}
	if err := s.Resume(g+1, 1, pstest.Members(0)); err != nil {
		t.Fatal(err)
	}
	a.Generation = g + 1
	for round := uint64(1); round < 3; round++ {
		contribute(a, round)
		value, version, err := a.Get(ctx, round+1, "w0", large)
		if err != nil || version != round+1 || value.Float32s()[large-1] != -float32(version) {
			t.Fatal(version, err)
		}
	}
	if _, _, err := lost.Get(ctx, 2, "w0", large); !errors.Is(err, fault.Superseded) || !strings.Contains(err.Error(), "trainer 1 in generation 7") {
		t.Errorf("who comes back is told %v", err)
	}
}

// upload is a stream of SendVariable whose second half arrives when between has returned.
type upload struct {
	grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse] // nil
	ctx                                                             context.Context
	header                                                          *rpc.VariableChunk
	between                                                         func()
	chunks                                                          int
}

func (u *upload) Context() context.Context { return u.ctx }

func (u *upload) SendMsg(any) error { return nil }

func (u *upload) RecvMsg(m any) error {
	u.chunks++
	h, in := u.header, m.(*wire.Incoming)
	half := int(h.Bytes / 2)
	switch u.chunks {
	case 2:
		u.between()
		h = &rpc.VariableChunk{Offset: int64(half)}
	case 3:
		return io.EOF
	}
	var room []byte
	room, in.Refused = in.Place(h, half)
	for i := range room {
		room[i] = 0x41
	}
	return nil
}

// When a generation ends, neither a contribution that is on its way counts nor one that has arrived.
func TestContributionAcrossTheEndOfItsGeneration(t *testing.T) {
	ctx := t.Context()
	s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, true, 1, 4))
	a, b := pstest.Trainer{Client: s.Client, Generation: g + 1}, pstest.Trainer{Client: s.Client, Rank: 1}
	if _, err := b.Send(ctx, 0, "w0@GRAD", pstest.Filled(4, 5)); err != nil {
		t.Fatal(err)
	}
	header := &rpc.VariableChunk{Id: pstest.Trainer{}.ID(0), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{4}, Bytes: 16}
	err := s.SendVariable(&upload{ctx: ctx, header: header, between: func() {
		if _, err := s.Freeze(g); err != nil {
			t.Error(err)
		}
		if err := s.Resume(g+1, 0, pstest.Members(0, 1)); err != nil {
			t.Error(err)
		}
	}})
	if !errors.Is(err, fault.Superseded) {
		t.Errorf("the contribution is told %v", err)
	}
	b.Generation = g + 1
	for _, trainer := range []pstest.Trainer{a, b} {
		if duplicate, err := trainer.Send(ctx, 0, "w0@GRAD", pstest.Filled(4, 1)); err != nil || duplicate {
			t.Errorf("the contribution of the next generation: duplicate %v, %v", duplicate, err)
		}
		if err := trainer.Barrier(ctx, 0, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if w, _, err := a.Get(ctx, 1, "w0", 4); err != nil || !slices.Equal(w.Float32s(), []float32{-1, -1, -1, -1}) {
		t.Error(w.Float32s(), err)
	}
}

// A contribution that is cut off in the middle does not count. The next try does.
func TestContributionCutInTheMiddle(t *testing.T) {
	ctx := t.Context()
	const n = 3 * wire.ChunkBytes / 4
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, n))
	a := pstest.Trainer{Client: s.Client}
	for retry := range id.Retry(3) {
		cut, cancel := context.WithCancel(ctx)
		stream, err := s.Client.SendVariable(cut)
		if err != nil {
			t.Fatal(err)
		}
		header := &rpc.VariableChunk{Id: pstest.Identity.Of(0, 0, retry), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{n},
			Bytes: 4 * n}
		data := make([]byte, wire.ChunkBytes)
		for i := range data {
			data[i] = 0x41
		}
		if err := stream.SendMsg(&wire.Outgoing{Header: header, Data: data}); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := stream.RecvMsg(&rpc.SendResponse{}); err == nil {
			t.Fatal("answered before the end")
		}
	}
	if duplicate, err := a.SendAs(ctx, pstest.Identity.Of(0, 0, 3), "w0@GRAD", pstest.Filled(n, 2)); err != nil || duplicate {
		t.Fatal(duplicate, err)
	}
	if err := a.Barrier(ctx, 0, 1, 1); err != nil {
		t.Fatal(err)
	}
	w, _, err := a.Get(ctx, 1, "w0", n)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(w.Float32s(), func(x float32) bool { return x != -2 }); i >= 0 {
		t.Errorf("element %d is %v, want -2", i, w.Float32s()[i])
	}
}

// whole checks that all elements of a vector come from one update.
func whole(v []float32) error {
	for i, x := range v {
		if x != v[0] {
			return fmt.Errorf("torn: element 0 is %v, element %d is %v", v[0], i, x)
		}
	}
	return nil
}

// A reader never sees values of two versions in one variable, in neither mode.
func TestReadersNeverSeeTornValues(t *testing.T) {
	const n, steps = 20_000, 40
	for _, sync := range []bool{true, false} {
		s := pstest.Start(t, pstest.Config(3), pstest.SGD(0, sync, 1, n))
		stop := make(chan struct{})
		read := func(rank uint32) error {
			reader := pstest.Trainer{Client: s.Client, Rank: rank}
			for last := float32(1); ; {
				w, _, err := reader.GetAs(t.Context(), &rpc.GetRequest{Id: reader.ID(0), Name: "w0", AnyVersion: true}, n)
				if err == nil {
					err = whole(w.Float32s())
				}
				if err == nil && w.Float32s()[0] > last {
					err = fmt.Errorf("went back from %v to %v", last, w.Float32s()[0])
				}
				if err != nil {
					return err
				}
				last = w.Float32s()[0]
				select {
				case <-stop:
					return nil
				default:
				}
			}
		}
		train := func() error {
			defer close(stop)
			trainer := pstest.Trainer{Client: s.Client}
			for step := range uint64(steps) {
				if _, err := trainer.Send(t.Context(), step, "w0@GRAD", pstest.Filled(n, 1)); err != nil {
					return err
				}
				if sync {
					for rank := range uint32(3) {
						rows, sent := int64(0), 0
						if rank == 0 {
							rows, sent = 1, 1
						}
						if err := (pstest.Trainer{Client: s.Client, Rank: rank}).Barrier(t.Context(), step, rows, sent); err != nil {
							return err
						}
					}
				}
				w, _, err := trainer.Get(t.Context(), step+1, "w0", n)
				if err != nil {
					return err
				}
				if err := whole(w.Float32s()); err != nil || w.Float32s()[0] != -float32(step+1) {
					return fmt.Errorf("step %d: %v %v", step, w.Float32s()[0], err)
				}
			}
			return nil
		}
		if err := pstest.Parallel(3, func(i int) error {
			if i == 0 {
				return train()
			}
			return read(uint32(i))
		}); err != nil {
			t.Errorf("sync %v: %v", sync, err)
		}
	}
}

// A trainer waits for the version that it asks for, and a final value waits for the completion of all others.
func TestReadersWait(t *testing.T) {
	for _, sync := range []bool{true, false} {
		release := make(chan struct{})
		p := pstest.SGD(0, sync, 1, 2)
		update := p.Blocks[1]
		p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
			<-release
			return update(ctx, step)
		}
		s := pstest.Start(t, pstest.Config(2), p)
		a, b := pstest.Trainer{Client: s.Client}, pstest.Trainer{Client: s.Client, Rank: 1}
		got := make(chan string, 2)
		show := func(w []float32, err error) {
			got <- fmt.Sprint(w, err)
		}
		if _, err := a.Send(t.Context(), 0, "w0@GRAD", pstest.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		if sync {
			for rank, trainer := range []pstest.Trainer{a, b} {
				if err := trainer.Barrier(t.Context(), 0, int64(1-rank), 1-rank); err != nil {
					t.Fatal(err)
				}
			}
		}
		go func() {
			w, _, err := a.Get(t.Context(), 1, "w0", 2)
			show(w.Float32s(), err)
		}()
		close(release)
		if text := <-got; text != "[-1 -1] <nil>" {
			t.Errorf("sync %v: version 1 is %s", sync, text)
		}
		go func() {
			w, _, err := a.GetAs(t.Context(), &rpc.GetRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w0", Final: true}, 2)
			show(w.Float32s(), err)
		}()
		if _, err := b.Send(t.Context(), 1, "w0@GRAD", pstest.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		want := "[-2 -2] <nil>"
		if sync {
			for rank, trainer := range []pstest.Trainer{a, b} {
				if err := trainer.Barrier(t.Context(), 1, int64(rank), rank); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != want {
			t.Errorf("sync %v: the final value is %s, want %s", sync, text, want)
		}
	}
}

func refusals(t *testing.T, s *pstest.Server) map[string]uint64 {
	r, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	return r.Refused
}

// Messages that were applied before, that are late, or that are not of this job are refused and counted by kind. The parameter is what the other
// messages make of it.
func TestRefusedMessagesChangeNothing(t *testing.T) {
	ctx := t.Context()
	p := pstest.SGD(0, true, 1, 4)
	s := pstest.Start(t, pstest.Config(2), p)
	a, b := pstest.Trainer{Client: s.Client, Rank: 0}, pstest.Trainer{Client: s.Client, Rank: 1}
	one, wild := pstest.Filled(4, 1), pstest.Filled(4, 1e6)

	round := func(round uint64) {
		for _, trainer := range []pstest.Trainer{a, b} {
			if duplicate, err := trainer.Send(ctx, round, "w0@GRAD", one); err != nil || duplicate {
				t.Fatal(duplicate, err)
			}
		}
		if duplicate, err := a.Send(ctx, round, "w0@GRAD", wild); err != nil || !duplicate {
			t.Errorf("sent twice: duplicate %v, %v", duplicate, err)
		}
		if n := s.Buffers(); n != 1 {
			t.Errorf("%d buffers are free, want that of the duplicate", n)
		}
		for _, trainer := range []pstest.Trainer{a, a, b} {
			if err := trainer.Barrier(ctx, round, 1, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(0)
	if w, _, err := b.Get(ctx, 1, "w0", 4); err != nil || w.Float32s()[3] != -1 {
		t.Fatal(w, err)
	}
	if n := s.Buffers(); n != 2 {
		t.Errorf("%d buffers are free after the round, want one for each member", n)
	}
	round(1)
	if w, _, err := a.Get(ctx, 2, "w0", 4); err != nil || w.Float32s()[0] != -2 {
		t.Fatal(w, err)
	}

	otherJob, otherProgram, older := pstest.Identity, pstest.Identity, pstest.Identity
	otherJob.Job, otherProgram.Program, older.Generation = "other", []byte{9}, 6
	for name, c := range map[string]struct {
		id       *rpc.Identity
		variable string
		value    *tensor.Tensor
		kind     fault.Kind
	}{
		"another job":        {otherJob.Of(0, 2, 0), "w0@GRAD", wild, fault.Foreign},
		"another program":    {otherProgram.Of(0, 2, 0), "w0@GRAD", wild, fault.Foreign},
		"an old generation":  {older.Of(0, 2, 0), "w0@GRAD", wild, fault.Superseded},
		"no identity":        {nil, "w0@GRAD", wild, fault.Foreign},
		"an old round":       {pstest.Identity.Of(0, 0, 0), "w0@GRAD", wild, fault.Stale},
		"a round to come":    {pstest.Identity.Of(0, 9, 0), "w0@GRAD", wild, fault.Foreign},
		"an unknown trainer": {pstest.Identity.Of(2, 2, 0), "w0@GRAD", wild, fault.Foreign},
		"an unknown name":    {pstest.Identity.Of(0, 2, 0), "w0", wild, fault.Foreign},
		"another shape":      {pstest.Identity.Of(0, 2, 0), "w0@GRAD", pstest.Vector(5), fault.ShapeMismatch},
	} {
		if _, err := a.SendAs(ctx, c.id, c.variable, c.value); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if duplicate, err := a.Send(ctx, 1, "w0@GRAD", wild); err != nil || !duplicate {
		t.Errorf("a replay of the last round: duplicate %v, %v", duplicate, err)
	}
	if err := a.Barrier(ctx, 0, 1, 1); !errors.Is(err, fault.Stale) {
		t.Errorf("a barrier of an old round: %v", err)
	}
	if err := a.Barrier(ctx, 2, 5, 1); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a barrier without its contribution: %v", err)
	}
	if err := (pstest.Trainer{Client: s.Client, Rank: 2}).Complete(ctx); !errors.Is(err, fault.Foreign) {
		t.Errorf("the completion of an unknown trainer: %v", err)
	}
	round(2)
	if w, _, err := a.Get(ctx, 3, "w0", 4); err != nil || !slices.Equal(w.Float32s(), []float32{-3, -3, -3, -3}) {
		t.Errorf("%v %v", w.Float32s(), err)
	}
	want := map[string]uint64{"duplicate message": 7, "stale message": 2, "superseded": 1, "message of another job": 7, "invalid argument": 1}
	if got := refusals(t, s); !maps.Equal(got, want) {
		t.Errorf("refused %v, want %v", got, want)
	}
}

func TestRefusedRequests(t *testing.T) {
	ctx := t.Context()
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	a := pstest.Trainer{Client: s.Client}
	foreign := pstest.Identity
	foreign.Job = "other"
	for name, c := range map[string]struct {
		m    *rpc.GetRequest
		kind fault.Kind
	}{
		"another job":         {&rpc.GetRequest{Id: foreign.Of(0, 0, 0), Name: "w0"}, fault.Foreign},
		"an unknown trainer":  {&rpc.GetRequest{Id: pstest.Identity.Of(3, 0, 0), Name: "w0"}, fault.Foreign},
		"an unknown variable": {&rpc.GetRequest{Id: pstest.Identity.Of(0, 0, 0), Name: "w7"}, fault.NotFound},
		"a version to come":   {&rpc.GetRequest{Id: pstest.Identity.Of(0, 2, 0), Name: "w0"}, fault.Foreign},
		"of another server":   {&rpc.GetRequest{Id: foreign.Of(0, 0, 0), Name: "norm", Exchange: true}, fault.Foreign},
	} {
		if _, _, err := a.GetAs(ctx, c.m, 4); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if err := a.Barrier(ctx, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Get(ctx, 1, "w0", 4); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Get(ctx, 0, "w0", 4); !errors.Is(err, fault.Stale) {
		t.Errorf("a version that has passed: %v", err)
	}
	if _, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Errorf("the status of another job: %v", err)
	}
	r, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil || r.Round != 1 || r.Bytes != 16 {
		t.Errorf("status %v, %v; want round 1 and 16 bytes", r, err)
	}
}
