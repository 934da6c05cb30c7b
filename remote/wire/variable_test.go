package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

var shapes = [][]int64{{}, {0}, {3, 0, 2}, {1}, {5, 7}, {wire.ChunkBytes / 8}, {7, wire.ChunkBytes / 16}}

// Every dtype and shape arrives as it was sent, from a live tensor and from a snapshot: scalars, nothing at all, and three chunks and a half.
func TestVariableRoundTrip(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Float16, tensor.BFloat16} {
		for _, dims := range shapes {
			t.Run(fmt.Sprint(dtype, dims), func(t *testing.T) {
				x := countUp(t, makeTensor(t, dtype, dims...))
				p := &pipe{codec: wire.Codec()}
				if err := wire.SendVariable(p, &rpc.VariableChunk{Name: "w", Version: 9}, x, wire.Keep); err != nil {
					t.Fatal(err)
				}
				receive(t, p, x)
				s, err := wire.Snap(&rpc.VariableChunk{Name: "w", Version: 9}, x, wire.Keep)
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

// Zeros of a large variable are left out on their way, and arrive where other elements were. What travels has the size of the rest.
func TestZerosAreLeftOut(t *testing.T) {
	const elements = 3 << 20
	for name, used := range map[string][][2]int{
		"nothing": nil, "the first element": {{0, 1}}, "the last element": {{elements - 1, elements}}, "two regions": {{5000, 6000}, {2 << 20, 2<<20 + 300000}}, "all": {{0, elements}},
	} {
		x, most := makeTensor(t, tensor.Float32, elements), 200
		for _, part := range used {
			for i := part[0]; i < part[1]; i++ {
				x.Float32s()[i] = float32(i + 1)
			}
			most += 4*(part[1]-part[0]) + 3*wire.ChunkBytes/16 + 4*(part[1]-part[0])/1000
		}
		sent, snapped := &pipe{codec: wire.Codec()}, &pipe{codec: wire.Codec()}
		if err := wire.SendVariable(sent, &rpc.VariableChunk{Name: "w", Version: 9}, x, wire.LeaveOut); err != nil {
			t.Fatal(err)
		}
		s, err := wire.Snap(&rpc.VariableChunk{Name: "w", Version: 9}, x, wire.LeaveOut)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(snapped); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*pipe{sent, snapped} {
			if got := p.bytes(); got > most {
				t.Errorf("%s: %d bytes travel, want at most %d", name, got, most)
			}
			got := countUp(t, makeTensor(t, tensor.Float32, elements)) // not zeros before
			if _, err := wire.ReceiveVariable(p, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return got, nil }); err != nil {
				t.Fatal(err)
			}
			a, _ := wire.Memory(got)
			b, _ := wire.Memory(x)
			if !bytes.Equal(a, b) {
				t.Errorf("%s: other elements arrived", name)
			}
		}
	}
}

// Zeros that do not fit into the variable, or come with data, are refused.
func TestWrongZeros(t *testing.T) {
	for name, chunks := range map[string][]*wire.Outgoing{
		"more than there is":  {{Header: &rpc.VariableChunk{Zeros: 81}}},
		"fewer than none":     {{Header: &rpc.VariableChunk{Zeros: -8}}},
		"more than is left":   {{Header: &rpc.VariableChunk{}, Data: make([]byte, 40)}, {Header: &rpc.VariableChunk{Offset: 40, Zeros: 41}}},
		"at another place":    {{Header: &rpc.VariableChunk{}, Data: make([]byte, 40)}, {Header: &rpc.VariableChunk{Offset: 48, Zeros: 8}}},
		"with data":           {{Header: &rpc.VariableChunk{Zeros: 40}, Data: make([]byte, 40)}},
		"before the variable": {{Header: &rpc.VariableChunk{Zeros: 40}}},
	} {
		p := &pipe{codec: wire.Codec()}
		x := makeTensor(t, tensor.Float32, 20)
		for i, c := range chunks {
			if i == 0 {
				c.Header.Name, c.Header.Dtype, c.Header.Dims, c.Header.Bytes = "w", int32(x.DType()), x.Dims(), x.Bytes()
			}
			if err := p.SendMsg(c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := wire.ReceiveVariable(p, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return x, nil }); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A tensor over the bytes of another one has its elements, and shares them. Lengths that are not those of the dims are refused.
func TestOver(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
		for _, dims := range shapes {
			x := countUp(t, makeTensor(t, dtype, dims...))
			b, err := wire.Memory(x)
			if err != nil {
				t.Fatal(err)
			}
			y, err := wire.Over(b, dtype, dims...)
			if err != nil || y.String() != x.String() {
				t.Fatalf("%v over %v: %v, %v", y, x, dims, err)
			}
			clear(b)
			if c, _ := wire.Memory(y); !bytes.Equal(b, c) {
				t.Errorf("%s does not share its elements", x)
			}
			if _, err := wire.Over(append(b, make([]byte, 8)...), dtype, dims...); !errors.Is(err, fault.ShapeMismatch) {
				t.Errorf("%s over 8 bytes too many: %v", x, err)
			}
		}
	}
	if scalar, err := wire.Over(make([]byte, 4), tensor.Float32); err != nil || len(scalar.Dims()) > 0 {
		t.Errorf("a scalar is %v, %v", scalar, err)
	}
	if _, err := wire.Over(make([]byte, 4), tensor.Bool, 4); !errors.Is(err, fault.Unsupported) {
		t.Errorf("bool: %v", err)
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
	if err := wire.SendVariable(&pipe{codec: wire.Codec()}, &rpc.VariableChunk{}, x, wire.Keep); !errors.Is(err, fault.Unsupported) {
		t.Error(err)
	}
	if _, err := wire.Snap(&rpc.VariableChunk{}, x, wire.Keep); !errors.Is(err, fault.Unsupported) {
		t.Error(err)
	}
}

// A stream that contradicts its header is refused with the right kind, and no byte outside the tensor is written.
func TestHostileStreams(t *testing.T) {
	head := &rpc.VariableChunk{Name: "w", Dtype: int32(tensor.Float32), Dims: []int64{4}, Bytes: 16}
	with := func(change func(*rpc.VariableChunk)) *rpc.VariableChunk {
		h := proto.Clone(head).(*rpc.VariableChunk)
		change(h)
		return h
	}
	at := func(offset int64) *rpc.VariableChunk { return &rpc.VariableChunk{Offset: offset} }
	type message struct {
		header *rpc.VariableChunk
		bytes  int
	}
	for name, c := range map[string]struct {
		stream []message
		kind   fault.Kind
	}{
		"nothing":                      {nil, fault.Corrupt},
		"too short":                    {[]message{{head, 12}}, fault.Corrupt},
		"too long":                     {[]message{{head, 20}}, fault.Corrupt},
		"too long in the second":       {[]message{{head, 12}, {at(12), 8}}, fault.Corrupt},
		"more after the end":           {[]message{{head, 16}, {at(16), 4}}, fault.Corrupt},
		"an empty chunk":               {[]message{{head, 8}, {at(8), 0}, {at(8), 8}}, fault.Corrupt},
		"an offset that jumps":         {[]message{{head, 8}, {at(12), 4}}, fault.Corrupt},
		"an offset that goes back":     {[]message{{head, 8}, {at(4), 8}}, fault.Corrupt},
		"a negative offset":            {[]message{{head, 8}, {at(-8), 8}}, fault.Corrupt},
		"a first offset that is not 0": {[]message{{with(func(h *rpc.VariableChunk) { h.Offset = 4 }), 12}}, fault.Corrupt},
		"another dtype":                {[]message{{with(func(h *rpc.VariableChunk) { h.Dtype = int32(tensor.Int32) }), 16}}, fault.ShapeMismatch},
		"other dims":                   {[]message{{with(func(h *rpc.VariableChunk) { h.Dims = []int64{2, 2} }), 16}}, fault.ShapeMismatch},
		"other dims of equal rank":     {[]message{{with(func(h *rpc.VariableChunk) { h.Dims = []int64{3} }), 16}}, fault.ShapeMismatch},
		"another size":                 {[]message{{with(func(h *rpc.VariableChunk) { h.Bytes = 1 << 40 }), 16}}, fault.ShapeMismatch},
		"a dtype of no name":           {[]message{{with(func(h *rpc.VariableChunk) { h.Dtype = -1 }), 16}}, fault.ShapeMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pipe{codec: wire.Codec()}
			for _, m := range c.stream {
				if err := p.SendMsg(&wire.Outgoing{Header: m.header, Data: bytes.Repeat([]byte{1}, m.bytes)}); err != nil {
					t.Fatal(err)
				}
			}
			memory := make([]float32, 12)
			x, err := tensor.FromSlice(memory[4:8:8])
			if err != nil {
				t.Fatal(err)
			}
			if _, err = wire.ReceiveVariable(p, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return x, nil }); fault.KindOf(err) != c.kind {
				t.Errorf("got %v, want %v", err, c.kind)
			}
			for i, v := range memory {
				if (i < 4 || i >= 8) && v != 0 {
					t.Errorf("element %d beside the tensor was written", i-4)
				}
			}
		})
	}
}

// Over a real connection the receiver's refusal reaches the sender with its kind, in both directions.
func TestRefusalKeepsItsKind(t *testing.T) {
	stale := fault.E(fault.Stale, fault.Var("w"), fault.Got("round 1"))
	x := makeTensor(t, tensor.Float32, wire.ChunkBytes)
	client, _ := start(t, &service{
		send: func(s grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
			_, err := wire.ReceiveVariable(s, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return nil, stale })
			return err
		},
		get: func(_ *rpc.GetRequest, s grpc.ServerStreamingServer[rpc.VariableChunk]) error {
			return wire.SendVariable(s, &rpc.VariableChunk{Name: "w"}, x, wire.Keep)
		},
	})
	send, err := client.SendVariable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = wire.SendVariable(send, &rpc.VariableChunk{Name: "w"}, x, wire.Keep) // may end early
	if _, err = send.CloseAndRecv(); fault.KindOf(wire.FromStatus("peer", err)) != fault.Stale {
		t.Errorf("got %v, want %v", err, stale)
	}
	get, err := client.GetVariable(t.Context(), &rpc.GetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.ReceiveVariable(get, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return nil, stale }); !errors.Is(err, stale) {
		t.Errorf("got %v, want %v", err, stale)
	}
}
