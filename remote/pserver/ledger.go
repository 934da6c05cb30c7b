package pserver

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
)

// Limits of a ledger, which bound what a message or a file can make it hold.
const (
	maxRanges = 1 << 22 // of all passes, 16 bytes each
	maxPasses = 1 << 20
)

// A Ledger tells, pass by pass, which records the updates of a job were computed from. It holds a few ranges for what was trained in order, and one
// for each record that a shuffle has trained ahead of others. The zero value is empty.
type Ledger struct {
	passes map[int32]*passLedger
	ranges int // of all passes
}

type passLedger struct {
	committed ranges.Set
	records   int64 // in them
	again     int64 // entered when they were there already
}

// A PassCount counts the records of a pass: those committed, each once, and those committed beyond the first time.
type PassCount struct {
	Pass           int32
	Records, Again int64
}

// checkRecords refuses what is no list of records.
func checkRecords(pass int32, list []ranges.Range) error {
	for _, r := range list {
		if r.From < 0 || r.From >= r.To {
			return fault.E(fault.InvalidArgument, fault.Gotf("the records [%d, %d)", r.From, r.To), fault.Want("at least one record, from 0 on"))
		}
	}
	if pass < 0 || len(list) > maxRanges {
		return fault.E(fault.InvalidArgument, fault.Gotf("%d ranges of records in pass %d", len(list), pass),
			fault.Wantf("at most %d in pass 0 or later", maxRanges))
	}
	return nil
}

// Commit enters records that an update was computed from. After an error nothing has been entered.
func (l *Ledger) Commit(pass int32, list []ranges.Range) error {
	if err := checkRecords(pass, list); err != nil || len(list) == 0 {
		return err
	}
	p := l.passes[pass]
	if p == nil {
		p = &passLedger{}
	}
	added := ranges.Of(list...)
	i, j := p.committed.Near(ranges.Range{From: added[0].From, To: added[len(added)-1].To})
	near := p.committed[i:j]
	merged := near.Union(added)
	if l.ranges-len(near)+len(merged) > maxRanges || l.passes[pass] == nil && len(l.passes) >= maxPasses {
		return fault.E(fault.TooLarge, fault.Gotf("a ledger of more than %d ranges or %d passes", maxRanges, maxPasses),
			fault.Hint("train with a smaller shuffle window"))
	}
	if l.passes == nil {
		l.passes = map[int32]*passLedger{}
	}
	l.passes[pass] = p
	l.ranges += len(merged) - len(near)
	first := merged.Count() - near.Count() // records that were not there
	p.records += first
	for _, r := range list { // range by range, because the sum of all may overflow
		n := r.Len()
		first, n = first-min(first, n), n-min(first, n)
		p.again += min(n, math.MaxInt64-p.again)
	}
	p.committed = slices.Replace(p.committed, i, j, merged...)
	return nil
}

// Counts returns the passes in order.
func (l *Ledger) Counts() []PassCount {
	var list []PassCount
	for _, pass := range slices.Sorted(maps.Keys(l.passes)) {
		p := l.passes[pass]
		list = append(list, PassCount{Pass: pass, Records: p.records, Again: p.again})
	}
	return list
}

// Committed returns the records of a pass.
func (l *Ledger) Committed(pass int32) ranges.Set {
	if p := l.passes[pass]; p != nil {
		return slices.Clone(p.committed)
	}
	return nil
}

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
		pass, again, n := d.number(math.MaxInt32), d.number(math.MaxInt64), d.number(maxRanges-l.ranges)
		p := &passLedger{again: int64(again), committed: make(ranges.Set, 0, min(n, len(d.rest)/2))}
		end := 0
		for range n {
			from := end + d.number(math.MaxInt64-end)
			if end = from + d.number(math.MaxInt64-from); d.bad {
				break
			}
			p.committed = append(p.committed, ranges.Range{From: int64(from), To: int64(end)})
		}
		if d.bad {
			break
		}
		p.records = p.committed.Count()
		l.passes[int32(pass)] = p
		l.ranges += n
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
