package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func testTranspose[T comparable](t *rapid.T, number func(i int) T) {
	large := rapid.OneOf(rapid.IntRange(1, 20), rapid.Just(70))
	dims := rapid.OneOf(rapid.SliceOfN(rapid.IntRange(0, 4), 0, 5), rapid.SliceOfN(large, 2, 3)).Draw(t, "dims")
	axes := make([]int, len(dims))
	for i := range axes {
		axes[i] = i
	}
	perm := axes
	if len(axes) > 0 {
		perm = rapid.Permutation(axes).Draw(t, "perm")
	}
	inverse, outDims, count := make([]int, len(dims)), make([]int, len(dims)), 1
	for i, axis := range perm {
		inverse[axis], outDims[i] = i, dims[axis]
		count *= dims[axis]
	}
	x, out, back := make([]T, count), make([]T, count), make([]T, count)
	for i := range x {
		x[i] = number(i)
	}
	plan := NewTransposePlan(dims, perm)
	cut := rapid.IntRange(0, plan.Iterations()).Draw(t, "cut")
	Transpose(&plan, out, x, cut, plan.Iterations())
	Transpose(&plan, out, x, 0, cut)
	for i, v := range x {
		index, rest := make([]int, len(dims)), i
		for a := len(dims) - 1; a >= 0; a-- {
			index[a], rest = rest%dims[a], rest/dims[a]
		}
		place := 0
		for a, axis := range perm {
			place = place*outDims[a] + index[axis]
		}
		if out[place] != v {
			t.Fatalf("out[%d] = %v, want %v", place, out[place], v)
		}
	}
	plan = NewTransposePlan(outDims, inverse)
	if Transpose(&plan, back, out, 0, plan.Iterations()); !slices.Equal(back, x) {
		t.Fatalf("the inverse permutation gives %v", back)
	}
}

// Elements move without change, even bits that are signaling NaNs as floats.
func TestTranspose(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		t.Run("int32", func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testTranspose(t, func(i int) int32 { return 0x7fa00000 + int32(i) }) })
		})
		t.Run("int64", func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testTranspose(t, func(i int) int64 { return 0x7ff4<<48 + int64(i) }) })
		})
		t.Run("float32", func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testTranspose(t, func(i int) float32 { return float32(i) }) })
		})
		t.Run("bool", func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testTranspose(t, func(i int) bool { return i*i%7 > 2 }) })
		})
	})
}

func TestConcatAndSplit(t *testing.T) {
	// [2, 1, 2] and [2, 2, 2] along axis 1.
	a, b := []int64{1, 2, 7, 8}, []int64{3, 4, 5, 6, 9, 10, 11, 12}
	whole := make([]int64, 12)
	CopyStrided(whole, 0, 6, a, 0, 2, 2, 2)
	CopyStrided(whole, 2, 6, b, 0, 4, 2, 4)
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; !slices.Equal(whole, want) {
		t.Errorf("concat gives %v, want %v", whole, want)
	}
	part := make([]int64, 8)
	if CopyStrided(part, 0, 4, whole, 2, 6, 2, 4); !slices.Equal(part, b) {
		t.Errorf("split gives %v, want %v", part, b)
	}
	CopyStrided(part, 0, 4, nil, 0, 0, 2, 0) // an empty part
}
