package pserver_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// large is a number of elements that no connection takes without somebody who reads.
const large = 10 << 20

// receiving is a trainer that is lost while it receives: it has a connection of its own, from which it reads no more than the first chunk.
func receiving(t *testing.T, s *rig.Server, id *rpc.Identity, name string) {
	t.Helper()
	conn, err := wire.Dial(s.Address)
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
func waitsFor(t *testing.T, s *rig.Server, name string) {
	t.Helper()
	status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: rig.Identity.Job})
	if err != nil || !slices.ContainsFunc(status.Waits, func(w *job.Wait) bool { return slices.Equal(w.By, []string{name}) }) {
		t.Errorf("waits %v, %v; want one for %s", status.GetWaits(), err, name)
	}
}

// A trainer that is lost while it receives the parameters of a round holds up neither the round nor those after it, and is done with neither: the
// open round waits for it, by name, until its generation ends; then the others train on, while it still does not read.
func TestTrainerLostWhileReceiving(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*rig.Patience)
	defer cancel()
	s := rig.Start(t, rig.Config(2), rig.SGD(0, true, 1, large))
	a, lost := rig.Trainer{Client: s.Client}, rig.Trainer{Client: s.Client, Rank: 1}
	contribute := func(of rig.Trainer, round uint64) {
		t.Helper()
		if _, err := of.Send(ctx, round, "w0@GRAD", rig.Filled(large, 1)); err != nil {
			t.Fatal(err)
		}
		if err := of.Barrier(ctx, round, 2, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []rig.Trainer{a, lost} {
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
	if err := s.Resume(g+1, 1, rig.Members(0)); err != nil {
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

// A contribution under way when its generation ends does not count, and neither does a whole one that lies here.
func TestContributionAcrossTheEndOfItsGeneration(t *testing.T) {
	ctx := t.Context()
	s := rig.Start(t, rig.Config(2), rig.SGD(0, true, 1, 4))
	a, b := rig.Trainer{Client: s.Client, Generation: g + 1}, rig.Trainer{Client: s.Client, Rank: 1}
	if _, err := b.Send(ctx, 0, "w0@GRAD", rig.Filled(4, 5)); err != nil {
		t.Fatal(err)
	}
	header := &rpc.VariableChunk{Id: rig.Trainer{}.ID(0), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{4}, Bytes: 16}
	err := s.SendVariable(&upload{ctx: ctx, header: header, between: func() {
		if _, err := s.Freeze(g); err != nil {
			t.Error(err)
		}
		if err := s.Resume(g+1, 0, rig.Members(0, 1)); err != nil {
			t.Error(err)
		}
	}})
	if !errors.Is(err, fault.Superseded) {
		t.Errorf("the contribution is told %v", err)
	}
	b.Generation = g + 1
	for _, trainer := range []rig.Trainer{a, b} {
		if duplicate, err := trainer.Send(ctx, 0, "w0@GRAD", rig.Filled(4, 1)); err != nil || duplicate {
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

// A contribution that is cut in the middle leaves nothing behind, and the next attempt counts.
func TestContributionCutInTheMiddle(t *testing.T) {
	ctx := t.Context()
	const n = 3 * wire.ChunkBytes / 4
	s := rig.Start(t, rig.Config(1), rig.SGD(0, true, 1, n))
	a := rig.Trainer{Client: s.Client}
	for attempt := range 3 {
		cut, cancel := context.WithCancel(ctx)
		stream, err := s.Client.SendVariable(cut)
		if err != nil {
			t.Fatal(err)
		}
		header := &rpc.VariableChunk{Id: rig.Identity.Of(0, 0, uint32(attempt)), Name: "w0@GRAD", Dtype: int32(tensor.Float32), Dims: []int64{n},
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
	if duplicate, err := a.SendAs(ctx, rig.Identity.Of(0, 0, 3), "w0@GRAD", rig.Filled(n, 2)); err != nil || duplicate {
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
