//go:build !purego

package simd

//go:noescape
func sum(x []float32, center float64) float64

//go:noescape
func sumProduct(x, y []float32, center float64) float64

//go:noescape
func sumSquaredDeviation(x []float32, center float64) float64

//go:noescape
func sumCentredProduct(x, y []float32, center float64) float64

//go:noescape
func sumFour(x []float32, step int) (a, b, c, d float64)

//go:noescape
func sumFourSquaredDeviations(x []float32, step int, centers *[4]float64) (a, b, c, d float64)

//go:noescape
func sumFourCentredProducts(x, y []float32, step int, centers *[4]float64) (a, b, c, d float64)

//go:noescape
func sumRows(out, x []float32, rows int)

//go:noescape
func largest(x []float32) float32
