package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// repair makes the checksums of frames right, so that a fuzzer gets past them. Every third frame keeps what it has.
func repair(b []byte) []byte {
	b = bytes.Clone(b)
	for n, rest := 1, b; len(rest) >= HeadBytes; n++ {
		body := rest[HeadBytes:]
		length := min(binary.LittleEndian.Uint64(rest[48:]), uint64(len(body)))
		if n%3 > 0 {
			copy(rest, magic)
			rest[4], rest[5], rest[6], rest[7] = rest[4]%8, rest[5]&3, 0, 0
			binary.LittleEndian.PutUint32(rest[56:], sumOf(body[:length]))
			seal(rest[:HeadBytes])
		}
		rest = body[length:]
	}
	return b
}

// readAny reads frames of slices and messages, as both ends do, and returns the error that ends it. It checks that what is taken fits the table.
func readAny(t *testing.T, b []byte, table Table, discard bool) error {
	c, p := reading(b), NewProgress(table)
	values := valuesOf(table)
	taken := 0
	for {
		h, err := c.ReadHead()
		if err != nil {
			return err
		}
		switch h.Kind {
		case Data, Params:
			if p.Complete() {
				p.Reset()
				taken = 0
			}
			parts, err := c.ReadParts(h, p)
			if err != nil {
				return err
			}
			for _, part := range parts {
				if discard {
					err = c.Discard(part.Length)
				} else {
					err = c.Into(values[part.Slice][part.Offset : part.Offset+part.Length])
				}
				if err != nil {
					return err
				}
				taken += part.Length
			}
			if err := c.End(h); err != nil {
				return err
			}
			if taken > table.Bytes() || p.Complete() != (taken == table.Bytes() && p.Has(2)) {
				t.Fatalf("%d bytes of %d: complete %v", taken, table.Bytes(), p.Complete())
			}
		case Declare:
			if err := c.ReadMessage(h, &rpc.BarrierRequest{}); err != nil {
				return err
			}
		default:
			if err := c.End(h); err != nil { // a body that nobody reads
				return err
			}
		}
	}
}

func fuzzReads(f *testing.F, table Table, discard bool) {
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, repair(b)} {
			if err := readAny(t, b, table, discard); fault.KindOf(err) == fault.OK {
				t.Errorf("ended with %v", err)
			}
		}
	})
}

// FuzzServerReads reads any bytes as a server does.
func FuzzServerReads(f *testing.F) {
	table := tableOf(9, 16, 0)
	values := valuesOf(table)
	b := written(f, func(c *Conn) error {
		return errors.Join(send(c, values, []int{0}, []int{2, 1}), c.WriteMessage(Head{Kind: Declare}, &rpc.BarrierRequest{Rows: 9, Variables: 4,
			Records: []*rpc.RecordRange{{From: 1, To: 5}}}))
	})
	f.Add(b)
	f.Add(append(bytes.Clone(b), b...))
	f.Add(b[:HeadBytes+partBytes+3])
	f.Add(frame(Head{Kind: Data, Parts: 2}, append(list(Part{Slice: 0, Length: 4}, Part{Slice: 0, Offset: 4, Length: 5}), make([]byte, 9)...)))
	f.Add(frame(Head{Kind: Welcome}, []byte("x")))
	fuzzReads(f, table, false)
}

// FuzzParams reads any bytes as a trainer does that wants none of the slices.
func FuzzParams(f *testing.F) {
	table := tableOf(5, 32, 0)
	values := valuesOf(table)
	b := written(f, func(c *Conn) error {
		return errors.Join(c.WriteMessage(Head{Kind: Ack}, nil),
			c.WriteSlices(Head{Kind: Params, Round: 3}, all(table), func(slice int) ([]byte, error) { return values[slice], nil }),
			c.WriteMessage(Head{Kind: Fault}, wire.FailureOf(fault.E(fault.NotFinite, fault.Op("sgd")))))
	})
	f.Add(b)
	f.Add(b[HeadBytes:])
	f.Add(frame(Head{Kind: Params, Parts: 1}, list(Part{Slice: 2})))
	f.Add(frame(Head{Kind: Fault}, nil))
	fuzzReads(f, table, true)
}
