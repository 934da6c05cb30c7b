package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// SVDWorkspace returns the elements of memory that SVD needs for m x n matrices, and SVDGrad.
func SVDWorkspace(m, n int, full bool) int {
	long, short := max(m, n), min(m, n)
	vectors := short
	if full {
		vectors = long
	}
	return vectors*long + 3*short*short + short + long
}

// SVD returns the singular values of an m x n matrix in descending order, and the vectors that belong to them, in the memory of work: left vectors of m elements and right ones of n,
// as rows. With full there are m and n vectors, else min(m, n). It rotates pairs of columns of the matrix, or of rows if these are fewer, until they are orthogonal (Jacobi), in
// an order that does not depend on values. The largest element of a left vector, of equal ones the first, is positive.
func SVD[T tensor.Float](x []T, m, n int, full bool, work []float64) (left, values, right []float64) {
	long, short := max(m, n), min(m, n)
	vectors := short
	if full {
		vectors = long
	}
	a, work := work[:vectors*long], work[vectors*long:]
	v, values := work[:short*short], work[short*short:][:short]
	clear(v)
	for j := range short {
		v[j*short+j] = 1
		for i := range long {
			at := i*n + j
			if m < n {
				at = j*n + i
			}
			a[j*long+i] = float64(x[at])
		}
	}
	for range mostSweeps {
		turned := false
		for p := range short {
			for q := p + 1; q < short; q++ {
				turned = orthogonalize(a[p*long:][:long], a[q*long:][:long], v[p*short:][:short], v[q*short:][:short]) || turned
			}
		}
		if !turned {
			break
		}
	}
	for j := range short {
		values[j] = math.Sqrt(product(a[j*long:][:long], a[j*long:][:long]))
	}
	rank := 0
	for j := range short { // the largest first
		most := j
		for i := j + 1; i < short; i++ {
			if values[i] > values[most] {
				most = i
			}
		}
		if most != j {
			values[j], values[most] = values[most], values[j]
			swap(a[j*long:][:long], a[most*long:][:long])
			swap(v[j*short:][:short], v[most*short:][:short])
		}
		if values[j] > values[0]*float64(long)*0x1p-52 {
			for i := range long {
				a[j*long+i] /= values[j]
			}
			rank = j + 1
		}
	}
	complete(a, rank, vectors, long)
	left, right = a, v
	if m < n {
		left, right = v, a
	}
	for j := range max(m, n) { // signs
		if m >= n && j < vectors {
			if makePositive(left[j*m:][:m]) && j < short {
				negate(right[j*n:][:n])
			}
		} else if m < n && j < short {
			if makePositive(left[j*m:][:m]) {
				negate(right[j*n:][:n])
			}
		} else if m < n && j < vectors {
			makePositive(right[j*n:][:n])
		}
	}
	return left, values, right
}

func product(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// orthogonalize turns two vectors so that their product is 0, and two others alike. It reports whether they were not.
func orthogonalize(a, b, v, w []float64) bool {
	ofA, ofB, off := product(a, a), product(b, b), product(a, b)
	if !(math.Abs(off) > 1e-16*math.Sqrt(ofA*ofB)) {
		return false
	}
	theta := (ofB - ofA) / (2 * off)
	t := math.Copysign(1/(math.Abs(theta)+math.Sqrt(theta*theta+1)), theta)
	c := 1 / math.Sqrt(t*t+1)
	turn(a, b, c, t*c)
	turn(v, w, c, t*c)
	return true
}

func turn(a, b []float64, c, s float64) {
	for i := range a {
		a[i], b[i] = c*a[i]-s*b[i], s*a[i]+c*b[i]
	}
}

// complete adds to have rows of long elements, which are orthogonal and of length 1, others up to want. Each begins from the axis that lies farthest from the rows before.
func complete(rows []float64, have, want, long int) {
	for j := have; j < want; j++ {
		own, best, least := rows[j*long:][:long], 0, math.Inf(1)
		for i := range long {
			within := 0.0
			for k := range j {
				within += rows[k*long+i] * rows[k*long+i]
			}
			if within < least-1e-9 {
				best, least = i, within
			}
		}
		clear(own)
		own[best] = 1
		for range 2 { // the second time for what rounding leaves
			for k := range j {
				less(own, rows[k*long:][:long], product(own, rows[k*long:][:long]))
			}
		}
		length := math.Sqrt(product(own, own))
		for i := range own {
			own[i] /= length
		}
	}
}

// makePositive negates a vector whose largest element is negative, and reports whether it did.
func makePositive(v []float64) bool {
	best := 0
	for i := range v {
		if math.Abs(v[i]) > math.Abs(v[best])*(1+1e-9) {
			best = i
		}
	}
	if len(v) == 0 || !(v[best] < 0) {
		return false
	}
	negate(v)
	return true
}

func negate(v []float64) {
	for i := range v {
		v[i] = -v[i]
	}
}

// SVDGrad computes the gradient of an m x n matrix from its first k = min(m, n) singular values s and vectors, u with columns columns and vh with rows of n elements, and from
// their gradients, any of which may be nil for zeros (Townsend 2016). What a difference of equal values, or a value of 0, would divide counts as 0. work has
// 2*k*k + max(m, n) elements.
func SVDGrad[T tensor.Float](dx, u, s, vh, du, ds, dvh []T, m, n, columns int, work []float64) {
	k := min(m, n)
	w, inner, rest := work[:k*k], work[k*k:2*k*k], work[2*k*k:][:max(m, n)]
	clear(w)
	gap := func(i, j int) float64 { // 1/(s[j]**2 - s[i]**2)
		a, b := float64(s[i]), float64(s[j])
		return inverse((b - a) * (b + a))
	}
	if ds != nil {
		for i := range k {
			w[i*k+i] = float64(ds[i])
		}
	}
	turn := func(product, factor func(i, j int) float64) { // what the vectors of one side, whose products with their gradients are given, add to w
		for i := range k {
			for j := range k {
				inner[i*k+j] = product(i, j)
			}
		}
		for i := range k {
			for j := range k {
				w[i*k+j] += factor(i, j) * gap(i, j) * (inner[i*k+j] - inner[j*k+i])
			}
		}
	}
	if du != nil {
		turn(func(i, j int) (sum float64) {
			for r := range m {
				sum += float64(u[r*columns+i]) * float64(du[r*columns+j])
			}
			return sum
		}, func(_, j int) float64 { return float64(s[j]) })
	}
	if dvh != nil {
		turn(func(i, j int) (sum float64) {
			for c := range n {
				sum += float64(vh[i*n+c]) * float64(dvh[j*n+c])
			}
			return sum
		}, func(i, _ int) float64 { return float64(s[i]) })
	}
	clear(dx[:m*n])
	for r := range m { // u*w*vh
		for i := range k {
			of := 0.0
			for j := range k {
				of += float64(u[r*columns+j]) * w[j*k+i]
			}
			for c := range n {
				dx[r*n+c] += T(of * float64(vh[i*n+c]))
			}
		}
	}
	for j := range k { // parts of du and dvh that the vectors do not span
		over := inverse(float64(s[j]))
		if du != nil && m > k {
			outside(rest[:m], func(r int) float64 { return float64(du[r*columns+j]) }, func(i, r int) float64 { return float64(u[r*columns+i]) }, k)
			for r := range m {
				for c := range n {
					dx[r*n+c] += T(rest[r] * over * float64(vh[j*n+c]))
				}
			}
		}
		if dvh != nil && n > k {
			outside(rest[:n], func(c int) float64 { return float64(dvh[j*n+c]) }, func(i, c int) float64 { return float64(vh[i*n+c]) }, k)
			for r := range m {
				for c := range n {
					dx[r*n+c] += T(float64(u[r*columns+j]) * over * rest[c])
				}
			}
		}
	}
}

// inverse is 1/x, and 0 of 0.
func inverse(x float64) float64 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

// outside writes the part of a vector that k orthogonal ones do not span.
func outside(out []float64, vector func(at int) float64, of func(i, at int) float64, k int) {
	for r := range out {
		out[r] = vector(r)
	}
	for i := range k {
		within := 0.0
		for r := range out {
			within += of(i, r) * vector(r)
		}
		for r := range out {
			out[r] -= within * of(i, r)
		}
	}
}

// LeastSquares writes the out with the least sum of squares of a*out - y. a is an m x n matrix: SVD has returned its vectors and values. y has so many columns. A singular value of at most rcond times
// the largest counts as 0; rank is the number of the others. room has n elements.
func LeastSquares[T tensor.Float](out, y []T, left, values, right, room []float64, rcond float64, m, n, columns int) (rank int) {
	for rank < len(values) && values[rank] > 0 && values[rank] > rcond*values[0] {
		rank++
	}
	for c := range columns {
		sums := room[:n]
		clear(sums)
		for k := range rank {
			along := 0.0
			for i := range m {
				along += left[k*m+i] * float64(y[i*columns+c])
			}
			along /= values[k]
			for j := range sums {
				sums[j] += along * right[k*n+j]
			}
		}
		for j, v := range sums {
			out[j*columns+c] = T(v)
		}
	}
	return rank
}

// SquaredErrors writes the sum of squares of each column of a*x - y, for an m x n matrix a.
func SquaredErrors[T tensor.Float](out, a, x, y []T, m, n, columns int) {
	for c := range columns {
		total := 0.0
		for i := range m {
			d := -float64(y[i*columns+c])
			for j := range n {
				d += float64(a[i*n+j]) * float64(x[j*columns+c])
			}
			total += d * d
		}
		out[c] = T(total)
	}
}
