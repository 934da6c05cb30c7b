package kernel

import "github.com/edl-go/edl/tensor"

// FirstNoProbability returns the index of the first of p that is not in [0, 1], -1 if there is none.
func FirstNoProbability[T tensor.Float](p []T) int {
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return i
		}
	}
	return -1
}

// CountScores adds each row to one of len(positive) bins of equal width over its score in [0, 1]: to positive if its label is above 0, else to negative.
// The score of a row is the last of its width columns in scores. labels holds one label for each row.
func CountScores[T tensor.Float](positive, negative []int64, scores []T, labels []int64, width int) {
	last := T(len(positive) - 1)
	for r, label := range labels {
		bin := int(scores[r*width+width-1] * last)
		if label > 0 {
			positive[bin]++
		} else {
			negative[bin]++
		}
	}
}

// Counts says how the counts of labels by bin lie that Fluid's op auc keeps from step to step, each of two labels in a tensor of its own.
type Counts struct {
	Bins  int
	Steps int  // whose counts are kept; 0: all steps add to the same ones
	ring  bool // with Steps: their sum follows, and how many steps there were. Otherwise the newest step is the last
}

// CountsOf returns how n counts lie, and false if they do not.
func CountsOf(n, bins, steps int64) (Counts, bool) {
	c := Counts{Bins: int(bins), Steps: int(steps), ring: steps > 0 && n == (steps+1)*bins+1}
	return c, c.ring || n == max(steps, 1)*bins || steps == 0 && n == bins+1
}

// Begin makes room for the counts of a step if it is the first part of it, and returns where they are to be added.
func (c Counts) Begin(counts []int64, first bool) (at int) {
	switch {
	case c.Steps == 0:
		return 0
	case !c.ring:
		at = (c.Steps - 1) * c.Bins
		if first {
			copy(counts, counts[c.Bins:])
			clear(counts[at:])
		}
		return at
	}
	steps := &counts[len(counts)-1]
	at = int((*steps%int64(c.Steps)+int64(c.Steps))%int64(c.Steps)) * c.Bins
	if first {
		sum := counts[c.Sum():][:c.Bins]
		for i, n := range counts[at : at+c.Bins] {
			sum[i] -= n
		}
		clear(counts[at : at+c.Bins])
		*steps++
	}
	return at
}

// Sum returns where the sum of all steps that are kept lies, to which a step is added, too; -1 if there is none.
func (c Counts) Sum() int {
	if c.ring {
		return c.Steps * c.Bins
	}
	return -1
}

// AUC returns the area under the receiver operating characteristic of all rows that are counted. room holds 2*Bins numbers.
func (c Counts) AUC(positive, negative, room []int64) float64 {
	switch {
	case c.ring:
		return AUC(positive[c.Sum():][:c.Bins], negative[c.Sum():][:c.Bins])
	case c.Steps < 2:
		return AUC(positive[:c.Bins], negative[:c.Bins])
	}
	clear(room)
	p, n := room[:c.Bins], room[c.Bins:2*c.Bins]
	for i := range positive {
		p[i%c.Bins] += positive[i]
		n[i%c.Bins] += negative[i]
	}
	return AUC(p, n)
}

// AUC returns the area under the receiver operating characteristic of counted scores: how probable it is that a positive has a larger score than a
// negative, where two in the same bin count one half. It is 0 if there are no positives or no negatives, as in Fluid.
func AUC(positive, negative []int64) float64 {
	positives, negatives, area := 0.0, 0.0, 0.0 // area counts pairs
	for bin := len(positive) - 1; bin >= 0; bin-- {
		area += float64(negative[bin]) * (positives + float64(positive[bin])/2)
		positives += float64(positive[bin])
		negatives += float64(negative[bin])
	}
	if positives == 0 || negatives == 0 {
		return 0
	}
	return area / positives / negatives
}

// Rates are rows of a classifier of two classes, counted at n thresholds from 0 to 1: true positives, false positives, true negatives and false negatives. The first threshold is
// below all scores, the last one above them. All four have n numbers, n at least 2.
type Rates [4][]int64

// Count adds a row of a score in [0, 1] at all thresholds. Its cost grows with their number.
func (r Rates) Count(score float64, positive bool) {
	below, above := r[1], r[2] // of thresholds up to the score, and above it
	if positive {
		below, above = r[0], r[3]
	}
	n := len(below)
	// The quotient is that of the thresholds, so equal numbers are found equal where a product would be rounded.
	last := min(int(score*float64(n-1))+1, n-2)
	for last > 0 && score < float64(last)/float64(n-1) {
		last--
	}
	for i := range below[:last+1] {
		below[i]++
	}
	for i := range above[last+1:] {
		above[last+1+i]++
	}
}

// Area returns the area under the receiver operating characteristic, or under the curve of precision over recall, by the trapezoidal rule. Fluid adds 1e-6 to counts in order not to
// divide by zero.
func (r Rates) Area(precision bool) (area float64) {
	const epsilon = 1e-6
	for i := 1; i < len(r[0]); i++ {
		x, y := r.point(i, precision, epsilon)
		x0, y0 := r.point(i-1, precision, epsilon)
		area += (x0 - x) * (y + y0) / 2 // fewer rows at higher thresholds
	}
	return area
}

// point returns a point of a curve.
func (r Rates) point(i int, precision bool, epsilon float64) (x, y float64) {
	tp, fp, tn, fn := float64(r[0][i]), float64(r[1][i]), float64(r[2][i]), float64(r[3][i])
	recall := (tp + epsilon) / (tp + fn + epsilon)
	if precision {
		return recall, (tp + epsilon) / (tp + fp + epsilon)
	}
	return fp / (fp + tn + epsilon), recall
}
