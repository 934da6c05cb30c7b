// Package costmodel predicts the cost of a round from the size of a job, with three constants that are fitted to measurements.
package costmodel

import (
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
)

// A Shape is the size of a round.
type Shape struct {
	Trainers, Pservers, Slices int // Slices counts those of all pservers together
	Bytes                      int64
}

// terms are what the constants are multiplied by. Every trainer exchanges messages with each pserver and with the coordinator, sends and receives
// every slice, and sends and receives every byte.
func (s Shape) terms() [3]float64 {
	n := float64(s.Trainers)
	return [3]float64{n * float64(s.Pservers+1), n * float64(s.Slices), n * float64(s.Bytes) / 1e6}
}

// A Model is the three constants. A cost is in milliseconds, of processor time or of wall time, as the measurements were.
type Model struct {
	Connection float64 // for each trainer, and each pserver or the coordinator
	Slice      float64 // for each trainer and slice
	Megabyte   float64 // for each trainer and 10^6 bytes of parameters
}

// String writes the formula, with N trainers, M pservers, S slices and P megabytes.
func (m Model) String() string {
	return fmt.Sprintf("N (%.3g (M + 1) + %.3g S + %.3g P) ms", m.Connection, m.Slice, m.Megabyte)
}

// Predict returns the cost of a round.
func (m Model) Predict(s Shape) float64 {
	t := s.terms()
	return m.Connection*t[0] + m.Slice*t[1] + m.Megabyte*t[2]
}

// A Point is a measured cost, above 0.
type Point struct {
	Shape
	Cost float64
}

// Fit finds the constants, none below 0, with the least sum of squares of relative errors. It needs at least three points.
func Fit(points []Point) (Model, error) {
	if len(points) < 3 {
		return Model{}, fault.E(fault.InvalidArgument, fault.Gotf("%d points", len(points)), fault.Want("at least 3, one for each constant"))
	}
	for _, p := range points {
		if !(p.Cost > 0) {
			return Model{}, fault.E(fault.InvalidArgument, fault.Gotf("the cost %v of %+v", p.Cost, p.Shape), fault.Want("a number above 0"))
		}
	}
	best, least := Model{}, math.Inf(1)
	for subset := 1; subset < 8; subset++ { // the best constants are the free solution of those that are not 0
		constants, ok := solve(points, subset)
		if !ok {
			continue
		}
		m := Model{constants[0], constants[1], constants[2]}
		squares := 0.0
		for _, p := range points {
			squares += m.error(p) * m.error(p)
		}
		if squares < least {
			best, least = m, squares
		}
	}
	return best, nil
}

// error is the relative error of a prediction: 0.1 if it is 10 % too high.
func (m Model) error(p Point) float64 { return m.Predict(p.Shape)/p.Cost - 1 }

// solve returns the least squares solution for those constants whose bit is set in subset; the others are 0. It reports whether there is one with no
// constant below 0.
func solve(points []Point, subset int) (constants [3]float64, ok bool) {
	// The normal equations, one row for each constant and one column more for the right side.
	var a [3][4]float64
	for _, p := range points {
		terms := p.terms()
		for i := range terms {
			for j := range terms {
				a[i][j] += terms[i] * terms[j] / (p.Cost * p.Cost)
			}
			a[i][3] += terms[i] / p.Cost
		}
	}
	for i := range a {
		if subset&(1<<i) != 0 {
			continue
		}
		a[i] = [4]float64{} // the equation: this constant is 0
		for j := range a {
			a[j][i] = 0
		}
		a[i][i] = 1
	}
	for i := range a {
		pivot := i
		for j := i + 1; j < len(a); j++ {
			if math.Abs(a[j][i]) > math.Abs(a[pivot][i]) {
				pivot = j
			}
		}
		a[i], a[pivot] = a[pivot], a[i]
		if a[i][i] == 0 {
			return constants, false
		}
		for j := range a {
			if j == i {
				continue
			}
			factor := a[j][i] / a[i][i]
			for k := i; k < 4; k++ {
				a[j][k] -= factor * a[i][k]
			}
		}
	}
	for i := range a {
		constants[i] = a[i][3] / a[i][i]
		if constants[i] < 0 || math.IsNaN(constants[i]) || math.IsInf(constants[i], 0) {
			return constants, false
		}
	}
	return constants, true
}

// Errors says how well a model predicts points: absolute relative errors.
type Errors struct {
	Points          int
	Median, Largest float64
	Within          int // points whose error is at most Bound
}

// Bound is the error that predictions should not exceed.
const Bound = 0.2

// Errors compares a model with points.
func (m Model) Errors(points []Point) Errors {
	if len(points) == 0 {
		return Errors{}
	}
	all := make([]float64, len(points))
	e := Errors{Points: len(points)}
	for i, p := range points {
		if all[i] = math.Abs(m.error(p)); all[i] <= Bound {
			e.Within++
		}
	}
	slices.Sort(all)
	e.Median, e.Largest = (all[(len(all)-1)/2]+all[len(all)/2])/2, all[len(all)-1]
	return e
}

// String writes errors in percent.
func (e Errors) String() string {
	return fmt.Sprintf("%d points, error %.0f %% in the median and %.0f %% at most, %d within %.0f %%", e.Points, 100*e.Median, 100*e.Largest, e.Within,
		100*Bound)
}
