//go:build !purego

package simd

//go:noescape
func lstmForward(gates, cell, active, hidden, previous, row, bias, sums *float32, width int)

//go:noescape
func lstmBackward(dgates, dcell, dhidden, gates, active, previous *float32, width int)
