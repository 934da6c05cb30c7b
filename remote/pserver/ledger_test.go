package pserver_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

// A ledger agrees with a table that has a counter for every record, whatever the order of entries, also after it was encoded and decoded.
func TestLedgerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const records, passes = 40, 3
		var table [passes][records]int64
		l := &pserver.Ledger{}
		for range rapid.IntRange(0, 30).Draw(t, "entries") {
			pass := rapid.IntRange(0, passes-1).Draw(t, "pass")
			var list []ranges.Range
			for range rapid.IntRange(0, 4).Draw(t, "ranges") {
				from := rapid.Int64Range(0, records-1).Draw(t, "from")
				list = append(list, ranges.Range{From: from, To: rapid.Int64Range(from+1, records).Draw(t, "to")})
			}
			given := slices.Clone(list)
			if err := l.Commit(int32(pass), list); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(list, given) {
				t.Fatal("the list of the caller was changed")
			}
			for _, r := range list {
				for i := r.From; i < r.To; i++ {
					table[pass][i]++
				}
			}
			checkLedger(t, l, table[:]...)
		}
		b := l.Encode()
		read, err := pserver.DecodeLedger(b)
		if err != nil {
			t.Fatal(err)
		}
		checkLedger(t, read, table[:]...)
		if again := read.Encode(); !slices.Equal(again, b) {
			t.Fatalf("written again %x is %x", b, again)
		}
	})
}

func checkLedger(t *rapid.T, l *pserver.Ledger, table ...[40]int64) {
	var want []pserver.PassCount
	for pass, counters := range table {
		c := pserver.PassCount{Pass: int32(pass)}
		var list []ranges.Range
		for i, n := range counters {
			if n == 0 {
				continue
			}
			c.Records, c.Again = c.Records+1, c.Again+n-1
			if k := len(list); k > 0 && list[k-1].To == int64(i) {
				list[k-1].To++
			} else {
				list = append(list, ranges.Range{From: int64(i), To: int64(i) + 1})
			}
		}
		if got := l.Committed(int32(pass)); !slices.Equal(got, list) {
			t.Fatalf("pass %d has %v, want %v", pass, got, list)
		}
		if c.Records > 0 {
			want = append(want, c)
		}
	}
	if got := l.Counts(); !slices.Equal(got, want) {
		t.Fatalf("counts %v, want %v", got, want)
	}
}

// A list that is no list of records is refused and changes nothing. The largest numbers do not overflow.
func TestLedgerLimits(t *testing.T) {
	l := &pserver.Ledger{}
	for _, list := range [][]ranges.Range{{{From: -1, To: 1}}, {{From: 3, To: 3}}, {{From: 0, To: 1}, {From: 5, To: 4}}} {
		if err := l.Commit(0, list); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v: %v", list, err)
		}
	}
	if err := l.Commit(-1, []ranges.Range{{From: 0, To: 1}}); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
	if len(l.Counts()) != 0 {
		t.Errorf("refused entries count: %v", l.Counts())
	}
	whole := []ranges.Range{{From: 0, To: math.MaxInt64}, {From: 1, To: math.MaxInt64}}
	for range 3 {
		if err := l.Commit(7, whole); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := l.Counts(), []pserver.PassCount{{Pass: 7, Records: math.MaxInt64, Again: math.MaxInt64}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// DecodeLedger refuses everything that Encode does not write.
func TestLedgerDecodeRefuses(t *testing.T) {
	l := &pserver.Ledger{}
	for pass := range int32(3) {
		if err := l.Commit(pass, []ranges.Range{{From: 0, To: 3}, {From: 200, To: 1000}, {From: 5, To: 6}, {From: 5, To: 6}}); err != nil {
			t.Fatal(err)
		}
	}
	good := l.Encode()
	if _, err := pserver.DecodeLedger(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if _, err := pserver.DecodeLedger(good[:n]); !errors.Is(err, fault.Corrupt) {
			t.Errorf("cut at byte %d: %v", n, err)
		}
	}
	for name, b := range map[string][]byte{
		"another version":    {2, 0},
		"a byte too many":    append(slices.Clone(good), 0),
		"an empty range":     {1, 1, 0, 0, 1, 5, 0},
		"ranges that touch":  {1, 1, 0, 0, 2, 5, 1, 0, 1},
		"an empty pass":      {1, 1, 0, 0, 0},
		"a pass twice":       {1, 2, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1},
		"passes in disorder": {1, 2, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1},
		"a long number":      {1, 1, 0, 0, 1, 0x80, 0, 1},
		"too many ranges":    {1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 1},
		"numbers too large":  {1, 1, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 9},
	} {
		if _, err := pserver.DecodeLedger(b); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Bytes that DecodeLedger takes are the bytes that Encode writes.
func FuzzDecodeLedger(f *testing.F) {
	f.Add([]byte{1, 1, 0, 3, 2, 5, 1, 1, 1})
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := pserver.DecodeLedger(b); err == nil && !slices.Equal(l.Encode(), b) {
			t.Errorf("%x is written as %x", b, l.Encode())
		}
	})
}

// A ledger that is larger than a message may be is sent in pieces: here it has every second record, with large numbers.
func TestLargeLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("one caller at a time: it needs no short form")
	}
	const steps, ranges, first = 2, 550_000, int64(1) << 40
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, false, 1, 2))
	a := pstest.Trainer{Client: s.Client}
	for step := range int64(steps) {
		d := &rpc.Declared{Rows: ranges}
		for i := range int64(ranges) {
			from := first + 2*(step*ranges+i)
			d.Records = append(d.Records, &rpc.RecordRange{From: from, To: from + 1})
		}
		if _, err := a.Send(t.Context(), uint64(step), "w0@GRAD", pstest.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		if err := a.Declare(t.Context(), uint64(step), d, 1); err != nil {
			t.Fatal(err)
		}
	}
	l, err := wire.Ledger(t.Context(), "pserver 0", s.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job, Ranges: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Passes) != 1 || l.Passes[0].Records != steps*ranges || len(l.Passes[0].Committed) != steps*ranges {
		t.Errorf("the ledger has %d records in %d ranges", l.Passes[0].GetRecords(), len(l.Passes[0].GetCommitted()))
	}
	for i, r := range l.Passes[0].GetCommitted() {
		if from := first + 2*int64(i); r.From != from || r.To != from+1 {
			t.Fatalf("range %d is %v", i, r)
		}
	}
}
