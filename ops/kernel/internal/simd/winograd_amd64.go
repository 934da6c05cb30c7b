//go:build !purego

package simd

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
