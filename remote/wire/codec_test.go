package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
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

func chunk(header *rpc.VariableChunk, size uint64, data string, behind ...byte) []byte {
	b, err := proto.Marshal(header)
	if err != nil {
		panic(err)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 8, protowire.BytesType), size)
	return append(append(b, data...), behind...)
}

var hostileChunks = map[string][]byte{
	"a header behind the data": chunk(&rpc.VariableChunk{Name: "w"}, 4, "abcd", 0x30, 4), // offset 4
	"more data than announced": chunk(&rpc.VariableChunk{Name: "w"}, 2, "abcd"),
	"less data than announced": chunk(&rpc.VariableChunk{Name: "w"}, 8, "abcd"),
	"a size beyond all memory": chunk(&rpc.VariableChunk{Name: "w"}, 1<<63, "abcd"),
	"a size of 2 GiB":          chunk(&rpc.VariableChunk{Name: "w"}, 1<<31, "abcd"),
	"a header of 64 KiB":       chunk(&rpc.VariableChunk{Name: strings.Repeat("w", wire.MaxHeader)}, 4, "abcd"),
	"a header of 64 KiB and no data": func() []byte {
		b, _ := proto.Marshal(&rpc.VariableChunk{Name: strings.Repeat("w", wire.MaxHeader)})
		return b
	}(),
	"a name that is not text":     {0x12, 2, 0xff, 0xfe},
	"a tag cut short":             {0x80},
	"a size cut short":            {0x42, 0x80},
	"a field number of zero":      {0x02, 0},
	"a group without an end":      {0x0b, 0x0b},
	"a length beyond the message": {0x12, 0x7f, 'w'},
}

// No hostile chunk decodes, and none writes a byte.
func TestHostileChunks(t *testing.T) {
	for name, b := range hostileChunks {
		t.Run(name, func(t *testing.T) {
			into := bytes.Repeat([]byte{7}, 64)
			err := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)},
				&wire.Incoming{Place: func(_ *rpc.VariableChunk, n int) ([]byte, error) { return into[:n], nil }})
			if err == nil {
				t.Error("decoded")
			}
			if !bytes.Equal(into, bytes.Repeat([]byte{7}, 64)) {
				t.Errorf("wrote %v", into)
			}
		})
	}
}

func TestPlaceMustFit(t *testing.T) {
	b := mem.BufferSlice{mem.SliceBuffer(chunk(&rpc.VariableChunk{Name: "w"}, 4, "abcd"))}
	small := func(*rpc.VariableChunk, int) ([]byte, error) { return make([]byte, 3), nil }
	if err := wire.Codec().Unmarshal(b, &wire.Incoming{Place: small}); err == nil {
		t.Error("four bytes went into three")
	}
	refused := errors.New("no room")
	in := &wire.Incoming{Place: func(*rpc.VariableChunk, int) ([]byte, error) { return nil, refused }}
	if err := wire.Codec().Unmarshal(b, in); err != nil || in.Refused != refused {
		t.Errorf("got %v and %v, want no error of the codec and that of Place", err, in.Refused)
	}
}

// Bytes from anywhere never make the decoder panic, write more than it announced, or differ from plain protobuf where both decode.
func FuzzIncoming(f *testing.F) {
	for _, b := range hostileChunks {
		f.Add(b[:min(len(b), 200)])
	}
	f.Add(chunk(&rpc.VariableChunk{Id: &rpc.Identity{Job: "j", Rank: 2}, Name: "fc_0.w_0@GRAD", Dtype: 5, Dims: []int64{2, 2}, Bytes: 16, Version: 3},
		4, "abcd"))
	f.Add(chunk(&rpc.VariableChunk{Offset: 1 << 20}, 0, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got *rpc.VariableChunk
		err := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &wire.Incoming{Place: func(h *rpc.VariableChunk, n int) ([]byte, error) {
			if n > len(b) {
				t.Fatalf("asked for %d bytes of %d", n, len(b))
			}
			h.Data = make([]byte, n)
			got = h
			return h.Data, nil
		}})
		if err != nil {
			return
		}
		plain := &rpc.VariableChunk{}
		if err := proto.Unmarshal(b, plain); err != nil {
			t.Fatalf("plain protobuf does not decode what we do: %v", err)
		}
		if plain.Data == nil {
			plain.Data = []byte{}
		}
		if !bytes.Equal(plain.Data, got.Data) || plain.Name != got.Name || plain.Offset != got.Offset {
			t.Fatalf("decoded %v, plain protobuf %v", got, plain)
		}
	})
}
