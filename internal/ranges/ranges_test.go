package ranges_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/edl-go/edl/internal/ranges"
)

const records = 48

// bitmap is the naive form of a set, which every operation is compared with.
type bitmap [records]bool

func (b bitmap) set() (s Set) {
	for i, in := range b {
		switch n := len(s); {
		case in && n > 0 && s[n-1].To == int64(i):
			s[n-1].To++
		case in:
			s = append(s, Range{From: int64(i), To: int64(i) + 1})
		}
	}
	return s
}

func (b bitmap) both(c bitmap, f func(x, y bool) bool) bitmap {
	for i := range b {
		b[i] = f(b[i], c[i])
	}
	return b
}

func draw(r *rand.Rand) (b bitmap) {
	density := r.Float64()
	for i := range b {
		b[i] = r.Float64() < density
	}
	return b
}

// placesOf has those records of b whose places in b are in c.
func placesOf(b, c bitmap) (at bitmap) {
	place := 0
	for i := range b {
		if b[i] {
			at[i] = c[place]
			place++
		}
	}
	return at
}

func TestAgainstBitmap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		x, y := draw(r), draw(r)
		a, b := x.set(), y.set()
		before := fmt.Sprint(a, b)
		check := func(what string, got Set, want bitmap) {
			t.Helper()
			if !slices.Equal(got, want.set()) {
				t.Fatalf("%s of %v and %v: %v, want %v", what, a, b, got, want.set())
			}
		}
		check("union", a.Union(b), x.both(y, func(x, y bool) bool { return x || y }))
		check("without", a.Without(b), x.both(y, func(x, y bool) bool { return x && !y }))
		check("intersect", a.Intersect(b), x.both(y, func(x, y bool) bool { return x && y }))

		var list []Range // pieces of a in any order, some twice, with some that are no ranges
		for _, p := range a {
			cut := p.From + r.Int64N(p.Len()+1)
			list = append(list, Range{From: p.From, To: cut}, Range{From: max(p.From, cut-1), To: p.To}, Range{From: p.To, To: p.From}, Range{From: -2, To: 1})
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		check("Of", Of(list...), x)
		check("Of(Subtract)", Of(Subtract(Of(list...), b)...), x.both(y, func(x, y bool) bool { return x && !y }))

		check("at", a.At(b), placesOf(x, y))

		n, outside := int64(0), int64(0)
		for i := range int64(records) {
			if x[i] {
				n++
			} else {
				if got := a.Outside(outside); got != i {
					t.Fatalf("%v: place %d outside is %d, want %d", a, outside, got, i)
				}
				outside++
			}
			after := i
			for after < records && x[after] {
				after++
			}
			if got := a.After(i); got != after || a.Has(i) != x[i] {
				t.Fatalf("%v: After(%d) is %d, want %d; Has is %v", a, i, got, after, a.Has(i))
			}
			if j := a.Search(i); j > 0 && a[j-1].To > i || j < len(a) && a[j].To <= i {
				t.Fatalf("%v: Search(%d) is %d", a, i, j)
			}
		}
		if a.Count() != n {
			t.Fatalf("%v: %d records, want %d", a, a.Count(), n)
		}
		checkNear(t, r, a)
		checkDurable(t, r, a)
		if after := fmt.Sprint(a, b); after != before {
			t.Fatalf("operands changed from %s to %s", before, after)
		}
	}
}

// checkNear checks that adding a range changes none but the ranges near it.
func checkNear(t *testing.T, r *rand.Rand, a Set) {
	t.Helper()
	p := Range{From: r.Int64N(records)}
	p.To = p.From + 1 + r.Int64N(8)
	i, j := a.Near(p)
	if got := slices.Concat(a[:i], a[i:j].Union(Set{p}), a[j:]); !slices.Equal(got, Of(append(slices.Clone(a), p)...)) {
		t.Fatalf("%v with %v: %v", a, p, got)
	}
}

// checkDurable checks that sets survive their durable form, and that a bounded set has all records of the set.
func checkDurable(t *testing.T, r *rand.Rand, a Set) {
	t.Helper()
	if back, ok := OfRuns(a.Runs(), records); !ok || !slices.Equal(back, a) {
		t.Fatalf("%v: runs %v read as %v, %v", a, a.Runs(), back, ok)
	}
	if len(a) > 0 {
		if _, ok := OfRuns(a.Runs(), a[len(a)-1].To-1); ok {
			t.Fatalf("%v was read beyond its limit", a)
		}
	}
	runs := 1 + r.IntN(6)
	if b := a.Bounded(runs); len(b) > runs || len(a.Without(b)) > 0 {
		t.Fatalf("%v: %v in %d runs", a, b, runs)
	}
}

func TestOfRunsRefuses(t *testing.T) {
	for _, runs := range [][]int64{{1}, {-1, 2}, {0, 0}, {0, -1}, {0, 1, 0, 1}, {0, math.MaxInt64, 1, 1}, {math.MaxInt64, 1}, {5, 6}} {
		if s, ok := OfRuns(runs, 10); ok {
			t.Errorf("%v was read as %v", runs, s)
		}
	}
}

// Subtract keeps the order of a list, and repeated records.
func TestSubtractKeepsOrder(t *testing.T) {
	got := Subtract([]Range{{From: 20, To: 30}, {From: 0, To: 12}, {From: 8, To: 9}}, Of(Range{From: 3, To: 5}, Range{From: 25, To: 40}))
	if want := []Range{{From: 20, To: 25}, {From: 0, To: 3}, {From: 5, To: 12}, {From: 8, To: 9}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCountSaturates(t *testing.T) {
	all := Range{From: 0, To: math.MaxInt64}
	if n := Count([]Range{all, {From: 5, To: 3}, all}); n != math.MaxInt64 {
		t.Errorf("%d", n)
	}
}

func ExampleOf() {
	s := Of(Range{From: 7, To: 9}, Range{From: 0, To: 3}, Range{From: 2, To: 5})
	fmt.Println(s, s.Count(), s.Runs())
	fmt.Println(s.Union(Of(Range{From: 5, To: 7})), s.Without(Of(Range{From: 1, To: 8})))
	// Output:
	// [{0 5} {7 9}] 7 [0 5 2 2]
	// [{0 9}] [{0 1} {8 9}]
}

func FuzzOfRuns(f *testing.F) {
	f.Add([]byte{0, 5, 2, 2}, int64(9))
	f.Fuzz(func(t *testing.T, bytes []byte, limit int64) {
		runs := make([]int64, len(bytes))
		for i, b := range bytes {
			if runs[i] = int64(int8(b)); b == 0x7f {
				runs[i] = math.MaxInt64 - 3
			}
		}
		if s, ok := OfRuns(runs, limit); ok && !slices.Equal(s.Runs(), runs) {
			t.Fatalf("%v was read as %v, whose runs are %v", runs, s, s.Runs())
		}
	})
}
