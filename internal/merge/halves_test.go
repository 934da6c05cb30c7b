package merge_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Contributions of a half type merge to the bits that their float32 values merge to, at any length.
func TestHalvesMergeAsTheirValues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		form := rapid.SampledFrom([]compress.Form{compress.BFloat16, compress.Float16}).Draw(rt, "form")
		how := rapid.SampledFrom([]ops.Merge{ops.MergeMean, ops.MergeSum, ops.MergeFirst}).Draw(rt, "how")
		length := rapid.SampledFrom([]int{0, 1, 7, 100, 4095, 4096, 4097, 9000}).Draw(rt, "length")
		var halves, values []merge.Share
		for range rapid.IntRange(1, 4).Draw(rt, "trainers") {
			x := make([]float32, length)
			state := rapid.Uint32().Draw(rt, "state")
			for i := range x {
				state = state*1664525 + 1013904223
				x[i] = float32(int32(state)) / (1 << 30)
			}
			value := of(t, x...)
			half, err := compress.Narrowed(value, form)
			if err == nil {
				err = compress.Round(value, form)
			}
			if err != nil {
				rt.Fatal(err)
			}
			rows := rapid.Int64Range(1, 100).Draw(rt, "rows")
			halves, values = append(halves, merge.Share{Value: half, Rows: rows}), append(values, merge.Share{Value: value, Rows: rows})
		}
		got, want := of(t, make([]float32, length)...), of(t, make([]float32, length)...)
		for dst, shares := range map[*tensor.Tensor][]merge.Share{got: halves, want: values} {
			if err := merge.Gradients(dst, shares, how); err != nil {
				rt.Fatal(err)
			}
		}
		for i, w := range want.Float32s() {
			if math.Float32bits(got.Float32s()[i]) != math.Float32bits(w) {
				rt.Fatalf("element %d is %v, want %v", i, got.Float32s()[i], w)
			}
		}
	})
}

func TestHalvesThatCannotBeMerged(t *testing.T) {
	half := func(d tensor.DType, n int64) merge.Share {
		v, err := tensor.New(d, n)
		if err != nil {
			t.Fatal(err)
		}
		return merge.Share{Value: v, Rows: 1}
	}
	two := of(t, float32(0), 0)
	for name, c := range map[string]struct {
		dst    *tensor.Tensor
		shares []merge.Share
	}{
		"two types":       {two, []merge.Share{half(tensor.BFloat16, 2), half(tensor.Float16, 2)}},
		"and float32":     {two, []merge.Share{half(tensor.BFloat16, 2), {Value: two.Clone(), Rows: 1}}},
		"another length":  {two, []merge.Share{half(tensor.BFloat16, 3)}},
		"into float64":    {of(t, 0.0, 0), []merge.Share{half(tensor.BFloat16, 2)}},
		"into their type": {half(tensor.BFloat16, 2).Value, []merge.Share{half(tensor.BFloat16, 2)}},
	} {
		err := merge.Gradients(c.dst, c.shares, ops.MergeMean)
		if !errors.Is(err, fault.ShapeMismatch) && !errors.Is(err, fault.TypeMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	changes := []merge.Share{half(tensor.BFloat16, 2), half(tensor.BFloat16, 2)}
	if err := merge.State(two, two.Clone(), changes, ops.MergeSum); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("state: %v", err)
	}
}
