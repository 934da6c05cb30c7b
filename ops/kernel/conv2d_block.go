package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// A Conv2DBlock is a part of a filter that callers compute by itself: input channels and filters of every group, each
// from a first one on up to but not including another.
type Conv2DBlock struct {
	FirstChannel, LastChannel int // within [0, InChannels/Groups]
	FirstFilter, LastFilter   int // within [0, OutChannels/Groups]

	part Conv2DShape // of these channels; here so that it is allocated with the block
}

// Conv2DFilterGrad overwrites a block of dfilter with the gradient of the filter, summed over images in their order, and
// leaves the rest. It has the same bits in every block that it is in. A block serves one call at a time.
//
// It is computed as its transpose, [patch, filter], where that is faster. The bits of both ways are the same.
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
	exchange := exchangesFilter(filters, patch)
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
		columns := matrix.of(x[(i*inGroup+block.FirstChannel)*plane:], part.InChannels/s.Groups*plane)
		from := dout[(i*s.OutChannels/s.Groups+block.FirstFilter)*pixels:]
		if exchange {
			Gemm(false, true, patch, filters, pixels, 1, columns, pixels, from, pixels, 1, transposed[g*filters*patch:], filters, rest)
		} else {
			Gemm(false, true, filters, patch, pixels, 1, from, pixels, columns, pixels, 1, dfilter[place(g):], step, rest)
		}
	}
	if exchange {
		for g := range s.Groups {
			simd.Transpose(dfilter[place(g):], step, transposed[g*filters*patch:], filters, patch, filters)
		}
	}
}

// exchangesFilter estimates whether the gradient of a filter is faster as its transpose. Gemm fills vectors with columns, of which the last may be
// empty for a good part, and has to transpose the factor that the columns come from: an element of it takes about a third of what a
// vector takes to be multiplied and added.
func exchangesFilter(filters, patch int) bool {
	const vector = 16
	cost := func(rows, columns int) int { return 3*rows*((columns+vector-1)/vector) + columns }
	return cost(patch, filters) < cost(filters, patch)
}
