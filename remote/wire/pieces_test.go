package wire_test

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// from returns a receiver of pieces.
func from(pieces [][]byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(pieces) == 0 {
			return nil, io.EOF
		}
		next := pieces[0]
		pieces = pieces[1:]
		return next, nil
	}
}

func TestPieces(t *testing.T) {
	for _, size := range []int{0, 1, wire.ChunkBytes - 4, wire.ChunkBytes, 3*wire.ChunkBytes + wire.ChunkBytes/2} {
		m := &rpc.SubmitRequest{Piece: make([]byte, size)}
		var pieces [][]byte
		if err := wire.SendPieces(m, func(b []byte) error { pieces = append(pieces, b); return nil }); err != nil {
			t.Fatal(err)
		}
		total := proto.Size(m)
		if want := max(1, (total+wire.ChunkBytes-1)/wire.ChunkBytes); len(pieces) != want {
			t.Errorf("%d bytes in %d pieces, want %d", total, len(pieces), want)
		}
		got := &rpc.SubmitRequest{}
		if err := wire.ReceivePieces(got, total, from(pieces)); err != nil || !proto.Equal(got, m) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if total > 0 {
			if err := wire.ReceivePieces(got, total-1, from(pieces)); !errors.Is(err, fault.TooLarge) {
				t.Errorf("%d bytes with a limit of one less: %v", total, err)
			}
		}
	}
}

func TestPiecesOfNothing(t *testing.T) {
	if err := wire.ReceivePieces(&rpc.SubmitRequest{}, 10, from(nil)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a stream without a piece: %v", err)
	}
	if err := wire.ReceivePieces(&rpc.SubmitRequest{}, 10, from([][]byte{{0x0a, 9}})); !errors.Is(err, fault.Corrupt) {
		t.Errorf("half a message: %v", err)
	}
	cut := errors.New("cut")
	if err := wire.ReceivePieces(&rpc.SubmitRequest{}, 10, func() ([]byte, error) { return nil, cut }); err != cut {
		t.Errorf("got %v", err)
	}
	if err := wire.SendPieces(&rpc.SubmitRequest{}, func([]byte) error { return cut }); err != cut {
		t.Errorf("got %v", err)
	}
}
