package costmodel

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/fault"
)

var shapes = []Shape{{1, 2, 2, 1e3}, {2, 2, 2, 1e6}, {8, 4, 16, 1e5}, {64, 2, 2, 1e4}, {1, 16, 16, 1e6}, {1, 2, 1000, 1e6}, {1, 2, 2, 1e9}}

func pointsOf(m Model, noise func() float64) []Point {
	points := make([]Point, len(shapes))
	for i, s := range shapes {
		points[i] = Point{s, m.Predict(s) * noise()}
	}
	return points
}

func TestFitFindsTheConstants(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, want := range []Model{{0.1, 0.2, 1.2}, {0.06, 0, 0.7}, {0, 0.1, 1}, {1, 0, 0}} {
		got, err := Fit(pointsOf(want, func() float64 { return 1 }))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range [][2]float64{{got.Connection, want.Connection}, {got.Slice, want.Slice}, {got.Megabyte, want.Megabyte}} {
			if math.Abs(c[0]-c[1]) > 1e-9 {
				t.Errorf("%v, want %v", got, want)
			}
		}
		noisy, err := Fit(pointsOf(want, func() float64 { return 0.9 + 0.2*chance.Float64() }))
		if err != nil || noisy.Connection < 0 || noisy.Slice < 0 || noisy.Megabyte < 0 {
			t.Errorf("%v, %v", noisy, err)
		}
		if e := noisy.Errors(pointsOf(want, func() float64 { return 1 })); e.Points != len(shapes) || e.Largest > 0.2 || e.Within != len(shapes) {
			t.Errorf("%v predicts %v with errors %+v", noisy, want, e)
		}
	}
}

// No other constants have a smaller sum of squares than those of Fit.
func TestFitIsTheLeast(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		points := pointsOf(Model{0.1, 0.01, 1}, func() float64 { return 0.3 + chance.Float64() })
		m, err := Fit(points)
		if err != nil {
			t.Fatal(err)
		}
		squares := func(m Model) (sum float64) {
			for _, p := range points {
				sum += m.error(p) * m.error(p)
			}
			return sum
		}
		for range 20 {
			near := func(c float64) float64 { return max(0, c+0.01*(chance.Float64()-0.5)) }
			if other := (Model{near(m.Connection), near(m.Slice), near(m.Megabyte)}); squares(other) < squares(m)*(1-1e-9) {
				t.Fatalf("%v has %v, and %v has %v", m, squares(m), other, squares(other))
			}
		}
	}
}

func TestFitRefuses(t *testing.T) {
	for _, points := range [][]Point{nil, {{shapes[0], 1}, {shapes[1], 1}}, {{shapes[0], 1}, {shapes[1], 1}, {shapes[2], 0}}} {
		if m, err := Fit(points); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v: %v, %v", points, m, err)
		}
	}
}

func TestErrors(t *testing.T) {
	m := Model{Connection: 1}
	s := Shape{Trainers: 1, Pservers: 1}
	e := m.Errors([]Point{{s, 2}, {s, 4}, {s, 1.9}})
	if e.Points != 3 || math.Abs(e.Median-0.1/1.9) > 1e-9 || e.Largest != 0.5 || e.Within != 2 {
		t.Errorf("%+v", e)
	}
	if (m.Errors(nil) != Errors{}) {
		t.Error("errors without points")
	}
}
