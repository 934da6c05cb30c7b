package math_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var frameCases = []Case{
	{Name: "last axis", Type: "frame", Attrs: attrs{"frame_length": int32(3), "hop_length": int32(2)}, Inputs: slots{"X": One(Floats(dims{2, 6}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))},
		Want: slots{"Out": One(Floats(dims{2, 3, 2}, 1, 3, 2, 4, 3, 5, 7, 9, 8, 10, 9, 11))}},
	{Name: "first axis", Type: "frame", Attrs: attrs{"frame_length": int32(2), "hop_length": int32(1), "axis": int32(0)}, Inputs: slots{"X": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6))},
		Want: slots{"Out": One(Floats(dims{2, 2, 2}, 1, 2, 3, 4, 3, 4, 5, 6))}},
	{Name: "one signal of integers", Type: "frame", Attrs: attrs{"frame_length": int32(1), "hop_length": int32(3)}, Inputs: slots{"X": One(Ints(dims{4}, 1, 2, 3, 4))},
		Want: slots{"Out": One(Ints(dims{1, 2}, 1, 4))}},
	{Name: "last axis", Type: "overlap_add", Attrs: attrs{"hop_length": int32(1)}, Inputs: slots{"X": One(Floats(dims{2, 2, 2}, 1, 2, 10, 20, 3, 4, 30, 40))},
		Want: slots{"Out": One(Floats(dims{2, 3}, 1, 12, 20, 3, 34, 40))}},
	{Name: "first axis, gaps", Type: "overlap_add", Attrs: attrs{"hop_length": int32(3), "axis": int32(0)}, Inputs: slots{"X": One(Floats(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8))},
		Want: slots{"Out": One(Floats(dims{5, 2}, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8))}},

	{Name: "by hand", Type: "eigh", Loss: []string{"Eigenvalues"}, Inputs: slots{"X": One(Floats(dims{2, 2}, 2, 9, 1, 2))}, // of the upper triangle nothing is read
		Want: slots{"Eigenvalues": One(Floats(dims{2}, 1, 3)), "Eigenvectors": One(Floats(dims{2, 2}, math.Sqrt2/2, math.Sqrt2/2, -math.Sqrt2/2, math.Sqrt2/2))}},
	{Name: "upper", Type: "eigh", Attrs: attrs{"UPLO": "U"}, Inputs: slots{"X": One(Spread(3, 2, 3, 3))}},
	{Name: "diagonal", Type: "eigh", Inputs: slots{"X": One(Floats(dims{1, 3, 3}, 3, 0, 0, 0, -1, 0, 0, 0, 2))},
		Want: slots{"Eigenvalues": One(Floats(dims{1, 3}, -1, 2, 3)), "Eigenvectors": One(Floats(dims{1, 3, 3}, 0, 0, 1, 1, 0, 0, 0, 1, 0))}},
	{Name: "only values", Type: "eigh", Inputs: slots{"X": One(Spread(5, 4, 4))}, Loss: []string{"Eigenvalues"}},
}

// Matrices of any size are put together again from their eigenvalues and eigenvectors.
func TestEighDecomposes(t *testing.T) {
	for _, n := range []int64{1, 2, 5, 16, 40} {
		x := Spread(3, n, n)
		for i := range n {
			for j := range i {
				x.Float64s()[j*n+i] = x.Float64s()[i*n+j]
			}
		}
		w, v := eighOf(t, x)
		for i := range n {
			for j := range n {
				sum, product := 0.0, 0.0
				for k := range n {
					sum += v[i*n+k] * w[k] * v[j*n+k]
					product += v[k*n+i] * v[k*n+j]
				}
				unit := 0.0
				if i == j {
					unit = 1
				}
				if math.Abs(sum-x.Float64s()[i*n+j]) > 1e-12 || math.Abs(product-unit) > 1e-12 {
					t.Fatalf("%d: element [%d, %d] is %v, want %v; of V'V %v", n, i, j, sum, x.Float64s()[i*n+j], product)
				}
			}
		}
	}
}

// eighOf returns the eigenvalues and eigenvectors of a matrix.
func eighOf(t *testing.T, x *tensor.Tensor) (values, vectors []float64) {
	t.Helper()
	op := &program.Op{Type: "eigh", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Eigenvalues": {"w"}, "Eigenvectors": {"v"}}}
	m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, ops.Step{})
	if err := m.Run(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	return m.Vars["w"].Float64s(), m.Vars["v"].Float64s()
}
