package merge_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

func of[T tensor.Element](t testing.TB, values ...T) *tensor.Tensor {
	v, err := tensor.FromSlice(values)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The definition: in rank order, in the element type, w_i = rows_i / rows.
func TestGradientsByDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, length := rapid.IntRange(1, 5).Draw(rt, "trainers"), rapid.IntRange(0, 40).Draw(rt, "length")
		shares := make([]merge.Share, n)
		total := int64(0)
		for i := range shares {
			v := rapid.SliceOfN(rapid.Float32Range(-10, 10), length, length).Draw(rt, "values")
			shares[i] = merge.Share{Value: of(t, v...), Rows: rapid.Int64Range(1, 100).Draw(rt, "rows")}
			total += shares[i].Rows
		}
		dst := of(t, make([]float32, length)...)
		for how, weight := range map[ops.Merge]func(i int) float32{
			ops.MergeMean:  func(i int) float32 { return float32(shares[i].Rows) / float32(total) },
			ops.MergeSum:   func(int) float32 { return 1 },
			ops.MergeFirst: func(i int) float32 { return max(0, 1-float32(i)) },
		} {
			if err := merge.Gradients(dst, shares, how); err != nil {
				rt.Fatal(err)
			}
			for k, got := range dst.Float32s() {
				var want float64
				for i, s := range shares {
					want += float64(weight(i)) * float64(s.Value.Float32s()[k])
				}
				if math.Abs(float64(got)-want) > 1e-4 {
					rt.Fatalf("%v: element %d is %v, want %v", how, k, got, want)
				}
			}
		}
	})
}

// Weights stand for rows in means, a share of weight 0 counts for nothing, and without any weight rows count.
func TestWeightsStandForRows(t *testing.T) {
	share := func(value float32, rows, weight int64) merge.Share {
		return merge.Share{Value: of(t, value), Rows: rows, Weight: weight}
	}
	for _, c := range []struct {
		how    ops.Merge
		shares []merge.Share
		want   float32
	}{
		{ops.MergeMean, []merge.Share{share(8, 1, 3), share(4, 7, 1)}, 7},
		{ops.MergeMean, []merge.Share{share(8, 1, 0), share(4, 7, 1)}, 4},
		{ops.MergeMean, []merge.Share{share(8, 1, 0), share(4, 3, 0)}, 5},
		{ops.MergeSum, []merge.Share{share(8, 1, 3), share(4, 7, 0)}, 12},
	} {
		dst := of(t, float32(0))
		if err := merge.Gradients(dst, c.shares, c.how); err != nil || dst.Float32s()[0] != c.want {
			t.Errorf("%v of %v: %v, %v, want %v", c.how, c.shares, dst.Float32s(), err, c.want)
		}
	}
}

// A large variable has the bits of its rows, which are merged by themselves.
func TestLargeSharesHaveTheBitsOfTheirParts(t *testing.T) {
	const size, rows = 3*(32<<10) + 5, 1001 // rows of elements at a time
	shares := make([]merge.Share, 3)
	for i := range shares {
		v := make([]float32, size)
		for k := range v {
			v[k] = 1 / float32(k+3*i+1)
		}
		shares[i] = merge.Share{Value: of(t, v...), Rows: int64(3 + 4*i)}
	}
	for _, how := range []ops.Merge{ops.MergeMean, ops.MergeSum} {
		whole, part := of(t, make([]float32, size)...), of(t, make([]float32, size)...)
		if err := merge.Gradients(whole, shares, how); err != nil {
			t.Fatal(err)
		}
		for from := int64(0); from < size; from += rows {
			cut := func(v *tensor.Tensor) *tensor.Tensor {
				r, err := v.Rows(from, min(from+rows, size))
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			list := slices.Clone(shares)
			for i := range list {
				list[i].Value = cut(list[i].Value)
			}
			if err := merge.Gradients(cut(part), list, how); err != nil {
				t.Fatal(err)
			}
		}
		for i, x := range whole.Float32s() {
			if math.Float32bits(x) != math.Float32bits(part.Float32s()[i]) || x == 0 {
				t.Fatalf("merge %v: element %d is %v, want %v", how, i, x, part.Float32s()[i])
			}
		}
	}
}

// One contribution is taken as it is, to the bit, whatever its rows are.
func TestOneShareIsTakenAsItIs(t *testing.T) {
	odd := []float32{0.1, float32(math.Copysign(0, -1)), 1e-45, float32(math.Inf(1)), 3}
	for _, how := range []ops.Merge{ops.MergeMean, ops.MergeSum, ops.MergeFirst} {
		dst := of(t, make([]float32, len(odd))...)
		for _, merged := range []error{merge.Gradients(dst, []merge.Share{{Value: of(t, odd...), Rows: 3}}, how),
			merge.State(dst, of(t, 9, 9, 9, 9, float32(9)), []merge.Share{{Value: of(t, odd...), Rows: 3}}, how)} {
			if merged != nil {
				t.Fatal(merged)
			}
			for i, x := range dst.Float32s() {
				if math.Float32bits(x) != math.Float32bits(odd[i]) {
					t.Errorf("merge %v: element %d is %v, want %v", how, i, x, odd[i])
				}
			}
		}
	}
}

// State that adds up takes every trainer's change of the old value; in whole numbers exactly.
func TestStateAddsChanges(t *testing.T) {
	big := int64(1) << 60
	dst := of(t, int64(0), 0)
	if err := merge.State(dst, of(t, big, 5), []merge.Share{{of(t, big+1, 5), 1, 0}, {of(t, big+2, 7), 9, 0}}, ops.MergeSum); err != nil {
		t.Fatal(err)
	}
	if got := dst.Int64s(); !slices.Equal(got, []int64{big + 3, 7}) {
		t.Errorf("got %v", got)
	}
	floats := of(t, 0.0)
	if err := merge.State(floats, of(t, 2.0), []merge.Share{{of(t, 3.0), 1, 0}, {of(t, 2.5), 9, 0}}, ops.MergeSum); err != nil || floats.Float64s()[0] != 3.5 {
		t.Error(floats.Float64s(), err)
	}
	if err := merge.State(floats, nil, []merge.Share{{of(t, 3.0), 1, 0}, {of(t, 1.0), 3, 0}}, ops.MergeMean); err != nil || floats.Float64s()[0] != 1.5 {
		t.Error(floats.Float64s(), err)
	}
	small := of(t, int32(0))
	if err := merge.State(small, of(t, int32(4)), []merge.Share{{of(t, int32(6)), 1, 0}}, ops.MergeSum); err != nil || small.Int32s()[0] != 6 {
		t.Error(small.Int32s(), err)
	}
}

func TestWhatCannotBeMerged(t *testing.T) {
	two := of(t, float32(0), 0)
	for name, c := range map[string]struct {
		dst    *tensor.Tensor
		shares []merge.Share
		kind   fault.Kind
	}{
		"nothing":        {two, nil, fault.InvalidArgument},
		"another length": {two, []merge.Share{{two, 1, 0}, {of(t, float32(1)), 1, 0}}, fault.ShapeMismatch},
		"another dtype":  {two, []merge.Share{{of(t, 1.0, 2), 1, 0}}, fault.ShapeMismatch},
		"no rows":        {two, []merge.Share{{two, 0, 0}}, fault.ShapeMismatch},
		"no value":       {two, []merge.Share{{nil, 1, 0}}, fault.ShapeMismatch},
		"whole numbers":  {of(t, int64(1)), []merge.Share{{of(t, int64(1)), 1, 0}}, fault.TypeMismatch},
		"bools":          {of(t, true), []merge.Share{{of(t, true), 1, 0}}, fault.TypeMismatch},
	} {
		if err := merge.Gradients(c.dst, c.shares, ops.MergeMean); !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if err := merge.State(two, of(t, float32(1)), []merge.Share{{two, 1, 0}, {two, 1, 0}}, ops.MergeSum); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("an old value of another length: %v", err)
	}
	if err := merge.State(of(t, true), of(t, true), []merge.Share{{of(t, true), 1, 0}}, ops.MergeSum); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("a sum of bools: %v", err)
	}
}

func TestScaleRows(t *testing.T) {
	zero := math.Copysign(0, -1)
	for name, c := range map[string]struct {
		rows, all int64
		want      []float64
		kind      error
		float     bool
	}{
		"a part":        {1, 4, []float64{zero, .5}, nil, true},
		"all rows":      {4, 4, []float64{zero, 2}, nil, true},
		"more than all": {5, 4, nil, fault.ShapeMismatch, true},
		"no row":        {0, 4, nil, fault.ShapeMismatch, true},
		"no gradients":  {1, 4, nil, fault.TypeMismatch, false},
	} {
		g, err := tensor.FromSlice([]float64{zero, 2})
		if !c.float {
			g, err = tensor.FromSlice([]int64{0, 2})
		}
		if err != nil {
			t.Fatal(err)
		}
		err = merge.ScaleRows(g, c.rows, c.all)
		if !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
		for i, want := range c.want {
			if got := g.Float64s()[i]; math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
}
