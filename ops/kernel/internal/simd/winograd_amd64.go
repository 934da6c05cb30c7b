//go:build !purego

package simd

// widest runs wide, which takes two vectors of eight numbers as one, where AVX-512 may be used and their number is even.
func widest(narrow, wide WinogradTransform) WinogradTransform {
	return func(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int) {
		if current == AVX512 && vectors%2 == 0 {
			wide(out, in, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors/2)
			return
		}
		narrow(out, in, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors)
	}
}

//go:noescape
func winogradInput2x2(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradInput2x2Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutput2x2(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutput2x2Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputGrad2x2(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputGrad2x2Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilter2x2(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilter2x2Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilterGrad2x2(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilterGrad2x2Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradInput4x4(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradInput4x4Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutput4x4(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutput4x4Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputGrad4x4(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputGrad4x4Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilter4x4(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilter4x4Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilterGrad4x4(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilterGrad4x4Wide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)
