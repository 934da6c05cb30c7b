package kernel

// CopyStrided copies rows runs of width elements: run i from src[srcOffset+i*srcStride] to dst[dstOffset+i*dstStride]. It is
// the one move behind concat and split along an axis. With pre the product of the extents before the axis and post that
// of those after it, a part of extent n that begins at position k on the axis of an array of extent total is rows = pre
// runs of width = n*post at offset k*post with stride total*post there, and at offset 0 with stride n*post in the part.
func CopyStrided[T any](dst []T, dstOffset, dstStride int, src []T, srcOffset, srcStride, rows, width int) {
	if width == 0 {
		return
	}
	for i := range rows {
		copy(dst[dstOffset+i*dstStride:][:width], src[srcOffset+i*srcStride:][:width])
	}
}
