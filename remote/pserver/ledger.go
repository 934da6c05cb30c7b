package pserver

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/edl-go/edl/fault"
)

// Limits of a ledger, which bound what a message or a file can make it hold.
const (
	maxRanges = 1 << 22 // of all passes, 16 bytes each
	maxPasses = 1 << 20
)

// A Range is the records [From, To) in the global numbering of a dataset.
type Range struct{ From, To int64 }

// A Ledger tells, pass by pass, which records the updates of a job were computed from. Ranges that touch are one, so that it holds a few
// ranges for what has been trained in order and one for each record that a shuffle has trained ahead of others. The zero value is empty.
type Ledger struct {
	passes map[int32]*passLedger
	ranges int // of all passes
}

type passLedger struct {
	committed []Range // ascending, neither overlapping nor touching
	records   int64   // in them
	again     int64   // entered when they were there already
}

// A PassCount counts the records of a pass: those committed, each once, and those committed beyond the first time.
type PassCount struct {
	Pass           int32
	Records, Again int64
}

// checkRanges refuses what is no list of records.
func checkRanges(pass int32, list []Range) error {
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
func (l *Ledger) Commit(pass int32, list []Range) error {
	if err := checkRanges(pass, list); err != nil || len(list) == 0 {
		return err
	}
	p := l.passes[pass]
	if p == nil {
		p = &passLedger{}
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	// Whatever lies outside of [i, j) neither overlaps nor touches the new ranges.
	last := slices.MaxFunc(list, func(a, b Range) int { return cmp.Compare(a.To, b.To) }).To
	i := sort.Search(len(p.committed), func(i int) bool { return p.committed[i].To >= list[0].From })
	j := i + sort.Search(len(p.committed)-i, func(k int) bool { return p.committed[i+k].From > last })
	merged, again := union(p.committed[i:j], list)
	if l.ranges-(j-i)+len(merged) > maxRanges || l.passes[pass] == nil && len(l.passes) >= maxPasses {
		return fault.E(fault.TooLarge, fault.Gotf("a ledger of more than %d ranges or %d passes", maxRanges, maxPasses),
			fault.Hint("train with a smaller shuffle window"))
	}
	if l.passes == nil {
		l.passes = map[int32]*passLedger{}
	}
	l.passes[pass] = p
	l.ranges += len(merged) - (j - i)
	p.records += count(merged) - count(p.committed[i:j])
	p.again += min(again, math.MaxInt64-p.again)
	p.committed = slices.Replace(p.committed, i, j, merged...)
	return nil
}

// union joins two lists that are sorted by From, the first of them without overlaps, and counts the records that are in them more than once.
func union(have, list []Range) (merged []Range, again int64) {
	for len(have)+len(list) > 0 {
		from := &list
		if len(list) == 0 || len(have) > 0 && have[0].From <= list[0].From {
			from = &have
		}
		next := (*from)[0]
		*from = (*from)[1:]
		if n := len(merged); n > 0 && next.From <= merged[n-1].To {
			last := &merged[n-1]
			again += min(min(last.To, next.To)-next.From, math.MaxInt64-again)
			last.To = max(last.To, next.To)
			continue
		}
		merged = append(merged, next)
	}
	return merged, again
}

func count(list []Range) (n int64) {
	for _, r := range list {
		n += r.To - r.From
	}
	return n
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

// Committed returns the records of a pass, ascending, ranges that neither overlap nor touch.
func (l *Ledger) Committed(pass int32) []Range {
	if p := l.passes[pass]; p != nil {
		return slices.Clone(p.committed)
	}
	return nil
}
