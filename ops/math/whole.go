package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
)

// Some functions of each element are also those of whole numbers, as in Paddle 2. No gradient flows through these.

// wholeCurves are such functions of one element, by their op. Sums and products wrap around.
var wholeCurves = map[string]func(int64) int64{
	"abs": func(x int64) int64 { return max(x, -x) },
	"sign": func(x int64) int64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	},
	"square": func(x int64) int64 { return x * x },
	"relu":   func(x int64) int64 { return max(x, 0) },
	"floor":  same, "ceil": same, "round": same,
}

func same(x int64) int64 { return x }

// alsoWhole lets an op of a function of floats take whole numbers, too.
func alsoWhole(d ops.Def, i32, i64 opkit.Binder) ops.Def {
	d.Inputs[0].Doc = "numbers"
	d.Infer = inferNumbersLike
	floats := d.Bind
	d.Bind = opkit.BindNumbers("X", floats, floats, i32, i64)
	return d
}

func eachWhole[T int32 | int64](f func(int64) int64) func(out, x []T) {
	return func(out, x []T) {
		for i, v := range x[:len(out)] {
			out[i] = T(f(int64(v)))
		}
	}
}

// clipWhole limits whole numbers. Bounds are truncated, and those that T cannot hold bound nothing.
func clipWhole[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	low, high := bound[T](b.Float("min")), bound[T](b.Float("max"))
	return bindEach(func(out, x []T) {
		for i, v := range x[:len(out)] {
			out[i] = min(max(v, low), high)
		}
	})(b)
}

// bound returns the whole number towards 0 from v, or the nearest one that T can hold.
func bound[T int32 | int64](v float64) T {
	least, most := T(-1)<<(8*sizeOf[T]()-1), ^(T(-1) << (8*sizeOf[T]() - 1))
	switch {
	case v <= float64(least):
		return least
	case v >= float64(most):
		return most
	}
	return T(v)
}

func sizeOf[T int32 | int64]() int {
	if T(1)<<31 < 0 {
		return 4
	}
	return 8
}

// wholePowers lets pow take whole numbers. Their exponent is whole, too: as in Paddle, what factor has behind the point does not count.
func wholePowers(d ops.Def) ops.Def {
	d = alsoWhole(d, bindWholePower[int32], bindWholePower[int64])
	infer := d.Infer
	d.Infer = func(s *ops.Shapes) error {
		if f := s.Float("factor"); !s.In("X").DType.IsFloat() && !(f > -1 && f < 1<<31) {
			return opkit.UnsupportedAttr(s, "factor", "from 0 to 2147483647 for integers: add a cast to float32, since other powers are fractions")
		}
		return infer(s)
	}
	return d
}

func bindWholePower[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	exponent := int64(b.Float("factor"))
	return bindEach(eachWhole[T](func(x int64) int64 { return wholePower(x, exponent) }))(b)
}

// wholePower computes x**n for n from 0 on. Products wrap around.
func wholePower(x, n int64) int64 {
	power := int64(1)
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			power *= x
		}
		x *= x
	}
	return power
}
