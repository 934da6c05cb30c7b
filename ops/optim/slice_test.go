package optim

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// TestRowsAloneGiveTheBitsOfTheWhole is the property that lets the transpiler slice parameters over pservers.
func TestRowsAloneGiveTheBitsOfTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := formulas[rapid.IntRange(0, len(formulas)-1).Draw(rt, "formula")]
		dtype := rapid.SampledFrom([]tensor.DType{tensor.Float32, tensor.Float64}).Draw(rt, "dtype")
		rows, width := rapid.Int64Range(1, 40).Draw(rt, "rows"), rapid.Int64Range(1, 9).Draw(rt, "width")
		from := rapid.Int64Range(0, rows).Draw(rt, "from")
		to := rapid.Int64Range(from, rows).Draw(rt, "to")
		whole := newUpdate(t, f.opType, f.attrs, dtype, rapid.Uint64().Draw(rt, "seed"), rows, width)
		part := whole.rows(t, from, to)

		whole.run(t, 3)
		part.run(t, 3)

		for out, in := range whole.def.InPlace {
			expected, err := whole.in[in].Rows(from, to)
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(bitsOf(part.in[in]), bitsOf(expected)) {
				rt.Fatalf("%s %s of rows [%d, %d) differs from those rows of the whole", f.name, out, from, to)
			}
		}
	})
}

// TestInPlaceEqualsApart compares outputs that share the inputs' buffers with outputs of their own.
func TestInPlaceEqualsApart(t *testing.T) {
	for _, f := range formulas {
		t.Run(f.name, func(t *testing.T) {
			shared := newUpdate(t, f.opType, f.attrs, tensor.Float32, 11, 3, 4)
			apart := shared.rows(t, 0, 3)
			before := apart.rows(t, 0, 3)
			for out := range apart.out {
				apart.out[out] = filled(t, tensor.Float32, func() float64 { return math.NaN() }, 3, 4)
			}
			shared.run(t, 1)
			apart.run(t, 2) // reads the same inputs twice
			for out, in := range shared.def.InPlace {
				if f.name == "rmsprop" && out == "MeanGradOut" {
					continue // not used unless centered
				}
				if !slices.Equal(bitsOf(shared.out[out]), bitsOf(apart.out[out])) {
					t.Errorf("%s is %v in place and %v apart", out, float64sOf(shared.out[out]), float64sOf(apart.out[out]))
				}
				if !slices.Equal(bitsOf(before.in[in]), bitsOf(apart.in[in])) {
					t.Errorf("%s was changed although %s is another tensor", in, out)
				}
			}
		})
	}
}

func TestKernelsAllocateNothing(t *testing.T) {
	for _, f := range formulas {
		u := newUpdate(t, f.opType, f.attrs, tensor.Float32, 5, 8, 8)
		run, err := u.bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { _ = run(t.Context()) }); n != 0 {
			t.Errorf("%s allocates %v times a run", f.name, n)
		}
	}
}

func TestEmptyParameter(t *testing.T) {
	for _, f := range formulas {
		newUpdate(t, f.opType, f.attrs, tensor.Float64, 5, 0, 8).run(t, 1)
	}
}

// bitsOf returns the elements as bit patterns, so that NaN equals itself and -0 differs from 0.
func bitsOf(x *tensor.Tensor) []uint64 {
	bits := []uint64{}
	for _, v := range float64sOf(x) {
		bits = append(bits, math.Float64bits(v))
	}
	return bits
}
