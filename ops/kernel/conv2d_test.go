package kernel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

func drawConvolution(t *rapid.T) (s Conv2DShape, images int) {
	draw := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	s = Conv2DShape{
		Groups: draw("groups", 1, 3), InHeight: draw("height", 1, 6), InWidth: draw("width", 1, 24),
		KernelHeight: draw("kernel height", 1, 3), KernelWidth: draw("kernel width", 1, 3),
		StrideHeight: draw("stride height", 1, 3), StrideWidth: draw("stride width", 1, 3),
		PaddingTop: draw("padding top", 0, 2), PaddingBottom: draw("padding bottom", 0, 2),
		PaddingLeft: draw("padding left", 0, 4), PaddingRight: draw("padding right", 0, 4),
		DilationHeight: draw("dilation height", 1, 2), DilationWidth: draw("dilation width", 1, 3),
	}
	s.InChannels, s.OutChannels = s.Groups*draw("in channels", 1, 2), s.Groups*draw("out channels", 1, 18)
	s.OutHeight = ConvOutSize(s.InHeight, s.KernelHeight, s.StrideHeight, s.PaddingTop+s.PaddingBottom, s.DilationHeight)
	s.OutWidth = ConvOutSize(s.InWidth, s.KernelWidth, s.StrideWidth, s.PaddingLeft+s.PaddingRight, s.DilationWidth)
	s.OutHeight -= draw("rows less", 0, min(1, s.OutHeight)) // as a transposed convolution may need
	return s, draw("images", 0, 3)
}

// eachProduct calls f with the places of every input element and filter element that are multiplied, and of their output element.
func eachProduct(s *Conv2DShape, images int, f func(out, x, filter int)) {
	inGroup, outGroup := s.InChannels/s.Groups, s.OutChannels/s.Groups
	for n := range images {
		for oc := range s.OutChannels {
			for oy := range s.OutHeight {
				for ox := range s.OutWidth {
					for ic := range inGroup {
						for ky := range s.KernelHeight {
							for kx := range s.KernelWidth {
								y := oy*s.StrideHeight + ky*s.DilationHeight - s.PaddingTop
								x := ox*s.StrideWidth + kx*s.DilationWidth - s.PaddingLeft
								if y < 0 || y >= s.InHeight || x < 0 || x >= s.InWidth {
									continue
								}
								channel := oc/outGroup*inGroup + ic
								f(((n*s.OutChannels+oc)*s.OutHeight+oy)*s.OutWidth+ox,
									((n*s.InChannels+channel)*s.InHeight+y)*s.InWidth+x,
									((oc*inGroup+ic)*s.KernelHeight+ky)*s.KernelWidth+kx)
							}
						}
					}
				}
			}
		}
	}
}

// wholeFilter is the block that is all of a filter.
func wholeFilter(s *Conv2DShape) *Conv2DBlock {
	return &Conv2DBlock{LastChannel: s.InChannels / s.Groups, LastFilter: s.OutChannels / s.Groups}
}

func testConvolution[T tensor.Float](t *rapid.T, g *guards) {
	s, images := drawConvolution(t)
	seed := rapid.Int64().Draw(t, "seed")
	inImage, outImage := s.InChannels*s.InHeight*s.InWidth, s.OutChannels*s.pixels()
	x, filter := guarded(g, 0, noise[T](seed, images*inImage)), guarded(g, 1, noise[T](seed+1, s.OutChannels*s.patch()))
	dout := guarded(g, 2, noise[T](seed+2, images*outImage))
	wantOut, wantDx, wantDfilter := make([]float64, len(dout)), make([]float64, len(x)), make([]float64, len(filter))
	eachProduct(&s, images, func(o, i, w int) {
		wantOut[o] += float64(x[i]) * float64(filter[w])
		wantDx[i] += float64(dout[o]) * float64(filter[w])
		wantDfilter[w] += float64(dout[o]) * float64(x[i])
	})
	workspace := guarded(g, 3, noise[T](3, Conv2DWorkspace(&s))) // holds arbitrary values
	out, dx, dfilter := guarded(g, 4, noise[T](4, len(dout))), guarded(g, 5, noise[T](5, len(x))), guarded(g, 6, noise[T](6, len(filter)))
	Conv2D(&s, images, out, x, filter, nil, nil, workspace)
	Conv2DInputGrad(&s, images, dx, filter, dout, workspace)
	Conv2DFilterGrad(&s, wholeFilter(&s), images, dfilter, x, dout, workspace)
	nearAll(t, "out", out, wantOut)
	nearAll(t, "dx", dx, wantDx)
	for w := range dfilter {
		near(t, dfilter[w], wantDfilter[w], float64(1+images*s.pixels()), "dfilter[%d]", w)
	}
	if images > 0 {
		alone, dalone := make([]T, outImage), make([]T, inImage)
		Conv2D(&s, 1, alone, x[(images-1)*inImage:], filter, nil, nil, workspace)
		sameBits(t, alone, out[(images-1)*outImage:])
		Conv2DInputGrad(&s, 1, dalone, filter, dout[(images-1)*outImage:], workspace)
		sameBits(t, dalone, dx[(images-1)*inImage:])
	}
}

func TestConvolution(t *testing.T) {
	g := newGuards(t, 7)
	eachLevel(t, func(t *testing.T) {
		t.Run("float32", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testConvolution[float32](t, g) }) })
		t.Run("float64", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testConvolution[float64](t, g) }) })
	})
}

// Rows of patches are the columns of the matrix of patches, also where a row of the filter takes several vectors.
func TestRowsOfPatches(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s, _ := drawConvolution(t)
			s.DilationWidth, s.KernelWidth = 1, rapid.IntRange(1, s.InWidth+s.PaddingLeft+s.PaddingRight).Draw(t, "kernel width of all widths")
			s.OutWidth = ConvOutSize(s.InWidth, s.KernelWidth, s.StrideWidth, s.PaddingLeft+s.PaddingRight, 1)
			size := s.InChannels / s.Groups * s.InHeight * s.InWidth
			image, memory := noise[float32](1, size), noise[float32](2, 2*Conv2DWorkspace(&s))
			columns, rest := newPatchMatrix(&s, memory)
			rows, _ := newPatchMatrix(&s, rest)
			if !rows.hasRows() {
				return
			}
			columns.gather(columns.padded(image, size))
			rows.gatherRows(rows.padded(image, size))
			want := make([]float32, s.patch()*s.pixels())
			for at := range want {
				want[at] = columns.columns[at%s.patch()*s.pixels()+at/s.patch()]
			}
			sameBits(t, rows.columns[:len(want)], want)
		})
	})
}

func TestConvOutSize(t *testing.T) {
	for _, c := range []struct{ in, kernel, stride, padding, dilation, want int }{
		{28, 5, 1, 0, 1, 24}, {28, 5, 1, 4, 1, 28}, {224, 7, 2, 6, 1, 112}, {7, 3, 1, 0, 3, 1}, {2, 3, 1, 0, 1, 0}, {2, 3, 5, 0, 1, 0},
	} {
		if got := ConvOutSize(c.in, c.kernel, c.stride, c.padding, c.dilation); got != c.want {
			t.Errorf("%+v gives %d", c, got)
		}
	}
}

// mnistConvolution is the second convolution of the book's digit recogniser.
func mnistConvolution() Conv2DShape {
	return Conv2DShape{
		InChannels: 20, InHeight: 12, InWidth: 12, OutChannels: 50, OutHeight: 8, OutWidth: 8, KernelHeight: 5, KernelWidth: 5,
		StrideHeight: 1, StrideWidth: 1, DilationHeight: 1, DilationWidth: 1, Groups: 1,
	}
}

func TestConvolutionAllocatesNothing(t *testing.T) {
	s := mnistConvolution()
	x, filter, out := make([]float32, 20*144), make([]float32, 50*500), make([]float32, 50*64)
	workspace := make([]float32, Conv2DWorkspace(&s))
	noAllocation(t, func() {
		Conv2D(&s, 1, out, x, filter, nil, nil, workspace)
		Conv2DInputGrad(&s, 1, x, filter, out, workspace)
	})
}

func BenchmarkConvolution(b *testing.B) {
	const images = 64
	s := mnistConvolution()
	x, filter := noise[float32](1, images*20*144), noise[float32](2, 50*500)
	out, workspace := make([]float32, images*50*64), make([]float32, Conv2DWorkspace(&s))
	for name, f := range map[string]func(){
		"forward":    func() { Conv2D(&s, images, out, x, filter, nil, nil, workspace) },
		"inputGrad":  func() { Conv2DInputGrad(&s, images, x, filter, out, workspace) },
		"filterGrad": func() { Conv2DFilterGrad(&s, wholeFilter(&s), images, filter, x, out, workspace) },
	} {
		b.Run(name, func(b *testing.B) { benchmarkFlops[float32](b, 2*images*50*64*500, f) })
	}
}
