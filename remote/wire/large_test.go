package wire_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// line is both ends of a stream of pieces.
type line struct{ pieces []*rpc.Piece }

func (l *line) Send(p *rpc.Piece) error {
	l.pieces = append(l.pieces, p)
	return nil
}

func (l *line) Recv() (*rpc.Piece, error) {
	if len(l.pieces) == 0 {
		return nil, io.EOF
	}
	next := l.pieces[0]
	l.pieces = l.pieces[1:]
	return next, nil
}

// Pieces are small. The error for a message that is too large names its sender and the message.
func TestLargeMessages(t *testing.T) {
	m := &rpc.LedgerResponse{Round: 7, Passes: []*rpc.PassLedger{{Pass: 3}}}
	for i := range int64(400_000) {
		m.Passes[0].Committed = append(m.Passes[0].Committed, &rpc.RecordRange{From: 1<<40 + 2*i, To: 1<<40 + 2*i + 1})
	}
	l := &line{}
	if err := wire.Send(l, m); err != nil || len(l.pieces) < 4 {
		t.Fatalf("%d pieces: %v", len(l.pieces), err)
	}
	for _, p := range l.pieces {
		if len(p.Piece) > wire.ChunkBytes {
			t.Errorf("a piece of %d bytes", len(p.Piece))
		}
	}
	all, got := l.pieces, &rpc.LedgerResponse{}
	if err := wire.Receive("pserver 0", l, got, proto.Size(m)); err != nil || !proto.Equal(got, m) {
		t.Errorf("not what was sent: %v", err)
	}
	err := wire.Receive("pserver 0", &line{all}, got, proto.Size(m)-1)
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "pserver 0") || !strings.Contains(err.Error(), "LedgerResponse of more than") {
		t.Error(err)
	}
}

// The first piece of a request says who asks. When that is refused, nothing more is received.
func TestRequestsSayWhoAsks(t *testing.T) {
	m := &rpc.StepRun{Fetch: []string{strings.Repeat("x", 3*wire.ChunkBytes)}}
	l := &line{}
	if err := wire.SendAs(l, &rpc.Identity{Job: "mine"}, m); err != nil || l.pieces[0].Id.GetJob() != "mine" || l.pieces[1].Id != nil {
		t.Fatal(l.pieces[0].Id, err)
	}
	all, got, asked := l.pieces, &rpc.StepRun{}, 0
	admit := func(id *rpc.Identity) error {
		if asked++; id.GetJob() != "mine" {
			return fault.New(fault.Foreign, "a stranger")
		}
		return nil
	}
	if err := wire.ReceiveFrom("trainer", l, got, wire.MaxStep, admit); err != nil || !proto.Equal(got, m) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	stranger := &line{append([]*rpc.Piece{{Piece: all[0].Piece}}, all[1:]...)}
	if err := wire.ReceiveFrom("trainer", stranger, got, wire.MaxStep, admit); !errors.Is(err, fault.Foreign) || len(stranger.pieces) != len(all)-1 {
		t.Errorf("%d of %d pieces are left: %v", len(stranger.pieces), len(all), err)
	}
}

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

// Small pieces, and empty ones, take no memory beyond their bytes, and nobody writes into what the caller of recv has.
func TestSmallPieces(t *testing.T) {
	m := &rpc.SubmitRequest{Piece: make([]byte, 100_000)}
	for i := range m.Piece {
		m.Piece[i] = byte(i * 7)
	}
	encoded, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var pieces [][]byte
	for i := range encoded {
		pieces = append(pieces, encoded[i:i+1], nil)
	}
	got, before := &rpc.SubmitRequest{}, slices.Clone(encoded)
	if err := wire.ReceivePieces(got, len(encoded), from(pieces)); err != nil || !proto.Equal(got, m) || !slices.Equal(encoded, before) {
		t.Errorf("pieces of a byte: %v", err)
	}
	least := testing.AllocsPerRun(1, func() {
		n := 0
		err := wire.ReceivePieces(&rpc.SubmitRequest{}, 10, func() ([]byte, error) {
			if n++; n > 1_000_000 {
				return nil, io.EOF
			}
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if least > 100 {
		t.Errorf("a million empty pieces take %v allocations", least)
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
