package wire_test

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// anyHeader draws a chunk without data.
func anyHeader(t *rapid.T) *rpc.VariableChunk {
	h := &rpc.VariableChunk{Name: rapid.StringMatching(`[a-z@._0-9]{0,40}`).Draw(t, "name"), Dtype: rapid.Int32().Draw(t, "dtype"),
		Dims: rapid.SliceOfN(rapid.Int64(), 0, 6).Draw(t, "dims"), Bytes: rapid.Int64().Draw(t, "bytes"), Offset: rapid.Int64().Draw(t, "offset"),
		Version: rapid.Uint64().Draw(t, "version")}
	if rapid.Bool().Draw(t, "first") {
		h.Id = &rpc.Identity{Job: "j", ProgramHash: rapid.SliceOf(rapid.Byte()).Draw(t, "hash"), Rank: rapid.Uint32().Draw(t, "rank"),
			Round: rapid.Uint64().Draw(t, "round")}
	}
	return h
}

// cut splits bytes into buffers at random places, as a transport does.
func cut(t *rapid.T, b []byte) mem.BufferSlice {
	var out mem.BufferSlice
	for len(b) > 0 {
		n := rapid.IntRange(1, len(b)).Draw(t, "piece")
		out = append(out, mem.SliceBuffer(b[:n]))
		b = b[n:]
	}
	return out
}

// Whatever one side encodes, ours or plain protobuf, the other decodes to the same chunk.
func TestCodecSpeaksPlainProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		header, data := anyHeader(t), rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		whole := proto.Clone(header).(*rpc.VariableChunk)
		whole.Data = data

		ours, err := wire.Codec().Marshal(&wire.Outgoing{Header: header, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		plain := &rpc.VariableChunk{}
		if err := proto.Unmarshal(ours.Materialize(), plain); err != nil {
			t.Fatal(err)
		}
		if plain.Data == nil {
			plain.Data = whole.Data[:0]
		}
		if !proto.Equal(plain, whole) {
			t.Fatalf("plain proto reads %v, want %v", plain, whole)
		}

		theirs, err := proto.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{"ours": ours.Materialize(), "theirs": theirs} {
			var got *rpc.VariableChunk
			var into []byte
			err := wire.Codec().Unmarshal(cut(t, b), &wire.Incoming{Place: func(h *rpc.VariableChunk, n int) ([]byte, error) {
				got, into = h, make([]byte, n)
				return into, nil
			}})
			if err != nil {
				t.Fatal(name, err)
			}
			if !proto.Equal(got, header) || !bytes.Equal(into, data) {
				t.Fatalf("%s: read %v and %v, want %v and %v", name, got, into, header, data)
			}
		}
	})
}

func TestCodecRefusesOtherTypes(t *testing.T) {
	if _, err := wire.Codec().Marshal(3); err == nil {
		t.Error("encoded an int")
	}
	if err := wire.Codec().Unmarshal(nil, new(int)); err == nil {
		t.Error("decoded into an int")
	}
}
