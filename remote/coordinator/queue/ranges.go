package queue

import (
	"math"
	"slices"
	"sort"

	"github.com/edl-go/edl/proto/rpc"
)

// span is the records [from, to).
type span struct{ from, to int64 }

// spans is ascending, and its parts are not empty and do not touch. It is never changed in place.
type spans []span

func (s spans) records() (n int64) {
	for _, p := range s {
		n += p.to - p.from
	}
	return n
}

// spansOf takes ranges in any order, which may overlap; what is not a range is left out.
func spansOf(ranges []*rpc.RecordRange) spans {
	s := make(spans, 0, len(ranges))
	for _, r := range ranges {
		if r.GetFrom() >= 0 && r.GetFrom() < r.GetTo() {
			s = append(s, span{r.GetFrom(), r.GetTo()})
		}
	}
	return join(s)
}

// join orders spans and joins those that touch. It may use the memory of s.
func join(s spans) spans {
	slices.SortFunc(s, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	out := s[:0]
	for _, p := range s {
		if n := len(out); n > 0 && p.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, p.to)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// and joins two sets.
func (s spans) and(other spans) spans { return join(slices.Concat(s, other)) }

// without returns what is in s and not in other.
func (s spans) without(other spans) spans {
	var out spans
	for _, p := range s {
		for i := other.search(p.from); i < len(other) && other[i].from < p.to; i++ {
			if p.from < other[i].from {
				out = append(out, span{p.from, other[i].from})
			}
			p.from = max(p.from, other[i].to)
		}
		if p.from < p.to {
			out = append(out, p)
		}
	}
	return out
}

// search returns the first part that ends after a record.
func (s spans) search(record int64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].to > record })
}

// after returns the first record from at on that is not in s.
func (s spans) after(at int64) int64 {
	if i := s.search(at); i < len(s) && s[i].from <= at {
		return s[i].to
	}
	return at
}

// bounded returns s in at most maxRuns parts, by closing gaps at its end: so much more is trained again.
func (s spans) bounded() spans {
	if len(s) <= maxRuns {
		return s
	}
	out := slices.Clone(s[:maxRuns])
	out[maxRuns-1].to = s[len(s)-1].to
	return out
}

func (s spans) ranges() []*rpc.RecordRange {
	out := make([]*rpc.RecordRange, len(s))
	for i, p := range s {
		out[i] = &rpc.RecordRange{From: p.from, To: p.to}
	}
	return out
}

// runs is the durable form: alternately how many records are not in s and how many are.
func (s spans) runs() []int64 {
	out, at := make([]int64, 0, 2*len(s)), int64(0)
	for _, p := range s {
		out = append(out, p.from-at, p.to-p.from)
		at = p.to
	}
	return out
}

// spansOfRuns reads the durable form. ok is false when it is not the form of spans within [0, limit).
func spansOfRuns(runs []int64, limit int64) (s spans, ok bool) {
	if len(runs)%2 != 0 {
		return nil, false
	}
	s, at := make(spans, 0, len(runs)/2), int64(0)
	for i := 0; i < len(runs); i += 2 {
		gap, n := runs[i], runs[i+1]
		if gap < 0 || n <= 0 || i > 0 && gap == 0 || gap > math.MaxInt64-at || n > math.MaxInt64-at-gap {
			return nil, false
		}
		s = append(s, span{at + gap, at + gap + n})
		at += gap + n
	}
	return s, at <= limit
}
