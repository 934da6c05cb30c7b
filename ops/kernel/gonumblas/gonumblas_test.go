package gonumblas

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/testblas"
)

// throughSingles is a Dgemm that computes with Sgemm, so that gonum's cases, of numbers that float32 holds, reach it.
type throughSingles struct{}

func (throughSingles) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int,
	beta float64, c []float64, ldc int) {
	narrow := func(x []float64) []float32 {
		out := make([]float32, len(x))
		for i, v := range x {
			out[i] = float32(v)
		}
		return out
	}
	result := narrow(c)
	Implementation{}.Sgemm(tA, tB, m, n, k, float32(alpha), narrow(a), lda, narrow(b), ldb, float32(beta), result, ldc)
	for i, v := range result {
		c[i] = float64(v)
	}
}

func TestGonumSuite(t *testing.T) {
	t.Run("Dgemm", func(t *testing.T) { testblas.TestDgemm(t, Implementation{}) })
	t.Run("Sgemm", func(t *testing.T) { testblas.TestDgemm(t, throughSingles{}) })
}

func TestBadArgumentsPanicAsInGonum(t *testing.T) {
	for name, call := range map[string]func(){
		"short A": func() {
			Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, 2, 2, 2, 1, make([]float32, 3), 2, make([]float32, 4), 2, 0, make([]float32, 4), 2)
		},
		"bad ldc": func() {
			Implementation{}.Dgemm(blas.NoTrans, blas.NoTrans, 2, 2, 2, 1, make([]float64, 4), 2, make([]float64, 4), 2, 0, make([]float64, 4), 1)
		},
		"bad trans": func() {
			Implementation{}.Sgemm('?', blas.NoTrans, 1, 1, 1, 1, []float32{1}, 1, []float32{1}, 1, 0, []float32{1}, 1)
		},
		"negative k ": func() {
			Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, 1, 1, -1, 1, []float32{1}, 1, []float32{1}, 1, 0, []float32{1}, 1)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func TestRepeatedCallsAllocateNothing(t *testing.T) {
	x := make([]float32, 40*40)
	c := make([]float32, 40*40)
	call := func() { Implementation{}.Sgemm(blas.NoTrans, blas.Trans, 40, 40, 40, 1, x, 40, x, 40, 0, c, 40) }
	if n := testing.AllocsPerRun(100, call); n > 0.5 { // the collector may empty the pool
		t.Errorf("%v allocations a call", n)
	}
}

func ExampleImplementation() {
	blas32.Use(Implementation{})
	a := blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{1, 2, 3, 4}}
	c := blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: make([]float32, 4)}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, a, a, 0, c)
	fmt.Println(c.Data)
	// Output: [7 10 15 22]
}
