package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// A TransposePlan says how to permute the axes of a row-major array. Build it once per shape with NewTransposePlan. It is immutable.
type TransposePlan struct {
	outer   int          // axes of the loop around runs
	dims    [maxRank]int // their extents, in the order of the output
	strides [maxRank]int // distance in the input of a step along each
	run     int          // extent of the innermost axis of the output
	stride  int          // distance in the input of a step along it
	count   int
}

// NewTransposePlan plans output axis i as input axis perm[i]. perm is a permutation of [0, len(dims)), of at most 16 axes.
// The gradient is the transpose of the output's dims by the inverse permutation.
func NewTransposePlan(dims, perm []int) TransposePlan {
	var inStrides [maxRank]int
	p := TransposePlan{count: 1}
	for i := len(dims) - 1; i >= 0; i-- {
		inStrides[i] = p.count
		p.count *= dims[i]
	}
	n := 0
	for i, axis := range perm {
		if i > 0 && axis == perm[i-1]+1 { // neighbours stay neighbours: one longer axis
			p.dims[n-1] *= dims[axis]
			p.strides[n-1] = inStrides[axis]
			continue
		}
		p.dims[n], p.strides[n] = dims[axis], inStrides[axis]
		n++
	}
	if n == 0 {
		p.run, p.stride = 1, 1
		return p
	}
	p.outer = n - 1
	p.run, p.stride = p.dims[n-1], p.strides[n-1]
	return p
}

// Iterations returns the number of equal parts that the output can be divided into.
func (p *TransposePlan) Iterations() int {
	if p.outer > 0 {
		return p.dims[0]
	}
	return p.run
}

// Transpose writes the iterations [first, last) of the permuted x to their place in out; x and out do not overlap.
func Transpose[T any](p *TransposePlan, out, x []T, first, last int) {
	switch {
	case p.count == 0:
		return
	case p.outer == 0:
		copy(out[first:last], x[first:last])
		return
	}
	each := p.count / p.dims[0]
	c := transposeCursor{outer: p.outer, at: first * each, end: last * each, from: first * p.strides[0]}
	c.index[0] = first
	if plane := p.outer - 1; p.strides[plane] == 1 { // the last two axes are those of a matrix, exchanged
		columns := p.dims[plane]
		if plane == 0 {
			transposeMatrix(out[c.at:c.end], x[c.from:], p.stride, p.run, last-first)
			return
		}
		for c.outer = plane; c.at < c.end; c.next(p, columns*p.run) {
			transposeMatrix(out[c.at:][:columns*p.run], x[c.from:], p.stride, p.run, columns)
		}
		return
	}
	for ; c.at < c.end; c.next(p, p.run) {
		run := out[c.at:][:p.run]
		if p.stride == 1 {
			copy(run, x[c.from:])
			continue
		}
		for i, place := 0, c.from; i < len(run); i, place = i+1, place+p.stride {
			run[i] = x[place]
		}
	}
}

// A transposeCursor walks over the output and knows the place in the input.
type transposeCursor struct {
	outer         int // axes that it walks over
	index         [maxRank]int
	at, end, from int
}

// next moves on by some elements of the output, which are one step of the innermost axis of the walk.
func (c *transposeCursor) next(p *TransposePlan, elements int) {
	c.at += elements
	for i := c.outer - 1; i >= 0; i-- {
		c.index[i]++
		c.from += p.strides[i]
		if c.index[i] < p.dims[i] {
			return
		}
		c.from -= p.strides[i] * p.dims[i]
		c.index[i] = 0
	}
}

// transposeColumns is how many columns of a matrix are transposed together, so that the lines that they are written to stay in the cache.
const transposeColumns = 64

// transposeMatrix writes out[c*rows+r] = x[r*step+c] for r below rows and c below columns. Vectors only move elements and do not interpret them.
func transposeMatrix[T any](out, x []T, step, rows, columns int) {
	if len(out) == 0 {
		return
	}
	for from := 0; from < columns; from += transposeColumns {
		part, to, source := min(transposeColumns, columns-from), out[from*rows:], x[from:]
		switch unsafe.Sizeof(out[0]) {
		case 4:
			simd.Transpose(as[float32](to), rows, as[float32](source), step, rows, part)
		case 8:
			simd.Transpose(as[float64](to), rows, as[float64](source), step, rows, part)
		default:
			for c := range part {
				for r := range rows {
					to[c*rows+r] = source[r*step+c]
				}
			}
		}
	}
}

// as sees elements as others of the same size.
func as[E, T any](x []T) []E { return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(x))), len(x)) }

// CopyStrided copies rows runs of width elements: run i from src[srcOffset+i*srcStride] to dst[dstOffset+i*dstStride]. Concat and split along an
// axis consist of such copies. Let pre be the product of the extents before the axis, and post of those after it. A part of extent n begins at
// position k of the axis of an array of extent total. It is rows = pre runs of width = n*post. In the array they have offset k*post and stride
// total*post, in the part offset 0 and stride n*post.
func CopyStrided[T any](dst []T, dstOffset, dstStride int, src []T, srcOffset, srcStride, rows, width int) {
	if width == 0 {
		return
	}
	for i := range rows {
		copy(dst[dstOffset+i*dstStride:][:width], src[srcOffset+i*srcStride:][:width])
	}
}
