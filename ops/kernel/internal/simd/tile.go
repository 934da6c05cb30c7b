package simd

import "unsafe"

// A Float is an element type that loops exist for.
type Float interface{ float32 | float64 }

// A Tile is one call of a loop of matrix multiplication: C = Alpha*A*B + Beta*C for a few columns and some strips of a few rows of C, where an
// element of C is a chain of fused multiply-adds over ascending k, starting from zero, and then Alpha*chain + Beta*C,
// fused too. Beta 0 leaves C unread. Elements beyond the rows and columns are neither read nor written.
//
// Rows of B and C are contiguous; A has any strides. Distances are in bytes. Assembly knows the order of the fields. A call changes A, and ends with Count 0.
type Tile[T Float] struct {
	A     unsafe.Pointer
	RowA  int // from one row of A to the next
	StepA int // from one k to the next
	B     unsafe.Pointer
	StepB int
	C     unsafe.Pointer
	RowC  int
	Depth int // how many k, at least 1
	Rows  int // of a strip, at least 1 and at most TileRows
	Tail  int // how many elements of the last vector exist, at least 1; RunTile sets it
	NextA int // from one strip of A to the next; those of C follow each other
	Count int // strips, at least 1
	Alpha T
	Beta  T
}

// TileRows returns the most rows of a tile at a level above None.
func TileRows(level Level) int {
	if level == AVX512 {
		return 12
	}
	return 6
}

// TileColumns returns the columns that the next tile should take when left columns are not computed yet: full vectors
// as far as that saves work.
func TileColumns[T Float](level Level, left int) int {
	lanes := vectorBytes(level) / int(unsafe.Sizeof(T(0)))
	switch {
	case level == AVX512 && left > lanes && left <= lanes*3/2:
		return lanes // the rest fits into a short tile
	default:
		return min(left, 2*lanes)
	}
}

func vectorBytes(level Level) int {
	if level == AVX512 {
		return 64
	}
	return 32
}
