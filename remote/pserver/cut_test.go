package pserver_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

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
