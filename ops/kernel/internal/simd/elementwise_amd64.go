//go:build !purego

package simd

//go:noescape
func addVectors(out, x, y []float32)

//go:noescape
func addScalar(out, x []float32, y float32)

//go:noescape
func subVectors(out, x, y []float32)

//go:noescape
func subScalar(out, x []float32, y float32)

//go:noescape
func mulVectors(out, x, y []float32)

//go:noescape
func mulScalar(out, x []float32, y float32)

//go:noescape
func divVectors(out, x, y []float32)

//go:noescape
func divScalar(out, x []float32, y float32)

//go:noescape
func maxVectors(out, x, y []float32)

//go:noescape
func maxScalar(out, x []float32, y float32)

//go:noescape
func minVectors(out, x, y []float32)

//go:noescape
func minScalar(out, x []float32, y float32)

//go:noescape
func mulAdd(out, x, y []float32)

//go:noescape
func axpy(out, x []float32, weight float32)

//go:noescape
func scaleBias(out, x []float32, scale, bias float32)

//go:noescape
func biasScale(out, x []float32, scale, bias float32)

//go:noescape
func normalise(out, x []float32, center, factor, bias float32)

//go:noescape
func normaliseGrad(out, x, g []float32, center, factor, meanGrad, meanProduct, scale float32)
