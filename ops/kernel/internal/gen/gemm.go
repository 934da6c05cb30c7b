package main

import "github.com/mmcloughlin/avo/reg"

// An instructionSet says how large a tile of C its registers hold.
type instructionSet struct {
	name    string
	rows    int
	shapes  []tileShape
	opmasks bool // loads and stores take a mask register
}

// A tileShape is a width of a tile of C: so many vectors of so many bytes.
type tileShape struct {
	name           string
	vectors, bytes int
}

var (
	avx2 = instructionSet{"AVX2", 6, []tileShape{{"Wide", 2, 32}, {"Narrow", 1, 32}}, false}
	// The short tile takes half the time of the narrow one where the files of the processor are 256 bits wide.
	avx512 = instructionSet{"AVX512", 12, []tileShape{{"Wide", 2, 64}, {"Narrow", 1, 64}, {"Short", 1, 32}}, true}
)

// Byte offsets of the fields of a Tile in package simd.
const (
	offsetA     = 0
	offsetRowA  = 8
	offsetStepA = 16
	offsetB     = 24
	offsetStepB = 32
	offsetC     = 40
	offsetRowC  = 48
	offsetDepth = 56
	offsetRows  = 64
	offsetTail  = 72
	offsetNextA = 80
	offsetCount = 88
	offsetAlpha = 96 // beta follows
)

// General registers of a tile function.
var (
	arguments = reg.RAX
	depth     = reg.RCX
	rowsOfA   = []reg.Register{reg.RSI, reg.RDI, reg.R8, reg.R9} // rows 0, 3, 6 and 9 at the current k
	rowA      = reg.R10                                          // from row to row
	stepA     = reg.R11                                          // from k to k
	vectorsB  = reg.R12                                          // at the current k
	stepB     = reg.R13
	tileC     = reg.RBX // the current row
	rowC      = reg.RDX
)

// gemm emits the tile functions of one instruction set for both element types.
func gemm(u *asmFile, set instructionSet) {
	for _, e := range []element{float32s, float64s} {
		for _, shape := range set.shapes {
			tile{asmFile: u, element: e, set: set, shape: shape}.emit()
		}
	}
}
