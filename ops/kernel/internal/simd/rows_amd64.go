//go:build !purego

package simd

//go:noescape
func gatherRows(out, table []float32, rows []int64, width, height int) int

//go:noescape
func scatterRows(table, from []float32, rows []int64, width, height int) int

//go:noescape
func sgdRows(table, grad []float32, rows []int64, width, height int, lr float32) int
