package metrics

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/edl-go/edl/fault"
)

const (
	// maxScores is how many different scores a ranking keeps apart. It takes 40 bytes for each, and as much again while it adds new ones.
	maxScores = 1 << 19
	// pendingScores is how many rows a ranking collects before it sorts them in, unless it has many scores already.
	pendingScores = 1 << 14
	// weightBits are the bits behind the binary point of a weight.
	weightBits = 62
	// maxWeight bounds weights: 2^34 rows of the largest one can be added.
	maxWeight = 1 << 32
)

// A ranking counts the rows of label 1 and of label 0 by score. It holds every score exactly until there are more than limit different ones. From then on
// it puts neighbouring scores into one bin: it drops as many low bits of all scores as it must. How many these are depends only on the set of all scores, so
// rankings of parts merge into the ranking of the whole.
//
// A bin of dropped bits is relative: with s bits of float64 dropped, scores in a bin differ by less than 2^(s-52) of their size. Half a million bins for
// probabilities between 0.001 and 1 are 50,000 for each power of two.
type ranking struct {
	limit   int
	shift   int // low bits of keys that are dropped
	bins    []bin
	pending []bin // rows that are not in bins yet, as bins of their own
}

// A bin is what is known of the rows whose score has one key. Keys order as scores do.
type bin struct {
	key                uint64
	positive, negative weight
}

// A weight is a fixed-point number of 128 bits, with weightBits bits behind the point. So sums of weights are exact.
type weight struct{ high, low uint64 }

// weightOf rounds a number in [0, maxWeight] to 62 binary digits behind the point.
func weightOf(v float64) weight {
	scaled := math.RoundToEven(math.Ldexp(v, weightBits))
	high := math.Floor(math.Ldexp(scaled, -64))
	return weight{uint64(high), uint64(scaled - math.Ldexp(high, 64))}
}

func (w weight) plus(o weight) (sum weight, overflow bool) {
	low, carry := bits.Add64(w.low, o.low, 0)
	high, carry := bits.Add64(w.high, o.high, carry)
	return weight{high, low}, carry != 0
}

func (w weight) float() float64 {
	return math.Ldexp(float64(w.high), 64-weightBits) + math.Ldexp(float64(w.low), -weightBits)
}

// keyOf returns a number that orders as finite scores do. Both zeros have one key.
func keyOf(score float64) uint64 {
	pattern := math.Float64bits(score + 0)
	if pattern>>63 != 0 {
		return ^pattern
	}
	return pattern | 1<<63
}

func newRanking(limit int) *ranking { return &ranking{limit: limit} }

// add counts one row.
func (r *ranking) add(score float64, positive bool, w float64) error {
	b := bin{key: keyOf(score) >> r.shift << r.shift}
	if positive {
		b.positive = weightOf(w)
	} else {
		b.negative = weightOf(w)
	}
	r.pending = append(r.pending, b)
	if len(r.pending) < max(pendingScores, len(r.bins)/4) {
		return nil
	}
	return r.settle()
}

// merge counts the rows of another ranking of the same limit.
func (r *ranking) merge(other *ranking) error {
	if err := r.settle(); err != nil {
		return err
	}
	if err := r.coarsen(max(r.shift, other.shift)); err != nil {
		return err
	}
	for _, part := range [][]bin{other.bins, other.pending} {
		for chunk := range slices.Chunk(part, pendingScores) {
			r.pending = append(r.pending, chunk...)
			if err := r.settle(); err != nil {
				return err
			}
		}
	}
	return nil
}

func byKey(a, b bin) int { return cmp.Compare(a.key, b.key) }

// settle sorts pending rows in.
func (r *ranking) settle() error {
	if len(r.pending) == 0 {
		return nil
	}
	slices.SortFunc(r.pending, byKey)
	all := make([]bin, 0, len(r.bins)+len(r.pending))
	for i, j := 0, 0; i < len(r.bins) || j < len(r.pending); {
		var next bin
		if j == len(r.pending) || i < len(r.bins) && r.bins[i].key <= r.pending[j].key {
			next, i = r.bins[i], i+1
		} else {
			next, j = r.pending[j], j+1
		}
		var err error
		if all, err = appendBin(all, next, next.key>>r.shift<<r.shift); err != nil {
			return err
		}
	}
	r.bins, r.pending = all, r.pending[:0]
	return r.coarsen(r.shiftFor())
}

// appendBin puts a bin behind others, into the last of them if the keys are equal.
func appendBin(bins []bin, b bin, key uint64) ([]bin, error) {
	b.key = key
	if len(bins) == 0 || bins[len(bins)-1].key != key {
		return append(bins, b), nil
	}
	last := &bins[len(bins)-1]
	var one, two bool
	last.positive, one = last.positive.plus(b.positive)
	last.negative, two = last.negative.plus(b.negative)
	if one || two {
		return nil, tooHeavy()
	}
	return bins, nil
}

func tooHeavy() error {
	return fault.E(fault.TooLarge, fault.At("auc"), fault.Gotf("weights whose sum is above 2^%d", 128-weightBits), fault.Want("smaller weights"))
}

// shiftFor returns the least number of dropped bits with at most limit bins. Neighbours whose keys differ first at bit n stay apart with up to n dropped bits.
func (r *ranking) shiftFor() int {
	if len(r.bins) <= r.limit {
		return r.shift
	}
	var apart [65]int // by the length of the difference
	for i := 1; i < len(r.bins); i++ {
		apart[bits.Len64(r.bins[i].key^r.bins[i-1].key)]++
	}
	left, shift := len(r.bins), r.shift
	for left > r.limit {
		shift++
		left -= apart[shift]
	}
	return shift
}

// coarsen drops so many bits of all keys.
func (r *ranking) coarsen(shift int) error {
	if shift == r.shift {
		return nil
	}
	r.shift = shift
	merged := r.bins[:0]
	for _, b := range r.bins {
		var err error
		if merged, err = appendBin(merged, b, b.key>>shift<<shift); err != nil {
			return err
		}
	}
	r.bins = merged
	return nil
}

// area returns the probability that a row of label 1 has a larger score than a row of label 0; equal scores count half. It is NaN if a label is missing. bound
// is how far the area of the exact scores may be from it: 0 while all scores are kept.
func (r *ranking) area() (area, bound float64, err error) {
	if err := r.settle(); err != nil {
		return 0, 0, err
	}
	var positive, negative weight
	var over bool
	for _, b := range r.bins {
		if negative, over = negative.plus(b.negative); over {
			return 0, 0, tooHeavy()
		}
		p, n := b.positive.float(), b.negative.float()
		area += p * (negative.float() - n/2)
		bound += p * n / 2
		if positive, over = positive.plus(b.positive); over {
			return 0, 0, tooHeavy()
		}
	}
	pairs := positive.float() * negative.float()
	if r.shift == 0 || pairs == 0 {
		return area / pairs, 0, nil
	}
	return area / pairs, bound / pairs, nil
}
