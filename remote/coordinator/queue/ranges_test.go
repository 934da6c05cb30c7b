package queue

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/proto/rpc"
)

// Spans are sets of records, in the one form that has no parts that touch.
func TestSpansProperty(t *testing.T) {
	const limit = 40
	draw := func(t *rapid.T, name string) (s spans, set [limit]bool) {
		var ranges []*rpc.RecordRange
		for range rapid.IntRange(0, 6).Draw(t, name) {
			r := &rpc.RecordRange{From: rapid.Int64Range(-1, limit).Draw(t, "from"), To: rapid.Int64Range(-1, limit).Draw(t, "to")}
			ranges = append(ranges, r)
			for i := max(r.From, 0); r.From >= 0 && i < r.To; i++ {
				set[i] = true
			}
		}
		return spansOf(ranges), set
	}
	check := func(t *rapid.T, what string, s spans, in func(i int64) bool) {
		n, last := int64(0), int64(-1)
		for i := range int64(limit) {
			if in(i) {
				n++
			}
			if in(i) != (s.after(i) != i) {
				t.Fatalf("%s: %v, and %d in it: %v", what, s, i, in(i))
			}
		}
		for _, p := range s {
			if p.from <= last || p.from >= p.to {
				t.Fatalf("%s: %v", what, s)
			}
			last = p.to
		}
		if s.records() != n {
			t.Fatalf("%s: %v has %d records, want %d", what, s, s.records(), n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, inA := draw(t, "a")
		b, inB := draw(t, "b")
		check(t, "made", a, func(i int64) bool { return inA[i] })
		check(t, "and", a.and(b), func(i int64) bool { return inA[i] || inB[i] })
		check(t, "without", a.without(b), func(i int64) bool { return inA[i] && !inB[i] })
		check(t, "ranges", spansOf(a.ranges()), func(i int64) bool { return inA[i] })
		again, ok := spansOfRuns(a.runs(), limit)
		if !ok {
			t.Fatalf("%v is not read", a)
		}
		check(t, "runs", again, func(i int64) bool { return inA[i] })
		if _, ok := spansOfRuns(a.runs(), limit/2); ok != (len(a) == 0 || a[len(a)-1].to <= limit/2) {
			t.Fatalf("%v within %d: %v", a, limit/2, ok)
		}
	})
}

// What is left of a task in too many parts is kept in fewer, which hold all of it.
func TestBoundedSpans(t *testing.T) {
	var s spans
	for i := range int64(2 * maxRuns) {
		s = append(s, span{2 * i, 2*i + 1})
	}
	b := s.bounded()
	if len(b) != maxRuns || len(s.without(b)) > 0 || len(s) != 2*maxRuns {
		t.Errorf("%d parts of %d, without %d", len(b), len(s), len(s.without(b)))
	}
	if c := b.bounded(); len(c) != len(b) {
		t.Errorf("%d parts of %d", len(c), len(b))
	}
}
