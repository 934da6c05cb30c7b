package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// ConvOutSize returns the extent of a convolution's output along one axis: (in + padding -
// (dilation*(kernel-1)+1))/stride + 1, or 0 when the kernel does not fit. padding is the sum of both sides. kernel, stride
// and dilation are at least 1, padding at least 0.
func ConvOutSize(in, kernel, stride, padding, dilation int) int {
	room := in + padding - (dilation*(kernel-1) + 1)
	if room < 0 {
		return 0
	}
	return room/stride + 1
}

// Conv2DShape holds the extents of a convolution. An input image is [InChannels, InHeight, InWidth], an output image
// [OutChannels, OutHeight, OutWidth], the filter [OutChannels, InChannels/Groups, KernelHeight, KernelWidth]. Groups
// divides both numbers of channels; Groups equal to InChannels is a depthwise convolution. OutHeight and OutWidth are
// what ConvOutSize gives, or less: then the last windows do not count.
type Conv2DShape struct {
	InChannels, InHeight, InWidth    int
	OutChannels, OutHeight, OutWidth int
	KernelHeight, KernelWidth        int
	StrideHeight, StrideWidth        int
	PaddingTop, PaddingBottom        int // rows of zeros
	PaddingLeft, PaddingRight        int // columns of zeros
	DilationHeight, DilationWidth    int
	Groups                           int
}

// patch returns the number of input elements of one group that one output element depends on.
func (s *Conv2DShape) patch() int { return s.InChannels / s.Groups * s.KernelHeight * s.KernelWidth }

// pixels returns the number of places of an output channel.
func (s *Conv2DShape) pixels() int { return s.OutHeight * s.OutWidth }

// isPointwise reports whether the matrix of patches is the image itself.
func (s *Conv2DShape) isPointwise() bool {
	return s.KernelHeight == 1 && s.KernelWidth == 1 && s.StrideHeight == 1 && s.StrideWidth == 1 && !s.isPadded() &&
		s.OutHeight == s.InHeight && s.OutWidth == s.InWidth
}

func (s *Conv2DShape) isPadded() bool {
	return s.PaddingTop > 0 || s.PaddingBottom > 0 || s.PaddingLeft > 0 || s.PaddingRight > 0
}

// paddedPlane returns the extents of a channel of an image with its padding.
func (s *Conv2DShape) paddedPlane() (height, width int) {
	return s.PaddingTop + s.InHeight + s.PaddingBottom, s.PaddingLeft + s.InWidth + s.PaddingRight
}

// Conv2DWorkspace returns the workspace length of the three convolution functions. It does not depend on the number of
// images.
func Conv2DWorkspace(s *Conv2DShape) int {
	filters, patch, pixels := s.OutChannels/s.Groups, s.patch(), s.pixels()
	return s.OutChannels*patch + patch*pixels + s.paddedLength() + 2*patchSlack + max(
		GemmWorkspace(filters, pixels, patch),
		GemmWorkspace(patch, pixels, filters),
		GemmWorkspace(filters, patch, pixels),
		GemmWorkspace(patch, filters, pixels))
}

// The convolutions go image by image and group by group through a matrix of patches (im2col) and Gemm, so outputs and
// input gradients of an image do not depend on the batch. workspace holds Conv2DWorkspace elements. x and dx hold
// images input images, out and dout as many output images.

// Conv2D computes the convolution (cross-correlation, as in Fluid's conv2d) of images images with filter. bias has a number for each output
// channel, which is added, and activation is then applied, as in Epilogue; nil stands for none.
func Conv2D[T tensor.Float](s *Conv2DShape, images int, out, x, filter, bias []T, activation func(out, x []T), workspace []T) {
	filters, patch, pixels := s.OutChannels/s.Groups, s.patch(), s.pixels()
	matrix, rest := newPatchMatrix(s, workspace)
	inGroup := s.InChannels / s.Groups * s.InHeight * s.InWidth
	byRow := s.StrideWidth > 1 && matrix.hasRows() // gathering columns would take one element at a time
	for g := range images * s.Groups {
		group := g % s.Groups
		weights := filter[group*filters*patch:]
		to := out[g*filters*pixels:][:filters*pixels]
		e := Epilogue[T]{ByRow: true, Activation: activation}
		if bias != nil {
			e.Bias = bias[group*filters:][:filters]
		}
		if byRow {
			matrix.gatherRows(matrix.padded(x[g*inGroup:], inGroup))
			GemmEpilogue(false, true, filters, pixels, patch, 1, weights, patch, matrix.columns, patch, 0, to, pixels, e, rest)
			continue
		}
		GemmEpilogue(false, false, filters, pixels, patch, 1, weights, patch, matrix.of(x[g*inGroup:], inGroup), pixels, 0, to, pixels, e, rest)
	}
}

// Conv2DInputGrad overwrites dx with the gradient of the input.
func Conv2DInputGrad[T tensor.Float](s *Conv2DShape, images int, dx, filter, dout, workspace []T) {
	filters, patch, pixels := s.OutChannels/s.Groups, s.patch(), s.pixels()
	matrix, rest := newPatchMatrix(s, workspace)
	inGroup := s.InChannels / s.Groups * s.InHeight * s.InWidth
	for g := range images * s.Groups {
		weights, from := filter[g%s.Groups*filters*patch:], dout[g*filters*pixels:]
		to := dx[g*inGroup:][:inGroup]
		if s.isPointwise() {
			Gemm(true, false, patch, pixels, filters, 1, weights, patch, from, pixels, 0, to, pixels, rest)
			continue
		}
		Gemm(true, false, patch, pixels, filters, 1, weights, patch, from, pixels, 0, matrix.columns, pixels, rest)
		matrix.spread(to)
	}
}

// A Conv2DBlock is a part of a filter: input channels and filters of every group, each from a first one up to, but not including, a last one.
type Conv2DBlock struct {
	FirstChannel, LastChannel int // within [0, InChannels/Groups]
	FirstFilter, LastFilter   int // within [0, OutChannels/Groups]

	part Conv2DShape // of these channels; a field, so that a call allocates nothing
}

// Conv2DFilterGrad overwrites a block of dfilter with the gradient of the filter, summed over images in their order. It does not touch the rest.
// Every block gives an element the same bits. A block serves one call at a time.
//
// If it is faster, it computes the transpose, [patch, filter], with the same bits.
func Conv2DFilterGrad[T tensor.Float](s *Conv2DShape, block *Conv2DBlock, images int, dfilter, x, dout, workspace []T) {
	inGroup, plane := s.InChannels/s.Groups, s.InHeight*s.InWidth
	if block.FirstChannel == block.LastChannel || block.FirstFilter == block.LastFilter {
		return
	}
	part := &block.part
	*part = *s
	part.InChannels = (block.LastChannel - block.FirstChannel) * s.Groups
	filters, patch, pixels, step := block.LastFilter-block.FirstFilter, part.patch(), s.pixels(), s.patch()
	transposed, workspace := workspace[:s.Groups*filters*patch], workspace[s.Groups*filters*patch:]
	matrix, rest := newPatchMatrix(part, workspace)
	byRow, ld := matrix.hasRows(), pixels
	if byRow {
		ld = patch
	}
	exchange := exchangesFilter(filters, patch, byRow)
	// place is where the block of a group begins in dfilter.
	place := func(g int) int {
		return (g*s.OutChannels/s.Groups+block.FirstFilter)*step + block.FirstChannel*s.KernelHeight*s.KernelWidth
	}
	clear(transposed)
	for g := range s.Groups {
		for f := range filters {
			clear(dfilter[place(g)+f*step:][:patch])
		}
	}
	for i := range images * s.Groups {
		g := i % s.Groups
		image, size := x[(i*inGroup+block.FirstChannel)*plane:], part.InChannels/s.Groups*plane
		patches := matrix.columns
		if byRow {
			matrix.gatherRows(matrix.padded(image, size))
		} else {
			patches = matrix.of(image, size)
		}
		from := dout[(i*s.OutChannels/s.Groups+block.FirstFilter)*pixels:]
		if exchange {
			Gemm(byRow, true, patch, filters, pixels, 1, patches, ld, from, pixels, 1, transposed[g*filters*patch:], filters, rest)
		} else {
			Gemm(false, !byRow, filters, patch, pixels, 1, from, pixels, patches, ld, 1, dfilter[place(g):], step, rest)
		}
	}
	if exchange {
		for g := range s.Groups {
			simd.Transpose(dfilter[place(g):], step, transposed[g*filters*patch:], filters, patch, filters)
		}
	}
}

// exchangesFilter estimates whether the gradient of a filter is faster as its transpose. Gemm fills vectors with columns, so the last vector may be
// largely empty. It must also transpose the factor whose columns do not lie in rows: an element of it costs about a third of a vector multiplication
// and addition. This holds for the output gradients always, and for the patches unless they lie by rows.
func exchangesFilter(filters, patch int, byRow bool) bool {
	const vector = 16
	cost := func(rows, columns int) int { return 3 * rows * ceilDiv(columns, vector) }
	plain := cost(filters, patch)
	if !byRow {
		plain += patch
	}
	return cost(patch, filters)+filters < plain
}

// patchSlack is how many elements after an image or a matrix of patches whole vectors may touch.
const patchSlack = 7

// A patchMatrix converts between one group of an image and its matrix of patches, [channel, kernel row, kernel column] x [output row, output
// column], or the transpose of that matrix. The matrix holds the input elements of each window, 0 in the padding. If there is padding, the conversion
// uses a copy of the image with its padding, so that no window leaves it.
type patchMatrix[T tensor.Float] struct {
	shape         *Conv2DShape
	height, width int // of a padded plane
	columns       []T // the matrix, or its transpose
	copied        []T
}

// paddedLength returns the elements of one group of an image with its padding.
func (s *Conv2DShape) paddedLength() int {
	height, width := s.paddedPlane()
	return s.InChannels / s.Groups * height * width
}

// newPatchMatrix takes its memory from workspace and returns the rest.
func newPatchMatrix[T tensor.Float](s *Conv2DShape, workspace []T) (m patchMatrix[T], rest []T) {
	size, padded := s.patch()*s.pixels()+patchSlack, s.paddedLength()+patchSlack
	m = patchMatrix[T]{shape: s, columns: workspace[:size], copied: workspace[size:][:padded]}
	m.height, m.width = s.paddedPlane()
	return m, workspace[size+padded:]
}

// of returns the matrix of one group of an image, the first size elements of images. If both are equal, it returns images itself.
func (m *patchMatrix[T]) of(images []T, size int) []T {
	if m.shape.isPointwise() {
		return images[:size]
	}
	m.gather(m.padded(images, size))
	return m.columns
}

// padded returns the first size elements of images with their padding, and at least patchSlack elements of any value.
func (m *patchMatrix[T]) padded(images []T, size int) []T {
	switch s := m.shape; {
	case s.isPadded():
		m.pad(images[:size])
	case len(images) < size+patchSlack:
		copy(m.copied, images[:size])
	default:
		return images
	}
	return m.copied
}

// hasRows reports whether gatherRows works for this shape and these elements.
func (m *patchMatrix[T]) hasRows() bool {
	s := m.shape
	return vectorsOf[T]() != nil && s.DilationWidth == 1 && !s.isPointwise() && s.patch()*s.pixels() > 0
}

// gatherRows fills columns with the transpose of the matrix: a row for each window. patchSlack elements after the padded image may hold any values.
func (m *patchMatrix[T]) gatherRows(padded []T) {
	s := m.shape
	vectorsOf[T]().CopyPatchRows(singles(m.columns), singles(padded), s.InChannels/s.Groups, m.height*m.width, s.KernelHeight, s.KernelWidth,
		s.DilationHeight*m.width, s.OutHeight, s.OutWidth, s.StrideHeight*m.width, s.StrideWidth)
}

// pad copies image into the middle of zeros.
func (m *patchMatrix[T]) pad(image []T) {
	s := m.shape
	clear(m.copied)
	for c := range s.InChannels / s.Groups {
		for y := range s.InHeight {
			copy(m.copied[m.inside(c, y):], image[(c*s.InHeight+y)*s.InWidth:][:s.InWidth])
		}
	}
}

// inside returns the index in copied of the first element of row y of channel c of the image.
func (m *patchMatrix[T]) inside(c, y int) int {
	return (c*m.height+m.shape.PaddingTop+y)*m.width + m.shape.PaddingLeft
}

// gather fills columns from a padded image. patchSlack elements after the image may hold any values.
func (m *patchMatrix[T]) gather(padded []T) {
	s := m.shape
	v := vectorsOf[T]()
	perChannel := s.KernelHeight * s.KernelWidth * s.pixels()
	for c := range s.InChannels / s.Groups {
		to, plane := m.columns[c*perChannel:], padded[c*m.height*m.width:]
		if v != nil && s.StrideWidth == 1 && perChannel > 0 {
			v.CopyPatches(singles(to), singles(plane), s.KernelHeight, s.KernelWidth, s.DilationHeight*m.width, s.DilationWidth,
				s.OutHeight, s.OutWidth, s.StrideHeight*m.width)
			continue
		}
		m.eachRow(plane, func(row []T) {
			for i := range to[:s.OutWidth] {
				to[i] = row[i*s.StrideWidth]
			}
			to = to[s.OutWidth:]
		})
	}
}

// spread is the gradient of of: it overwrites image with sums over the windows of each element, in the order of columns.
func (m *patchMatrix[T]) spread(image []T) {
	s := m.shape
	v := vectorsOf[T]()
	clear(m.copied)
	perChannel := s.KernelHeight * s.KernelWidth * s.pixels()
	channels := s.InChannels / s.Groups
	if v != nil && s.StrideWidth == 1 && perChannel > 0 {
		some := max(1, min(channels, spreadElements/(m.height*m.width)))
		for c := 0; c < channels; c += some {
			m.addWindows(v, c, min(some, channels-c))
		}
	} else {
		for c := range channels {
			from := m.columns[c*perChannel:]
			m.eachRow(m.copied[c*m.height*m.width:], func(row []T) {
				for i, v := range from[:s.OutWidth] {
					row[i*s.StrideWidth] += v
				}
				from = from[s.OutWidth:]
			})
		}
	}
	m.unpad(image)
}

// spreadElements is how many elements of an image have windows added by turns. They stay in the first-level cache. Windows of one channel overlap, and
// a processor reads what it has just written late if it has written only a part of it. With other channels between, that is long ago.
const spreadElements = 4096

// addWindows adds all windows of count channels from first on.
func (m *patchMatrix[T]) addWindows(v *simd.Vectors, first, count int) {
	s := m.shape
	plane, window := m.height*m.width, s.pixels()
	perChannel := s.KernelHeight * s.KernelWidth * window
	image, columns := singles(m.copied[first*plane:]), singles(m.columns[first*perChannel:])
	for ky := range s.KernelHeight {
		for kx := range s.KernelWidth {
			v.AddWindows(image[ky*s.DilationHeight*m.width+kx*s.DilationWidth:], columns[(ky*s.KernelWidth+kx)*window:],
				count, plane, perChannel, s.OutHeight, s.OutWidth, s.StrideHeight*m.width)
		}
	}
}

// unpad copies what pad has copied back into image.
func (m *patchMatrix[T]) unpad(image []T) {
	s := m.shape
	if !s.isPadded() {
		copy(image, m.copied)
		return
	}
	for c := range s.InChannels / s.Groups {
		for y := range s.InHeight {
			copy(image[(c*s.InHeight+y)*s.InWidth:][:s.InWidth], m.copied[m.inside(c, y):])
		}
	}
}

// eachRow calls f with the part of plane from a row of a window on, for all windows in the order of columns.
func (m *patchMatrix[T]) eachRow(plane []T, f func(row []T)) {
	s := m.shape
	for ky := range s.KernelHeight {
		for kx := range s.KernelWidth {
			for oy := range s.OutHeight {
				f(plane[(oy*s.StrideHeight+ky*s.DilationHeight)*m.width+kx*s.DilationWidth:])
			}
		}
	}
}
