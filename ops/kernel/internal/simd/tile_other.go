//go:build !amd64 || purego

package simd

// RunTile is never called: there is no level but None.
func RunTile[T Float](level Level, t *Tile[T], columns int) {}
