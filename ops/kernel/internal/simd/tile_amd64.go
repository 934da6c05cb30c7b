//go:build !purego

package simd

import "unsafe"

// RunTile computes the tile for columns columns, as TileColumns gives them, with the instructions of level, which is not None.
func RunTile[T Float](level Level, t *Tile[T], columns int) {
	size := int(unsafe.Sizeof(t.Alpha))
	lanes := vectorBytes(level) / size
	args := unsafe.Pointer(t)
	switch {
	case columns > lanes:
		t.Tail = columns - lanes
		switch {
		case level == AVX512 && size == 4:
			gemmTileWideAVX512Float32(args)
		case level == AVX512:
			gemmTileWideAVX512Float64(args)
		case size == 4:
			gemmTileWideAVX2Float32(args)
		default:
			gemmTileWideAVX2Float64(args)
		}
	case level == AVX512 && columns <= lanes/2:
		t.Tail = columns
		if size == 4 {
			gemmTileShortAVX512Float32(args)
		} else {
			gemmTileShortAVX512Float64(args)
		}
	default:
		t.Tail = columns
		switch {
		case level == AVX512 && size == 4:
			gemmTileNarrowAVX512Float32(args)
		case level == AVX512:
			gemmTileNarrowAVX512Float64(args)
		case size == 4:
			gemmTileNarrowAVX2Float32(args)
		default:
			gemmTileNarrowAVX2Float64(args)
		}
	}
}

//go:noescape
func gemmTileWideAVX2Float32(args unsafe.Pointer)

//go:noescape
func gemmTileNarrowAVX2Float32(args unsafe.Pointer)

//go:noescape
func gemmTileWideAVX2Float64(args unsafe.Pointer)

//go:noescape
func gemmTileNarrowAVX2Float64(args unsafe.Pointer)

//go:noescape
func gemmTileWideAVX512Float32(args unsafe.Pointer)

//go:noescape
func gemmTileNarrowAVX512Float32(args unsafe.Pointer)

//go:noescape
func gemmTileShortAVX512Float32(args unsafe.Pointer)

//go:noescape
func gemmTileWideAVX512Float64(args unsafe.Pointer)

//go:noescape
func gemmTileNarrowAVX512Float64(args unsafe.Pointer)

//go:noescape
func gemmTileShortAVX512Float64(args unsafe.Pointer)
