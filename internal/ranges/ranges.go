// Package ranges has the one representation of sets of records: sorted ranges of record numbers. The task queue, the ledger of a parameter server,
// trainers and package dataset share it. On the wire a range is an rpc.RecordRange; package remote/wire converts.
//
// Two forms occur. A list ([]Range) has ranges in any order, for example in the order in which rows were read; its ranges may overlap. A Set is a list
// in its normal form. For example, Of({7, 9}, {0, 3}, {2, 5}) is the Set {0, 5}, {7, 9}.
package ranges

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A Range is the records From, From+1, ..., To-1, numbered through a whole dataset. It is empty when To <= From.
type Range struct{ From, To int64 }

// Len returns how many records are in r.
func (r Range) Len() int64 { return max(0, r.To-r.From) }

// A Set is a set of records: ranges from 0 on that are ascending, not empty, and neither overlap nor touch. So equal sets have equal ranges.
// Methods do not change their operands; results may share memory with them.
type Set []Range

// Of returns the set of the records in list. Ranges that are empty or begin below 0 are left out.
func Of(list ...Range) Set {
	s := make(Set, 0, len(list))
	for _, r := range list {
		if r.From >= 0 && r.From < r.To {
			s = append(s, r)
		}
	}
	slices.SortFunc(s, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	out := s[:0]
	for _, r := range s {
		out = out.append(r)
	}
	return out
}

// append adds a range that begins at or after the last one. It changes s in place.
func (s Set) append(r Range) Set {
	if n := len(s); n > 0 && r.From <= s[n-1].To {
		s[n-1].To = max(s[n-1].To, r.To)
		return s
	}
	return append(s, r)
}

// Count returns how many records the ranges of list have together. Records that are in several ranges count several times. The result stops at
// math.MaxInt64.
func Count(list []Range) (n int64) {
	for _, r := range list {
		n += min(r.Len(), math.MaxInt64-n)
	}
	return n
}

// Subtract returns what list has outside of s, in the order of list.
func Subtract(list []Range, s Set) []Range {
	var out []Range
	for _, r := range list {
		for i := s.Search(r.From); i < len(s) && s[i].From < r.To; i++ {
			if r.From < s[i].From {
				out = append(out, Range{r.From, s[i].From})
			}
			r.From = s[i].To
		}
		if r.From < r.To {
			out = append(out, r)
		}
	}
	return out
}

// Count returns how many records are in s.
func (s Set) Count() int64 { return Count(s) }

// Union returns the records that are in s, in other, or in both.
func (s Set) Union(other Set) Set {
	switch {
	case len(s) == 0:
		return other
	case len(other) == 0:
		return s
	}
	out := make(Set, 0, len(s)+len(other))
	for len(s) > 0 && len(other) > 0 {
		if s[0].From > other[0].From {
			s, other = other, s
		}
		out, s = out.append(s[0]), s[1:]
	}
	for _, r := range append(s[:len(s):len(s)], other...) { // one of them is empty
		out = out.append(r)
	}
	return out
}

// Without returns the records that are in s and not in other.
func (s Set) Without(other Set) Set { return Subtract(s, other) }

// Intersect returns the records that are in both s and other.
func (s Set) Intersect(other Set) Set { return s.Without(s.Without(other)) }

// Search returns the index of the first range that ends after record, or len(s).
func (s Set) Search(record int64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].To > record })
}

// Near returns which ranges of s, from i up to and without j, overlap or touch r. Ranges outside of [i, j) stay as they are when r is added.
func (s Set) Near(r Range) (i, j int) {
	i = sort.Search(len(s), func(i int) bool { return s[i].To >= r.From })
	return i, i + sort.Search(len(s)-i, func(k int) bool { return s[i+k].From > r.To })
}

// Has reports whether a record is in s.
func (s Set) Has(record int64) bool { return s.After(record) != record }

// After returns the first record from at on that is not in s.
func (s Set) After(at int64) int64 {
	if i := s.Search(at); i < len(s) && s[i].From <= at {
		return s[i].To
	}
	return at
}

// Outside returns the record at place n, counted from 0, of the records that are not in s.
func (s Set) Outside(n int64) int64 {
	for _, r := range s {
		if r.From > n {
			break
		}
		n += r.To - r.From
	}
	return n
}

// At returns the records at the given places of s: place 0 is the first record of s. Places behind its end are left out.
func (s Set) At(places Set) (at Set) {
	i, before := 0, int64(0) // s[i] begins at place before
	for _, p := range places {
		for n := p.From; n < p.To && i < len(s); {
			end := before + s[i].Len()
			if end <= n {
				i, before = i+1, end
				continue
			}
			r := Range{From: s[i].From + n - before, To: s[i].From + min(p.To, end) - before}
			at, n = at.append(r), n+r.Len()
		}
	}
	return at
}

// Bounded returns s in at most runs ranges. It drops gaps and not records: where s has more ranges, the last one reaches from its start to the end of s.
func (s Set) Bounded(runs int) Set {
	if len(s) <= runs {
		return s
	}
	out := slices.Clone(s[:runs])
	out[runs-1].To = s[len(s)-1].To
	return out
}

// Runs returns the durable form of s: how many records are not in s, then how many are, and so on in turn. For example, the runs of {0, 5}, {7, 9}
// are 0, 5, 2, 2.
func (s Set) Runs() []int64 {
	out, at := make([]int64, 0, 2*len(s)), int64(0)
	for _, r := range s {
		out = append(out, r.From-at, r.To-r.From)
		at = r.To
	}
	return out
}

// Text returns the durable form as decimal numbers with spaces between them. The empty set is the empty text.
func (s Set) Text() string {
	var b []byte
	for i, n := range s.Runs() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

// OfText reads what Text returns. ok is false when text is anything else, or not that of a set within [0, limit).
func OfText(text string, limit int64) (s Set, ok bool) {
	if text == "" {
		return nil, true
	}
	var runs []int64
	for field := range strings.SplitSeq(text, " ") {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, false
		}
		runs = append(runs, n)
	}
	s, ok = OfRuns(runs, limit)
	return s, ok && s.Text() == text
}

// OfRuns reads the durable form. ok is false when runs is not the form of a set within [0, limit).
func OfRuns(runs []int64, limit int64) (s Set, ok bool) {
	if len(runs)%2 != 0 {
		return nil, false
	}
	s, at := make(Set, 0, len(runs)/2), int64(0)
	for i := 0; i < len(runs); i += 2 {
		gap, n := runs[i], runs[i+1]
		if gap < 0 || n <= 0 || i > 0 && gap == 0 || gap > math.MaxInt64-at || n > math.MaxInt64-at-gap {
			return nil, false
		}
		s = append(s, Range{at + gap, at + gap + n})
		at += gap + n
	}
	return s, at <= limit
}
