package random_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/random"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestSlicesEqualTheWhole cuts a variable twice: a slice of a slice is a slice of the whole.
func TestSlicesEqualTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attrs := map[string]program.Attr{
			"dtype": int32(rapid.SampledFrom([]tensor.DType{tensor.Float32, tensor.Float64}).Draw(rt, "dtype")),
			"seed":  int32(rapid.IntRange(-3, 3).Draw(rt, "seed")),
		}
		rows, width := rapid.Int64Range(1, 30).Draw(rt, "rows"), rapid.Int64Range(0, 7).Draw(rt, "width")
		whole := initializer(rapid.SampledFrom(opTypes).Draw(rt, "op"), attrs, rows, width)
		from := rapid.Int64Range(0, rows).Draw(rt, "from")
		to := rapid.Int64Range(from, rows).Draw(rt, "to")
		inner := rapid.Int64Range(0, to-from).Draw(rt, "inner")

		part, err := random.Slice(whole, "w.block1", from, to)
		if err != nil {
			rt.Fatal(err)
		}
		nested, err := random.Slice(part, "w.block1.block0", inner, to-from)
		if err != nil {
			rt.Fatal(err)
		}
		all := run(t, whole)
		if got, want := run(t, part), all[from*width:to*width]; !slices.Equal(got, want) {
			rt.Fatalf("rows [%d, %d) are %v, in the whole %v", from, to, got, want)
		}
		if got, want := run(t, nested), all[(from+inner)*width:to*width]; !slices.Equal(got, want) {
			rt.Fatalf("rows [%d, %d) of the slice are %v, in the whole %v", inner, to-from, got, want)
		}
		if name := nested.Out("Out"); name != "w.block1.block0" {
			rt.Fatalf("the slice fills %q", name)
		}
	})
}

func TestSliceFaults(t *testing.T) {
	whole := initializer("uniform_random", nil, 4, 2)
	for _, rows := range [][2]int64{{-1, 2}, {3, 2}, {0, 5}, {math.MinInt64, math.MaxInt64}} {
		if _, err := random.Slice(whole, "s", rows[0], rows[1]); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("rows %v of 4: %v", rows, err)
		}
	}
	for name, op := range map[string]*program.Op{
		"no initializer":  {Type: "sgd"},
		"no random place": initializer("uniform_random", map[string]program.Attr{"first_element": int64(-7)}, 4),
		"a scalar":        initializer("uniform_random", nil),
		"a hostile shape": initializer("uniform_random", nil, math.MaxInt64, math.MaxInt64),
	} {
		if _, err := random.Slice(op, "s", 0, 0); err == nil {
			t.Errorf("%s is sliced", name)
		}
	}
	scalar, err := random.Slice(initializer("uniform_random", nil), "s", 0, 1)
	if err != nil || !slices.Equal(run(t, scalar), run(t, initializer("uniform_random", nil))) {
		t.Errorf("the one row of a scalar: %v, %v", scalar, err)
	}
	if shape, _ := whole.Ints("shape"); !slices.Equal(shape, []int64{4, 2}) {
		t.Errorf("slicing changed the op: shape %v", shape)
	}
}
