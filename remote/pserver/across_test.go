package pserver_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

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
