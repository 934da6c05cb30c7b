package kernel

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
