package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

var shapes = [][]int64{{}, {0}, {3, 0, 2}, {1}, {5, 7}, {wire.ChunkBytes / 8}, {7, wire.ChunkBytes / 16}}

// Every dtype and shape arrives as it was sent, from a live tensor and from a snapshot: scalars, nothing at all, and three chunks and a half.
func TestVariableRoundTrip(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
		for _, dims := range shapes {
			t.Run(fmt.Sprint(dtype, dims), func(t *testing.T) {
				x := countUp(t, makeTensor(t, dtype, dims...))
				p := &pipe{codec: wire.Codec()}
				if err := wire.SendVariable(p, &rpc.VariableChunk{Name: "w", Version: 9}, x); err != nil {
					t.Fatal(err)
				}
				receive(t, p, x)
				s, err := wire.Snap(&rpc.VariableChunk{Name: "w", Version: 9}, x)
				if err != nil {
					t.Fatal(err)
				}
				want := x.Clone()
				b, _ := wire.Memory(x)
				clear(b)
				if err := s.Send(p); err != nil {
					t.Fatal(err)
				}
				receive(t, p, want)
			})
		}
	}
}

func receive(t *testing.T, p *pipe, want *tensor.Tensor) {
	got := makeTensor(t, want.DType(), want.Dims()...)
	header, err := wire.ReceiveVariable(p, func(h *rpc.VariableChunk) (*tensor.Tensor, error) { return got, nil })
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "w" || header.Version != 9 || header.Bytes != want.Bytes() {
		t.Errorf("header %v", header)
	}
	a, _ := wire.Memory(got)
	b, _ := wire.Memory(want)
	if !bytes.Equal(a, b) {
		t.Error("other elements arrived")
	}
}

func TestBoolDoesNotTravel(t *testing.T) {
	x := makeTensor(t, tensor.Bool, 3)
	if err := wire.SendVariable(&pipe{codec: wire.Codec()}, &rpc.VariableChunk{}, x); !errors.Is(err, fault.Unsupported) {
		t.Error(err)
	}
	if _, err := wire.Snap(&rpc.VariableChunk{}, x); !errors.Is(err, fault.Unsupported) {
		t.Error(err)
	}
}
