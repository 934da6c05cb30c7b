package dataplane

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/tensor"
)

// placed makes an offer for slices of 8 bytes, and returns where a trainer may take it.
func placed(t *testing.T, a *Acceptor) (Place, Layout) {
	t.Helper()
	l := Layout{Send: tableOf(8), Receive: tableOf(8)}
	o, err := a.Offer(l, func(ctx context.Context, c *Conn) { _, _ = c.ReadHead() })
	if err != nil {
		t.Fatal(err)
	}
	return a.Place(o.Token), l
}

// over dials, and returns which carrier it has got.
func over(t *testing.T, d *Dialer, at Place, l Layout) (Carrier, error) {
	t.Helper()
	c, err := d.Dial(t.Context(), at, l)
	if err != nil {
		return Auto, err
	}
	defer c.Free()
	return c.Carrier(), nil
}

// full makes a server that has no more memory to share.
func full(t *testing.T) *Acceptor {
	a := listening(t)
	if err := a.reserve(maxShared); err != nil {
		t.Fatal(err)
	}
	return a
}

// Auto leaves shared memory for TCP only at a server where it does not work, and for good only there.
func TestAutoLeavesSharedMemoryByServer(t *testing.T) {
	d, without, with := &Dialer{}, full(t), listening(t)
	at, l := placed(t, without)
	if _, err := over(t, d, at, l); !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "shared memory") {
		t.Errorf("the first connection: %v", err)
	}
	dials := func(a *Acceptor, want Carrier) {
		t.Helper()
		at, l := placed(t, a)
		if got, err := over(t, d, at, l); got != want || err != nil {
			t.Errorf("the connection is one over %v, want %v (%v)", got, want, err)
		}
	}
	dials(without, TCP)
	dials(with, Shared)
	_ = without.reserve(-maxShared)
	dials(without, TCP)
	at, l = placed(t, with)
	at.Token[0]++
	if _, err := over(t, d, at, l); !errors.Is(err, fault.Unavailable) { // of this connection, not of the carrier
		t.Error(err)
	}
	at.Token[0]--
	at.Local += "-gone" // as from another container of the host
	if got, err := over(t, d, at, l); got != TCP || err != nil {
		t.Errorf("without a unix socket: %v, %v", got, err)
	}
	dials(with, Shared)
}

// A carrier that was asked for is used, or refused with a reason.
func TestExplicitCarriers(t *testing.T) {
	for _, want := range []Carrier{TCP, Unix, Shared} {
		at, l := placed(t, listening(t))
		if got, err := over(t, &Dialer{Carrier: want}, at, l); got != want || err != nil {
			t.Errorf("%v: the connection is one over %v (%v)", want, got, err)
		}
		at, l = placed(t, listening(t))
		at.Host += "another"
		if _, err := over(t, &Dialer{Carrier: want}, at, l); want.Explicit() && !errors.Is(err, fault.Unsupported) || !want.Explicit() && err != nil {
			t.Errorf("%v, a server on another host: %v", want, err)
		}
	}
	at, l := placed(t, full(t))
	if _, err := over(t, &Dialer{Carrier: Shared}, at, l); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a server without memory: %v", err)
	}
	o := offer(t, listening(t), echo)
	if got, err := over(t, &Dialer{Carrier: Shared}, o.of.Place(o.Token), Layout{}); got != Unix || err != nil {
		t.Errorf("nothing to share: a connection over %v (%v)", got, err)
	}
	if names := []string{Auto.String(), TCP.String(), Unix.String(), Shared.String()}; strings.Join(names, " ") != "auto tcp unix shm" {
		t.Error(names)
	}
}

// rowsOf is a slice with room for so many rows of 15 elements, of which n are in use, and its bytes that travel.
func rowsOf(room, n int) (Slice, []byte) {
	s := Slice{Name: "rows", DType: tensor.Int32, Dims: compress.RowsDims(int64(room), 15), Rows: true}
	s.Bytes = 4 * (1 + room) * 16
	b := make([]byte, compress.FormBytes(n, 15, 4))
	for i := range b {
		b[i] = byte(i * 7)
	}
	binary.NativeEndian.PutUint32(b, uint32(n))
	return s, b
}

// pages is how many bytes of a region have memory.
func pages(t *testing.T, r *region) int {
	t.Helper()
	var info unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &info); err != nil {
		t.Fatal(err)
	}
	return int(info.Blocks) * 512
}

// Rows of a table have room for all of them in shared memory, and take the memory of those that travel.
func TestSharedRowsTakeWhatTheyUse(t *testing.T) {
	const room = 1 << 20 // 64 MB
	s, few := rowsOf(room, 5)
	_, many := rowsOf(room, 40000)
	table := append(tableOf(100, 1<<20), s)
	l := Layout{Send: table, Receive: table}
	served := make(chan error, 1)
	a := listening(t)
	o, err := a.Offer(l, func(_ context.Context, c *Conn) {
		served <- func() error {
			p := NewProgress(table)
			for _, want := range [][]byte{few, many} {
				p.Reset()
				for !p.Complete() {
					h, err := c.ReadHead()
					if err == nil {
						_, err = c.ReadParts(h, p)
					}
					if err == nil {
						err = c.End(h)
					}
					if err != nil {
						return err
					}
				}
				if got := c.Lent(2, s.Bytes); !bytes.Equal(got[:len(want)], want) {
					return errors.New("other rows have arrived")
				}
				if err := send(c, [][]byte{make([]byte, 100), make([]byte, 1<<20), want}, []int{0, 1, 2}); err != nil {
					return err
				}
			}
			return nil
		}()
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&Dialer{Carrier: Shared}).Dial(t.Context(), a.Place(o.Token), l)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Free()
	p := NewProgress(table)
	for _, rows := range [][]byte{few, many} {
		if err := send(c, [][]byte{make([]byte, 100), make([]byte, 1<<20), rows}, []int{2, 1, 0}); err != nil {
			t.Fatal(err)
		}
		into := make([]byte, len(rows))
		for p.Reset(); !p.Complete(); {
			h, err := c.ReadHead()
			if err != nil {
				t.Fatal(err)
			}
			parts, err := c.ReadParts(h, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				if part.Slice == 2 {
					err = c.ReadPart(part, into[part.Offset:part.Offset+part.Length])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := c.End(h); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(into, rows) {
			t.Error("other rows have come back")
		}
		const huge = 8 * 2 << 20 // what pages of 2 MB may add
		if have, most := pages(t, c.memory), 2*(1<<20+2*len(rows))+huge; have > most || have < 2*(1<<20+len(rows)) {
			t.Errorf("%d bytes of memory for rows of %d bytes, want at most %d", have, len(rows), most)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
