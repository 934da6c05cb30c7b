package compress_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/tensor"
)

// A format is a form by its definition: fraction bits after the leading one, and the exponents of its least and its largest normal number.
type format struct {
	form        compress.Form
	fraction    int
	least, most int
}

var formats = []format{{compress.BFloat16, 7, -126, 127}, {compress.Float16, 10, -14, 15}}

// nearest rounds x by the definition, in exact arithmetic: to the nearest multiple of the unit of x, ties to the even multiple.
func (f format) nearest(x float32) float32 {
	if x == 0 || math.IsInf(float64(x), 0) || x != x {
		return x
	}
	exponent := max(math.Ilogb(float64(x)), f.least)
	unit := new(big.Float).SetMantExp(big.NewFloat(1), exponent-f.fraction)
	quotient := new(big.Rat).Quo(rat(big.NewFloat(math.Abs(float64(x)))), rat(unit))
	whole := new(big.Int).Quo(quotient.Num(), quotient.Denom())
	rest := new(big.Rat).Sub(quotient, new(big.Rat).SetInt(whole))
	if half := rest.Cmp(big.NewRat(1, 2)); half > 0 || half == 0 && whole.Bit(0) == 1 {
		whole.Add(whole, big.NewInt(1))
	}
	result, _ := new(big.Float).Mul(new(big.Float).SetInt(whole), unit).Float64()
	if result >= math.Ldexp(1, f.most+1) {
		result = math.Inf(1)
	}
	return float32(math.Copysign(result, float64(x)))
}

func rat(x *big.Float) *big.Rat {
	r, _ := x.Rat(nil)
	return r
}

// Every float32 becomes the nearest number of the form, and stays within the bounds that the package doc states.
func TestRoundByDefinition(t *testing.T) {
	for _, f := range formats {
		t.Run(f.form.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := make([]float32, rapid.IntRange(0, 40).Draw(t, "n"))
				for i := range x {
					x[i] = math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
					if rapid.Bool().Draw(t, "near the edges of fp16") {
						x[i] = float32(math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "x"), rapid.IntRange(-27, 17).Draw(t, "exponent")))
					}
				}
				v, err := tensor.FromSlice(append([]float32{}, x...))
				if err != nil {
					t.Fatal(err)
				}
				if err := compress.Round(v, f.form); err != nil {
					t.Fatal(err)
				}
				for i, got := range v.Float32s() {
					want := f.nearest(x[i])
					if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
						t.Fatalf("%v becomes %v, want %v", x[i], got, want)
					}
					f.checkBound(t, float64(x[i]), float64(got))
				}
			})
		})
	}
}

// checkBound compares with what the package doc says.
func (f format) checkBound(t *rapid.T, x, got float64) {
	size, relative, below, overflow := math.Abs(x), math.Ldexp(1, -8), math.Ldexp(1, -134), 3.39e38
	if f.form == compress.Float16 {
		relative, below, overflow = math.Ldexp(1, -11), math.Ldexp(1, -25), 65520
	}
	switch off := math.Abs(got - x); {
	case x != x || math.IsInf(x, 0) || size >= overflow:
	case size >= math.Ldexp(1, f.least) && off > size*relative, size < math.Ldexp(1, f.least) && off > below:
		t.Fatalf("%v becomes %v, which is off by %v", x, got, off)
	}
}

// What is lost at the ends of the range of fp16, and kept by bf16.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		x                float32
		wantFP16, wantBF float32
	}{
		{65519, 65504, 65536}, {65520, float32(math.Inf(1)), 65536}, {-1e6, float32(math.Inf(-1)), -999424},
		{0x1p-25, 0, 0x1p-25}, {0x1.8p-25, 0x1p-24, 0x1.8p-25}, {3.39e38, float32(math.Inf(1)), 0x1.fep127},
		{math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(1))},
	} {
		for form, want := range map[compress.Form]float32{compress.Float16: c.wantFP16, compress.BFloat16: c.wantBF} {
			v, _ := tensor.FromSlice([]float32{c.x})
			if err := compress.Round(v, form); err != nil || v.Float32s()[0] != want {
				t.Errorf("%s of %v is %v, %v, want %v", form, c.x, v, err, want)
			}
		}
	}
}

// Only float32 is compressed, and None compresses nothing.
func TestWhatStaysAsItIs(t *testing.T) {
	floats, _ := tensor.FromSlice([]float32{0.1})
	doubles, _ := tensor.FromSlice([]float64{0.1})
	whole, _ := tensor.FromSlice([]int64{1})
	for _, c := range []struct {
		t *tensor.Tensor
		f compress.Form
	}{{floats, compress.None}, {doubles, compress.BFloat16}, {whole, compress.Float16}} {
		if got, err := compress.Narrowed(c.t, c.f); err != nil || got != c.t {
			t.Errorf("%q of %v: %v, %v", c.f, c.t, got, err)
		}
	}
	half, err := compress.Narrowed(floats, compress.BFloat16)
	if err != nil || half.DType() != tensor.BFloat16 || half.Bytes() != 2 || floats.Float32s()[0] != 0.1 {
		t.Errorf("%v of %v, %v", half, floats, err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]compress.Form{"": compress.None, "none": compress.None, "bf16": compress.BFloat16, "fp16": compress.Float16} {
		if got, err := compress.ParseGradients(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if got, err := compress.ParseParameters(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"bfloat16", "BF16", " bf16", "int8", "topk", "bf16:0.1", "topk:", "topk:0", "topk:-0.1", "topk:0.26", "topk:1",
		"topk:NaN", "topk:inf", "topk:1e-400", "topk:0.01:", "topk:0.01:0", "topk:0.01:-1", "topk:0.01:1:1", "topk:0.01:1e3", "dgc:0.001"} {
		if _, err := compress.ParseGradients(text); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"int8", "topk:0.01"} {
		if _, err := compress.ParseParameters(text); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("parameters %q: %v", text, err)
		}
	}
}

// What topk says is read, and written again.
func TestParseTopK(t *testing.T) {
	for text, c := range map[string]struct {
		says            string
		least, elements int64 // gradients of fewer than least are sent whole; entries of elements
		entries         int64
	}{
		"topk:0.01":           {"topk:0.01", 16384, 1000, 10},
		"topk:1e-3":           {"topk:0.001", 16384, 1001, 2},
		"topk:0.25:1":         {"topk:0.25:1", 1, 1, 1},
		"topk:0.010:16384":    {"topk:0.01", 16384, 0, 0},
		"topk:1e-300:9000000": {"topk:1e-300:9000000", 9000000, 1 << 31, 1},
	} {
		f, err := compress.ParseGradients(text)
		if err != nil || f.String() != c.says || !f.Selects() || f.DType() != tensor.Int32 || f.Name() != "topk" {
			t.Errorf("%q: %v, %v", text, f, err)
		}
		if f.Of(c.least) != f || f.Of(c.least-1) != compress.None {
			t.Errorf("%q: gradients of %d elements", text, c.least)
		}
		if got := f.Entries(c.elements); got != c.entries {
			t.Errorf("%q: %d entries of %d, want %d", text, got, c.elements, c.entries)
		}
		if again, err := compress.ParseGradients(f.String()); again != f || err != nil {
			t.Errorf("%q: %v, %v", f, again, err)
		}
	}
	for _, f := range []compress.Form{compress.None, compress.BFloat16, compress.Float16} {
		if again, err := compress.ParseGradients(f.String()); again != f || err != nil || f.Selects() || f.Of(0) != f {
			t.Errorf("%q: %v, %v", f, again, err)
		}
	}
}
