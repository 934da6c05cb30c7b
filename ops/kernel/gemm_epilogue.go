package kernel

import "github.com/edl-go/edl/tensor"

// An Epilogue is what becomes of each element of C when its sum over k is complete, alpha and beta included: a bias is added, then a function
// applied, then a term added. The bits are those of Gemm, then Add, then the function, then Accumulate over all of C.
type Epilogue[T tensor.Float] struct {
	Bias       []T              // one number for each column of C, nil for none
	ByRow      bool             // Bias has one for each row instead
	Activation func(out, x []T) // nil for none; a function of each element alone, such as Relu, with out as x
	Term       []T              // as C lies, nil for none
}

// finishRun is how many adjacent elements an epilogue takes at a time, which stay in the first-level cache between the bias and the function.
const finishRun = 2048

// GemmEpilogue is Gemm with an epilogue, which runs over a block of rows of C as soon as it is complete. It waits for whole rows,
// because over a few dozen adjacent elements at a time loops cost more than a nearer cache saves.
func GemmEpilogue[T tensor.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int,
	beta T, c []T, ldc int, e Epilogue[T], workspace []T) {
	if m == 0 || n == 0 {
		return
	}
	if k == 0 || alpha == 0 {
		scaleMatrix(m, n, beta, c, ldc)
		e.finish(c, ldc, 0, m, 0, n)
		return
	}
	gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, e, workspace)
}

// isEmpty reports whether there is nothing to do.
func (e Epilogue[T]) isEmpty() bool { return e.Bias == nil && e.Activation == nil && e.Term == nil }

// finish runs the epilogue over rows and columns of C.
func (e Epilogue[T]) finish(c []T, ldc, firstRow, rows, firstColumn, columns int) {
	switch {
	case e.isEmpty():
	case columns == ldc:
		step := max(1, finishRun/columns)
		for i := 0; i < rows; i += step {
			count := min(step, rows-i)
			at := (firstRow + i) * ldc
			e.finishRows(c[at:][:count*ldc], at, count, columns, e.bias(firstRow+i, count, firstColumn, columns))
		}
	default:
		for i := firstRow; i < firstRow+rows; i++ {
			at := i*ldc + firstColumn
			e.finishRows(c[at:][:columns], at, 1, columns, e.bias(i, 1, firstColumn, columns))
		}
	}
}

// bias returns the part of the bias that some rows and columns need.
func (e Epilogue[T]) bias(firstRow, rows, firstColumn, columns int) []T {
	switch {
	case e.Bias == nil:
		return nil
	case e.ByRow:
		return e.Bias[firstRow:][:rows]
	}
	return e.Bias[firstColumn:][:columns]
}

// finishRows runs the epilogue over rows that follow each other without gaps, from element at of C on.
func (e Epilogue[T]) finishRows(c []T, at, rows, columns int, bias []T) {
	switch {
	case bias == nil:
	case e.ByRow:
		Add(c, c, bias, 1, rows, columns)
	default:
		Add(c, c, bias, rows, columns, 1)
	}
	if e.Activation != nil {
		e.Activation(c, c)
	}
	if e.Term != nil {
		Accumulate(c, e.Term[at:][:len(c)])
	}
}
