package kernel

import "github.com/edl-go/edl/tensor"

// patchSlack is how many elements behind an image or a matrix of patches may be touched by whole vectors.
const patchSlack = 7

// A patchMatrix goes between one group of an image and the matrix of its patches, [channel, kernel row, kernel column] x
// [output row, output column], which holds the input element that each meets, 0 in the padding. Between them lies a copy of
// the image with its padding, so that no window leaves it, unless there is no padding.
type patchMatrix[T tensor.Float] struct {
	shape         *Conv2DShape
	height, width int // of a padded plane
	columns       []T
	padded        []T
}

// paddedLength returns the elements of one group of an image with its padding.
func (s *Conv2DShape) paddedLength() int {
	return s.InChannels / s.Groups * (s.InHeight + 2*s.PaddingHeight) * (s.InWidth + 2*s.PaddingWidth)
}

// newPatchMatrix takes what it needs off workspace and returns the rest.
func newPatchMatrix[T tensor.Float](s *Conv2DShape, workspace []T) (m patchMatrix[T], rest []T) {
	size, padded := s.patch()*s.pixels()+patchSlack, s.paddedLength()+patchSlack
	return patchMatrix[T]{
		shape: s, height: s.InHeight + 2*s.PaddingHeight, width: s.InWidth + 2*s.PaddingWidth,
		columns: workspace[:size], padded: workspace[size:][:padded],
	}, workspace[size+padded:]
}

// of returns the matrix of one group of an image, which is the first size elements of images: these themselves where that is the same.
func (m *patchMatrix[T]) of(images []T, size int) []T {
	switch s := m.shape; {
	case s.isPointwise():
		return images[:size]
	case s.PaddingHeight > 0 || s.PaddingWidth > 0:
		m.pad(images[:size])
		m.gather(m.padded)
	case len(images) < size+patchSlack:
		copy(m.padded, images[:size])
		m.gather(m.padded)
	default:
		m.gather(images)
	}
	return m.columns
}

// pad copies image into the middle of zeros.
func (m *patchMatrix[T]) pad(image []T) {
	s := m.shape
	clear(m.padded)
	for c := range s.InChannels / s.Groups {
		for y := range s.InHeight {
			copy(m.padded[m.inside(c, y):], image[(c*s.InHeight+y)*s.InWidth:][:s.InWidth])
		}
	}
}

// inside returns the place in padded of the first element of row y of channel c of the image.
func (m *patchMatrix[T]) inside(c, y int) int {
	return (c*m.height+m.shape.PaddingHeight+y)*m.width + m.shape.PaddingWidth
}

// gather fills columns from an image with its padding, behind which there are patchSlack elements of any content.
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

// spread is the gradient of of: it overwrites image with the sums, in the order of columns, of what met each element.
func (m *patchMatrix[T]) spread(image []T) {
	s := m.shape
	v := vectorsOf[T]()
	clear(m.padded)
	perChannel := s.KernelHeight * s.KernelWidth * s.pixels()
	for c := range s.InChannels / s.Groups {
		from, plane := m.columns[c*perChannel:], m.padded[c*m.height*m.width:]
		if v != nil && s.StrideWidth == 1 && perChannel > 0 {
			v.AddPatches(singles(plane), singles(from), s.KernelHeight, s.KernelWidth, s.DilationHeight*m.width, s.DilationWidth,
				s.OutHeight, s.OutWidth, s.StrideHeight*m.width)
		} else {
			m.eachRow(plane, func(row []T) {
				for i, v := range from[:s.OutWidth] {
					row[i*s.StrideWidth] += v
				}
				from = from[s.OutWidth:]
			})
		}
		for y := range s.InHeight {
			copy(image[(c*s.InHeight+y)*s.InWidth:][:s.InWidth], m.padded[m.inside(c, y):])
		}
	}
}

// eachRow calls f with the part of plane that begins where a row of a window does, for all windows in the order of columns.
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
