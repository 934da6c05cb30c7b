package metrics

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// maxTop bounds K of top-K.
const maxTop = 1000

// A kind is what a metric computes: sums over rows, and a value of these sums.
type kind struct {
	doc   string
	reads input
	sums  int
	// add adds the terms of a row. Each is a function of the row alone.
	add func(s []sum, r *row)
	// value is NaN where the sums do not define it.
	value  func(s []*big.Float) float64
	better better
}

// A better says which of two values is that of better predictions.
type better int

const (
	larger better = iota
	smaller
	nearOne
)

// kinds are the metrics but AUC, which counts scores, and top-K, of which there is one for each K. With w the weight of a row, 1 where it has none:
var kinds = map[string]kind{
	"auc": {doc: "area under the receiver operating characteristic; equal scores count half", reads: scores, better: larger},
	"accuracy": {doc: "share of rows whose class has the largest score, the first of several; of one score, the class is 1 above 0.5", reads: classes, sums: 2, better: larger,
		add: func(s []sum, r *row) { addShare(s, r, r.predicted() == r.class()) }, value: ratio},
	"log_loss": {doc: "mean of -log of the probability of the label, which counts as no less and 1 minus no more than the epsilon of its type", reads: distribution,
		sums: 2, better: smaller, add: addLogLoss, value: ratio},
	"precision": {doc: "of rows that are predicted to be 1, the share that is", reads: probabilities, sums: 2, better: larger,
		add: func(s []sum, r *row) {
			if r.predicted() == 1 {
				addShare(s, r, r.class() == 1)
			}
		}, value: ratio},
	"recall": {doc: "of rows with label 1, the share that is predicted to be 1", reads: probabilities, sums: 2, better: larger,
		add: func(s []sum, r *row) {
			if r.class() == 1 {
				addShare(s, r, r.predicted() == 1)
			}
		}, value: ratio},
	"f1": {doc: "harmonic mean of precision and recall", reads: probabilities, sums: 2, better: larger,
		add: func(s []sum, r *row) { // 2*hits / (predicted + actual)
			if r.predicted() == 1 {
				s[1].add(r.weight)
			}
			if r.class() == 1 {
				s[1].add(r.weight)
				if r.predicted() == 1 {
					s[0].add(2 * r.weight)
				}
			}
		}, value: ratio},
	"calibration": {doc: "sum of predictions / sum of labels", reads: probabilities, sums: 2, better: nearOne,
		add: func(s []sum, r *row) {
			s[0].addProduct(r.weight, r.probability())
			s[1].addProduct(r.weight, r.label)
		}, value: ratio},
	"rmse": {doc: "root of the mean of squared differences", reads: numbers, sums: 2, better: smaller, add: addSquare,
		value: func(s []*big.Float) float64 { return math.Sqrt(ratio(s)) }},
	"mae": {doc: "mean of absolute differences", reads: numbers, sums: 2, better: smaller,
		add: func(s []sum, r *row) {
			s[0].addProduct(r.weight, math.Abs(r.scores[0]-r.label))
			s[1].add(r.weight)
		}, value: ratio},
	"r2": {doc: "1 - sum of squared differences / sum of squared distances of labels from their mean", reads: numbers, sums: 4, better: larger,
		add: func(s []sum, r *row) {
			addSquare(s, r)
			s[2].addProduct(r.weight, r.label)
			addWeighedSquare(&s[3], r.weight, r.label)
		}, value: determination},
}

// addShare adds the weight of a row to the rows, and to those that are right.
func addShare(s []sum, r *row, right bool) {
	if right {
		s[0].add(r.weight)
	}
	s[1].add(r.weight)
}

func addLogLoss(s []sum, r *row) {
	p := r.scores[min(r.class(), len(r.scores)-1)]
	p = min(max(p, r.epsilon), 1-r.epsilon)
	loss := -math.Log(p)
	if len(r.scores) == 1 && r.class() == 0 {
		loss = -math.Log1p(-p)
	}
	s[0].addProduct(r.weight, loss)
	s[1].add(r.weight)
}

func addSquare(s []sum, r *row) {
	addWeighedSquare(&s[0], r.weight, r.scores[0]-r.label)
	s[1].add(r.weight)
}

// addWeighedSquare adds w*v*v, without rounding it if w is 1.
func addWeighedSquare(s *sum, w, v float64) {
	square := v * v
	s.addProduct(w, square)
	s.add(w * math.FMA(v, v, -square))
}

// ratio is s[0]/s[1], NaN of nothing.
func ratio(s []*big.Float) float64 {
	if s[1].Sign() <= 0 {
		return math.NaN()
	}
	q, _ := new(big.Float).Quo(s[0], s[1]).Float64()
	return q
}

// determination is 1 - differences/(squares - labels*labels/weights), NaN if all labels are equal.
func determination(s []*big.Float) float64 {
	differences, weights, labels, squares := s[0], s[1], s[2], s[3]
	float := func() *big.Float { return new(big.Float).SetPrec(sumPrecision) }
	spread := float().Sub(float().Mul(squares, weights), float().Mul(labels, labels))
	if spread.Sign() <= 0 {
		return math.NaN()
	}
	q := float().Quo(float().Mul(differences, weights), spread)
	v, _ := q.Sub(big.NewFloat(1), q).Float64()
	return v
}

// kindOf returns the kind of a name.
func kindOf(name string) (kind, error) {
	if k, ok := kinds[name]; ok {
		return k, nil
	}
	if rest, ok := strings.CutPrefix(name, "top-"); ok {
		if n, err := strconv.Atoi(rest); err == nil && n >= 1 && n <= maxTop && itoa(n) == rest {
			return topKind(n), nil
		}
		return kind{}, fault.E(fault.InvalidArgument, fault.At("metric"), fault.Got(fault.Quote(name)), fault.Wantf("top-K with K from 1 to %d, such as top-5", maxTop))
	}
	names := Kinds()
	return kind{}, fault.E(fault.NotFound, fault.At("metric"), fault.Got(fault.Quote(name)), fault.Want("one of "+strings.Join(names, ", ")), fault.DidYouMean(name, names))
}

// topKind is the kind top-K: the share of rows whose label is among the K largest scores. Of equal scores, that of the smaller class counts as larger.
func topKind(k int) kind {
	return kind{reads: classes, sums: 2, better: larger, value: ratio, add: func(s []sum, r *row) {
		before, own := 0, r.class()
		if len(r.scores) == 1 {
			if r.predicted() != own {
				before = 1
			}
		} else {
			for i, v := range r.scores {
				if v > r.scores[own] || v == r.scores[own] && i < own {
					before++
				}
			}
		}
		addShare(s, r, before < k)
	}}
}

// Kinds returns the names of all metrics, sorted; top-K stands for top-1 to top-1000.
func Kinds() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(kinds)), "top-K")))
}

// Loss is the kind of a Result that is the mean of a loss. It is none of Kinds: no prediction and label belong to it.
const Loss = "loss"

// Better reports whether a value of a kind of metric is that of better predictions than another. NaN is never better, and every number is better than NaN.
func Better(kind string, value, than float64) bool {
	if math.IsNaN(value) || math.IsNaN(than) {
		return !math.IsNaN(value) && math.IsNaN(than)
	}
	k, err := kindOf(kind)
	switch {
	case kind == Loss:
		return value < than
	case err != nil:
		return false
	case k.better == smaller:
		return value < than
	case k.better == nearOne:
		return math.Abs(value-1) < math.Abs(than-1)
	}
	return value > than
}

func itoa(n int) string { return strconv.Itoa(n) }
