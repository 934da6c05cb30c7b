package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/tensor"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// A reporter is the part of testing.T and rapid.T that the helpers below need.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// noise returns n values between -1 and 1 that depend on seed only, some of them repeated so that ties occur.
func noise[T tensor.Float](seed int64, n int) []T {
	r := rand.New(rand.NewPCG(uint64(seed), 17))
	x := make([]T, n)
	for i := range x {
		if x[i] = T(2*r.Float64() - 1); r.IntN(8) == 0 {
			x[i] = T(r.IntN(3)-1) / 2
		}
	}
	return x
}

// positive returns n values between 0.1 and 1.1.
func positive[T tensor.Float](seed int64, n int) []T {
	x := noise[T](seed, n)
	for i, v := range x {
		x[i] = T(math.Abs(float64(v))) + 0.1
	}
	return x
}

// near fails unless got is want within a few units of rounding of scale, the magnitude of its terms.
func near[T tensor.Float](t reporter, got T, want, scale float64, format string, args ...any) {
	t.Helper()
	eps := 1e-14
	if tensor.Of[T]() == tensor.Float32 {
		eps = 4e-6
	}
	g := float64(got)
	if g == want || math.IsNaN(g) && math.IsNaN(want) || math.Abs(g-want) <= eps*(scale+math.Abs(want)) {
		return
	}
	t.Fatalf("%s = %v, want %v", fmt.Sprintf(format, args...), got, want)
}

// sameBits fails unless both slices hold the same values, where a NaN equals a NaN and 0 differs from -0.
func sameBits[T tensor.Float](t reporter, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d elements, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if math.Float64bits(g) != math.Float64bits(w) && !(math.IsNaN(g) && math.IsNaN(w)) {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// noAllocation fails when f allocates.
func noAllocation(t *testing.T, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(10, f); n != 0 {
		t.Fatalf("%v allocations a call, want none", n)
	}
}

// gradientOf differentiates f, a function of what x holds, by central differences.
func gradientOf(x []float64, f func() float64) []float64 {
	const step = 1e-5
	grad := make([]float64, len(x))
	for i, v := range x {
		x[i] = v + step
		above := f()
		x[i] = v - step
		grad[i] = (above - f()) / (2 * step)
		x[i] = v
	}
	return grad
}

// sameGradient fails unless got is within the error of gradientOf of want.
func sameGradient(t reporter, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= 1e-6*(1+math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// dot returns the sum of products, the scalar whose gradient by x is the dout of the kernel that gave x.
func dot(x, y []float64) float64 {
	total := 0.0
	for i := range x {
		total += x[i] * y[i]
	}
	return total
}

// convert returns x in another precision.
func convert[To, From tensor.Float](x []From) []To {
	out := make([]To, len(x))
	for i, v := range x {
		out[i] = To(v)
	}
	return out
}

// nearAll is near for every element, against a scale of 1.
func nearAll[T tensor.Float](t reporter, what string, got []T, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		near(t, got[i], want[i], 1, "%s[%d]", what, i)
	}
}

// eachLevel runs f as a subtest at every level that this machine has, without any vector instructions first.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for level := simd.None; level <= simd.Available(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer simd.Use(level)()
			f(t)
		})
	}
}
