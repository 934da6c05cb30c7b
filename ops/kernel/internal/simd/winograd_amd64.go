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
func winogradInput(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutput(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputGrad(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilter(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradFilterGrad(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradInputWide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputWide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)

//go:noescape
func winogradOutputGradWide(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)
