package kernel

import (
	"math"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// A winogradSize is an algorithm F(m x m, 3 x 3) of Lavin and Gray (2015), "Fast Algorithms for Convolutional Neural Networks".
type winogradSize struct {
	outputs                                       int // m
	mostFilter                                    int // elements of a transformed filter up to which it pays
	input, output, outputGrad, filter, filterGrad winogradLine
}

// extent returns the rows of a tile of inputs, and of a transformed tile.
func (z *winogradSize) extent() int { return z.outputs + 2 }

// elements returns those of a transformed tile.
func (z *winogradSize) elements() int { return z.extent() * z.extent() }

// A winogradLine is a small matrix L times a column. Its order of operations is that of the vector instructions, and it fuses none.
type winogradLine struct {
	rows, columns int // of L
	times         func(x [6]float32) (y [6]float32)
	vectors       func(*simd.Vectors) simd.WinogradTransform
}

// winograd2x2 is F(2x2, 3x3), whose transforms only add, subtract and halve.
var winograd2x2 = winogradSize{
	outputs: 2, mostFilter: math.MaxInt,
	input: winogradLine{4, 4, func(x [6]float32) [6]float32 { // B'
		return [6]float32{x[0] - x[2], x[1] + x[2], x[2] - x[1], x[3] - x[1]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd2x2.Input }},
	output: winogradLine{2, 4, func(x [6]float32) [6]float32 { // A'
		return [6]float32{(x[0] + x[1]) + x[2], (x[1] - x[2]) + x[3]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd2x2.Output }},
	outputGrad: winogradLine{4, 2, func(x [6]float32) [6]float32 { // A
		return [6]float32{x[0], x[0] + x[1], x[0] - x[1], x[1]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd2x2.OutputGrad }},
	filter: winogradLine{4, 3, func(x [6]float32) [6]float32 { // G
		return [6]float32{x[0], 0.5 * ((x[0] + x[2]) + x[1]), 0.5 * ((x[0] + x[2]) - x[1]), x[2]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd2x2.Filter }},
	filterGrad: winogradLine{3, 4, func(x [6]float32) [6]float32 { // G'
		return [6]float32{x[0] + float32(0.5*(x[1]+x[2])), 0.5 * (x[1] - x[2]), float32(0.5*(x[1]+x[2])) + x[3]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd2x2.FilterGrad }},
}

// F(4x4, 3x3) multiplies polynomials by their values at six places: 0, a, -a, b, -b and infinity. With 0.625 and 1.5 errors are less than half of those of the usual 1 and 2,
// and most factors are exact. The weights divide by the product of the distances of a place to all others but infinity.
const (
	placeA, placeB     = 0.625, 1.5
	squareA, squareB   = placeA * placeA, placeB * placeB
	weight0            = 1 / (squareA * squareB)
	weightA, weightB   = 1 / (2 * squareA * (squareA - squareB)), 1 / (2 * squareB * (squareB - squareA))
	weightAA, weightBB = weightA * placeA, weightB * placeB
)

// winograd4x4 is F(4x4, 3x3).
var winograd4x4 = winogradSize{
	outputs: 4, mostFilter: 1 << 22, // 16 MB: more would come from memory for each block of tiles
	input: winogradLine{6, 6, func(x [6]float32) [6]float32 { // B'
		evenA, oddA := x[4]-float32(squareB*x[2]), float32(placeA*(x[3]-float32(squareB*x[1])))
		evenB, oddB := x[4]-float32(squareA*x[2]), float32(placeB*(x[3]-float32(squareA*x[1])))
		return [6]float32{
			(float32(squareA*squareB*x[0]) + x[4]) - float32((squareA+squareB)*x[2]),
			evenA + oddA, evenA - oddA, evenB + oddB, evenB - oddB,
			(float32(squareA*squareB*x[1]) + x[5]) - float32((squareA+squareB)*x[3]),
		}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd4x4.Input }},
	output: winogradLine{4, 6, func(x [6]float32) [6]float32 { // A'
		sumA, sumB, differenceA, differenceB := x[1]+x[2], x[3]+x[4], x[1]-x[2], x[3]-x[4]
		return [6]float32{
			(x[0] + sumA) + sumB,
			float32(placeA*differenceA) + float32(placeB*differenceB),
			float32(squareA*sumA) + float32(squareB*sumB),
			(float32(squareA*placeA*differenceA) + float32(squareB*placeB*differenceB)) + x[5],
		}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd4x4.Output }},
	outputGrad: winogradLine{6, 4, func(x [6]float32) [6]float32 { // A
		evenA, oddA := x[0]+float32(squareA*x[2]), float32(placeA*(x[1]+float32(squareA*x[3])))
		evenB, oddB := x[0]+float32(squareB*x[2]), float32(placeB*(x[1]+float32(squareB*x[3])))
		return [6]float32{x[0], evenA + oddA, evenA - oddA, evenB + oddB, evenB - oddB, x[3]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd4x4.OutputGrad }},
	filter: winogradLine{6, 3, func(x [6]float32) [6]float32 { // G
		evenA, oddA := float32(weightA*(x[0]+float32(squareA*x[2]))), float32(weightAA*x[1])
		evenB, oddB := float32(weightB*(x[0]+float32(squareB*x[2]))), float32(weightBB*x[1])
		return [6]float32{weight0 * x[0], evenA + oddA, evenA - oddA, evenB + oddB, evenB - oddB, x[2]}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd4x4.Filter }},
	filterGrad: winogradLine{3, 6, func(x [6]float32) [6]float32 { // G'
		sumA, sumB := float32(weightA*(x[1]+x[2])), float32(weightB*(x[3]+x[4]))
		return [6]float32{
			(float32(weight0*x[0]) + sumA) + sumB,
			float32(weightAA*(x[1]-x[2])) + float32(weightBB*(x[3]-x[4])),
			(float32(squareA*sumA) + float32(squareB*sumB)) + x[5],
		}
	}, func(v *simd.Vectors) simd.WinogradTransform { return v.Winograd4x4.FilterGrad }},
}

// transform computes out = L*in*L' for a run of tiles, whose elements are width numbers, a multiple of vectorLanes. The first element of the first tile is out[0], and in[at].
// outStep and inStep are the distances between rows, columns and tiles. Those between rows and columns of in may be negative.
func transform(l winogradLine, out, in []float32, at int, outStep, inStep [3]int, tiles, width int) {
	last := func(step [3]int, rows, columns int) int { return (rows-1)*step[0] + (columns-1)*step[1] }
	beyond := last(inStep, l.columns, l.columns)
	_, _, _ = out[last(outStep, l.rows, l.rows)+(tiles-1)*outStep[2]+width-1], in[at+max(0, beyond)+(tiles-1)*inStep[2]+width-1], in[at+min(0, beyond)]
	if v := simd.Float32(); v != nil {
		l.vectors(v)(out, in[at:], outStep[0], outStep[1], outStep[2], inStep[0], inStep[1], inStep[2], tiles, width/vectorLanes)
		return
	}
	for t := range tiles {
		for c := range width {
			l.portable(out[t*outStep[2]+c:], in, at+t*inStep[2]+c, outStep, inStep)
		}
	}
}

// portable transforms one channel of a tile: each row of it, and then each column of the result.
func (l winogradLine) portable(out, in []float32, at int, outStep, inStep [3]int) {
	var across [6][6]float32
	var x [6]float32
	for r := range l.columns {
		for c := range l.columns {
			x[c] = in[at+r*inStep[0]+c*inStep[1]]
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
