package kernel

import "github.com/edl-go/edl/tensor"

// patches returns the matrix of patches of one group of one image: the image itself where that is the same, else
// columns, filled by imageToColumns.
func patches[T tensor.Float](s *Conv2DShape, columns, image []T) []T {
	if s.isPointwise() {
		return image
	}
	imageToColumns(s, columns, image)
	return columns
}

// imageToColumns fills columns, [channel, kernel row, kernel column] x [output row, output column], with the input
// element that each meets, 0 in the padding.
func imageToColumns[T tensor.Float](s *Conv2DShape, columns, image []T) {
	at := 0
	for c := range s.InChannels / s.Groups {
		plane := image[c*s.InHeight*s.InWidth:][:s.InHeight*s.InWidth]
		for ky := range s.KernelHeight {
			for kx := range s.KernelWidth {
				first, last := insideRange(s.OutWidth, s.InWidth, s.StrideWidth, kx*s.DilationWidth-s.PaddingWidth)
				for oy := range s.OutHeight {
					row := columns[at:][:s.OutWidth]
					at += s.OutWidth
					y := oy*s.StrideHeight + ky*s.DilationHeight - s.PaddingHeight
					if y < 0 || y >= s.InHeight || first == last {
						clear(row)
						continue
					}
					clear(row[:first])
					clear(row[last:])
					x := y*s.InWidth + first*s.StrideWidth + kx*s.DilationWidth - s.PaddingWidth
					if s.StrideWidth == 1 {
						copy(row[first:last], plane[x:])
						continue
					}
					for i := range row[first:last] {
						row[first+i] = plane[x+i*s.StrideWidth]
					}
				}
			}
		}
	}
}

// columnsToImage is the gradient of imageToColumns: it overwrites image with the sums, in the order of columns, of what met
// each element.
func columnsToImage[T tensor.Float](s *Conv2DShape, image, columns []T) {
	clear(image)
	at := 0
	for c := range s.InChannels / s.Groups {
		plane := image[c*s.InHeight*s.InWidth:][:s.InHeight*s.InWidth]
		for ky := range s.KernelHeight {
			for kx := range s.KernelWidth {
				first, last := insideRange(s.OutWidth, s.InWidth, s.StrideWidth, kx*s.DilationWidth-s.PaddingWidth)
				for oy := range s.OutHeight {
					row := columns[at:][:s.OutWidth]
					at += s.OutWidth
					y := oy*s.StrideHeight + ky*s.DilationHeight - s.PaddingHeight
					if y < 0 || y >= s.InHeight {
						continue
					}
					x := y*s.InWidth + first*s.StrideWidth + kx*s.DilationWidth - s.PaddingWidth
					for i, v := range row[first:last] {
						plane[x+i*s.StrideWidth] += v
					}
				}
			}
		}
	}
}

// insideRange returns the positions [first, last) of an output axis for which position*stride + offset lies in [0, in).
func insideRange(out, in, stride, offset int) (first, last int) {
	if offset < 0 {
		first = min((-offset+stride-1)/stride, out)
	}
	if in > offset {
		last = min((in-offset+stride-1)/stride, out)
	}
	return first, max(first, last)
}
