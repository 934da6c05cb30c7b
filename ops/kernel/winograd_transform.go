package kernel

import "github.com/edl-go/edl/ops/kernel/internal/simd"

// A winogradLine is a small matrix L times a column. Its order of additions is that of the vector instructions.
type winogradLine struct {
	rows, columns int // of L
	times         func(x [4]float32) (y [4]float32)
	vectors       func(*simd.Vectors) simd.WinogradTransform
}

// The transforms of F(2x2, 3x3).
var (
	winogradInput = winogradLine{4, 4, func(x [4]float32) [4]float32 { // B'
		return [4]float32{x[0] - x[2], x[1] + x[2], x[2] - x[1], x[3] - x[1]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.WinogradInput }}
	winogradOutput = winogradLine{2, 4, func(x [4]float32) [4]float32 { // A'
		return [4]float32{(x[0] + x[1]) + x[2], (x[1] - x[2]) + x[3]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.WinogradOutput }}
	winogradOutputGrad = winogradLine{4, 2, func(x [4]float32) [4]float32 { // A
		return [4]float32{x[0], x[0] + x[1], x[0] - x[1], x[1]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.WinogradOutputGrad }}
	winogradFilter = winogradLine{4, 3, func(x [4]float32) [4]float32 { // G
		return [4]float32{x[0], 0.5 * ((x[0] + x[2]) + x[1]), 0.5 * ((x[0] + x[2]) - x[1]), x[2]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.WinogradFilter }}
	winogradFilterGrad = winogradLine{3, 4, func(x [4]float32) [4]float32 { // G'
		return [4]float32{x[0] + float32(0.5*(x[1]+x[2])), 0.5 * (x[1] - x[2]), float32(0.5*(x[1]+x[2])) + x[3]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.WinogradFilterGrad }}
)

// transform computes out = L*in*L' for a run of tiles, whose elements are width numbers, a multiple of vectorLanes. outStep and inStep are the distances
// between rows, columns and tiles.
func transform(l winogradLine, out, in []float32, outStep, inStep [3]int, tiles, width int) {
	last := func(step [3]int, rows, columns int) int {
		return (rows-1)*step[0] + (columns-1)*step[1] + (tiles-1)*step[2] + width - 1
	}
	_, _ = out[last(outStep, l.rows, l.rows)], in[last(inStep, l.columns, l.columns)]
	if v := simd.Float32(); v != nil {
		l.vectors(v)(out, in, outStep[0], outStep[1], outStep[2], inStep[0], inStep[1], inStep[2], tiles, width/vectorLanes)
		return
	}
	for t := range tiles {
		for c := range width {
			l.portable(out[t*outStep[2]+c:], in[t*inStep[2]+c:], outStep, inStep)
		}
	}
}

// portable transforms one channel of a tile: each row of it, and then each column of the result.
func (l winogradLine) portable(out, in []float32, outStep, inStep [3]int) {
	var across [4][4]float32
	var x [4]float32
	for r := range l.columns {
		for c := range l.columns {
			x[c] = in[r*inStep[0]+c*inStep[1]]
		}
		across[r] = l.times(x)
	}
	for c := range l.rows {
		for r := range l.columns {
			x[r] = across[r][c]
		}
		for r, y := range l.times(x) {
			if r < l.rows {
				out[r*outStep[0]+c*outStep[1]] = y
			}
		}
	}
}
