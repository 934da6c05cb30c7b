package kernel

import "github.com/edl-go/edl/tensor"

// The register tile of Gemm: eight running sums keep both floating-point units busy without spilling registers.
const (
	tileRows = 2
	tileCols = 4
)

// gemmTile multiplies a panel of tileRows rows of A by a panel of tileCols columns of B, both packed so that the
// elements of one k are adjacent, and overwrites tile, row-major, with the sums. Every sum runs in ascending k.
func gemmTile[T tensor.Float](a, b []T, tile *[tileRows * tileCols]T) {
	var c00, c01, c02, c03, c10, c11, c12, c13 T
	for len(a) >= 2*tileRows && len(b) >= 2*tileCols {
		x, y := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		c10 += y * b0
		c11 += y * b1
		c12 += y * b2
		c13 += y * b3
		x, y = a[2], a[3]
		b0, b1, b2, b3 = b[4], b[5], b[6], b[7]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		c10 += y * b0
		c11 += y * b1
		c12 += y * b2
		c13 += y * b3
		a, b = a[2*tileRows:], b[2*tileCols:]
	}
	if len(a) >= tileRows && len(b) >= tileCols {
		x, y := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		c10 += y * b0
		c11 += y * b1
		c12 += y * b2
		c13 += y * b3
	}
	*tile = [tileRows * tileCols]T{c00, c01, c02, c03, c10, c11, c12, c13}
}
