// Package gonumblas offers the matrix products of package kernel to users of gonum and of libraries built on its BLAS
// interfaces:
//
//	blas32.Use(gonumblas.Implementation{})   // gonum.org/v1/gonum/blas/blas32
//	blas64.Use(gonumblas.Implementation{})   // gonum.org/v1/gonum/blas/blas64
//	tensor.Use(gonumblas.Implementation{})   // gorgonia.org/tensor
//
// Everything but Sgemm and Dgemm is gonum's own.
package gonumblas

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// Implementation is gonum's implementation of BLAS with faster Sgemm and Dgemm. Its zero value is ready, and may be used by
// several goroutines at once. As BLAS demands, arguments that do not fit each other panic, with gonum's words.
type Implementation struct {
	gonum.Implementation
}

var (
	_ blas.Float32 = Implementation{}
	_ blas.Float64 = Implementation{}
)

// Sgemm computes C = alpha*op(A)*op(B) + beta*C.
func (i Implementation) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int,
	beta float32, c []float32, ldc int) {
	// With these factors gonum checks its arguments and does nothing else.
	i.Implementation.Sgemm(tA, tB, m, n, k, 0, a, lda, b, ldb, 1, c, ldc)
	gemm(&singles, tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// Dgemm computes C = alpha*op(A)*op(B) + beta*C.
func (i Implementation) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int,
	beta float64, c []float64, ldc int) {
	i.Implementation.Dgemm(tA, tB, m, n, k, 0, a, lda, b, ldb, 1, c, ldc)
	gemm(&doubles, tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// Workspaces that are not in use, of type *[]T.
var singles, doubles sync.Pool

func gemm[T tensor.Float](workspaces *sync.Pool, tA, tB blas.Transpose, m, n, k int, alpha T, a []T, lda int, b []T, ldb int,
	beta T, c []T, ldc int) {
	workspace, ok := workspaces.Get().(*[]T)
	if need := kernel.GemmWorkspace(m, n, k); !ok || len(*workspace) < need {
		fresh := make([]T, need)
		workspace = &fresh
	}
	kernel.Gemm(tA != blas.NoTrans, tB != blas.NoTrans, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, *workspace)
	workspaces.Put(workspace)
}
