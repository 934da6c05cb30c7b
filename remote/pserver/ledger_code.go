package pserver

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// ledgerVersion begins the encoding of a ledger.
const ledgerVersion = 1

// Encode returns the ledger as bytes: its version and the number of passes, then for each pass its number, the records committed again and the number
// of ranges, then for each range its distance from the end of the one before and its length, all as unsigned varints. Equal ledgers have equal bytes.
func (l *Ledger) Encode() []byte {
	b := binary.AppendUvarint([]byte{ledgerVersion}, uint64(len(l.passes)))
	for _, c := range l.Counts() {
		list := l.passes[c.Pass].committed
		for _, n := range []uint64{uint64(c.Pass), uint64(c.Again), uint64(len(list))} {
			b = binary.AppendUvarint(b, n)
		}
		end := int64(0)
		for _, r := range list {
			b = binary.AppendUvarint(b, uint64(r.From-end))
			b = binary.AppendUvarint(b, uint64(r.To-r.From))
			end = r.To
		}
	}
	return b
}

// DecodeLedger reads what Encode wrote, and refuses (fault.Corrupt) everything else. It takes memory in proportion to the bytes.
func DecodeLedger(b []byte) (*Ledger, error) {
	d := ledgerDecoder{rest: b}
	if len(b) == 0 || b[0] != ledgerVersion {
		d.bad = true
	} else {
		d.rest = b[1:]
	}
	l := &Ledger{passes: map[int32]*passLedger{}}
	for range d.number(maxPasses) {
		pass, again, ranges := d.number(math.MaxInt32), d.number(math.MaxInt64), d.number(maxRanges-l.ranges)
		p := &passLedger{again: int64(again), committed: make([]Range, 0, min(ranges, len(d.rest)/2))}
		end := 0
		for range ranges {
			from := end + d.number(math.MaxInt64-end)
			if end = from + d.number(math.MaxInt64-from); d.bad {
				break
			}
			p.committed = append(p.committed, Range{From: int64(from), To: int64(end)})
		}
		if d.bad {
			break
		}
		p.records = count(p.committed)
		l.passes[int32(pass)] = p
		l.ranges += ranges
	}
	// What could be read in several ways was not written by Encode: passes out of order, ranges that touch or are empty, numbers that are longer than
	// they need be.
	if d.bad || len(d.rest) > 0 || !l.sound() || !bytes.Equal(l.Encode(), b) {
		return nil, fault.E(fault.Corrupt, fault.At("ledger"), fault.Gotf("%d bytes", len(b)), fault.Want("those of a ledger"))
	}
	return l, nil
}

// sound reports whether every pass has records, in ranges that are not empty and do not touch.
func (l *Ledger) sound() bool {
	for _, p := range l.passes {
		for i, r := range p.committed {
			if r.From >= r.To || i > 0 && r.From == p.committed[i-1].To {
				return false
			}
		}
		if len(p.committed) == 0 {
			return false
		}
	}
	return true
}

// ledgerDecoder reads numbers until one is not there or too large.
type ledgerDecoder struct {
	rest []byte
	bad  bool
}

func (d *ledgerDecoder) number(most int) int {
	n, size := binary.Uvarint(d.rest)
	if d.bad || size <= 0 || n > uint64(most) {
		d.bad = true
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

func passMessage(c PassCount) *rpc.PassLedger {
	return &rpc.PassLedger{Pass: c.Pass, Records: c.Records, Again: c.Again}
}

func rangeMessages(list []Range) []*rpc.RecordRange {
	out := make([]*rpc.RecordRange, len(list))
	for i, r := range list {
		out[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
	return out
}

func rangesOf(list []*rpc.RecordRange) []Range {
	out := make([]Range, len(list))
	for i, r := range list {
		out[i] = Range{From: r.GetFrom(), To: r.GetTo()}
	}
	return out
}
