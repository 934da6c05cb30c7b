package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

func drawWinograd(t *rapid.T) (s Conv2DShape, images int) {
	draw := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	s = Conv2DShape{
		InChannels: draw("channels", 1, 20), InHeight: draw("height", 1, 9), InWidth: draw("width", 1, 40), OutChannels: draw("filters", 1, 20),
		KernelHeight: 3, KernelWidth: 3, StrideHeight: 1, StrideWidth: 1, DilationHeight: 1, DilationWidth: 1, Groups: 1,
		PaddingTop: draw("top", 0, 3), PaddingBottom: draw("bottom", 0, 3), PaddingLeft: draw("left", 0, 3), PaddingRight: draw("right", 0, 3),
	}
	s.OutHeight = ConvOutSize(s.InHeight, 3, 1, s.PaddingTop+s.PaddingBottom, 1)
	s.OutWidth = ConvOutSize(s.InWidth, 3, 1, s.PaddingLeft+s.PaddingRight, 1)
	if s.OutHeight > 0 {
		s.OutHeight -= draw("rows less", 0, min(1, s.OutHeight-1))
	}
	return s, draw("images", 0, 3)
}

// A winogradRun holds what both ways to compute a convolution make of the same numbers.
type winogradRun struct{ out, dx, dfilter []float32 }

var winogradSizes = map[string]*winogradSize{"2x2": &winograd2x2, "4x4": &winograd4x4}

// eachSize runs f as a subtest for each size of tiles.
func eachSize(t *testing.T, f func(t *testing.T, size *winogradSize)) {
	for name, size := range winogradSizes {
		t.Run(name, func(t *testing.T) { f(t, size) })
	}
}

// runWinograd computes all three results, in blocks of the given number of tiles or, for 0, of those that the shape has.
func runWinograd(s *Conv2DShape, size *winogradSize, images, tiles int, filter, x, dout []float32, made func([]float32) []float32) winogradRun {
	w := newWinograd(s, size)
	g := w.InputGrad()
	if tiles > 0 {
		w.product, w.sum, g.product = w.block(tiles), w.block(tiles), g.block(tiles)
	}
	r := winogradRun{made(make([]float32, len(dout))), made(make([]float32, len(x))), made(make([]float32, len(filter)))}
	for _, c := range []struct {
		w       *Winograd
		out, in []float32
	}{{w, r.out, x}, {g, r.dx, dout}} {
		transformed, memory := made(noise[float32](1, c.w.FilterLength())), made(noise[float32](2, c.w.FilterWorkspace()))
		half := c.w.Channels() / 2
		c.w.TransformFilter(transformed, filter, half, c.w.Channels(), memory)
		c.w.TransformFilter(transformed, filter, 0, half, memory)
		c.w.Convolve(images, c.out, c.in, transformed, nil, nil, made(noise[float32](3, c.w.ConvolveWorkspace())))
	}
	w.FilterGrad(0, s.InChannels, images, r.dfilter, x, dout, made(noise[float32](4, w.SumWorkspace())))
	return r
}

// Winograd's convolution is the convolution, and touches no memory beside its arrays.
func TestWinograd(t *testing.T) {
	g := newGuards(t, 13)
	eachLevel(t, func(t *testing.T) {
		eachSize(t, func(t *testing.T, size *winogradSize) {
			rapid.Check(t, func(t *rapid.T) { testWinograd(t, g, size) })
		})
	})
}

func testWinograd(t *rapid.T, g *guards, size *winogradSize) {
	s, images := drawWinograd(t)
	if !s.isWinograd() {
		return
	}
	seed, at := rapid.Int64().Draw(t, "seed"), 0
	x := guarded(g, 0, noise[float32](seed, images*s.InChannels*s.InHeight*s.InWidth))
	filter := guarded(g, 1, noise[float32](seed+1, s.OutChannels*s.patch()))
	dout := guarded(g, 2, noise[float32](seed+2, images*s.OutChannels*s.pixels()))
	var want winogradWanted
	want.compute(&s, images, filter, x, dout)
	got := runWinograd(&s, size, images, rapid.IntRange(0, 30).Draw(t, "tiles"), filter, x, dout, func(x []float32) []float32 {
		at++
		return guarded(g, 3+at%10, x)
	})
	want.compare(t, got)
}

// winogradWanted holds exact results, and sums of the magnitudes of their terms.
type winogradWanted struct{ out, dx, dfilter, outScale, dxScale, dfilterScale []float64 }

func (r *winogradWanted) compute(s *Conv2DShape, images int, filter, x, dout []float32) {
	for _, a := range []struct {
		to   []*[]float64
		like []float32
	}{{[]*[]float64{&r.out, &r.outScale}, dout}, {[]*[]float64{&r.dx, &r.dxScale}, x}, {[]*[]float64{&r.dfilter, &r.dfilterScale}, filter}} {
		for _, to := range a.to {
			*to = make([]float64, len(a.like))
		}
	}
	add := func(sum, scale []float64, at int, product float64) {
		sum[at] += product
		scale[at] += math.Abs(product)
	}
	eachProduct(s, images, func(o, i, w int) {
		add(r.out, r.outScale, o, float64(x[i])*float64(filter[w]))
		add(r.dx, r.dxScale, i, float64(dout[o])*float64(filter[w]))
		add(r.dfilter, r.dfilterScale, w, float64(dout[o])*float64(x[i]))
	})
	// One transform makes all taps of a pair of channels. So each tap has the rounding errors of the largest, also a tap that meets only padding.
	for taps := range slices.Chunk(r.dfilterScale, 9) {
		most := slices.Max(taps)
		for i := range taps {
			taps[i] = most
		}
	}
}

func (r *winogradWanted) compare(t reporter, got winogradRun) {
	t.Helper()
	for _, a := range []struct {
		what        string
		got         []float32
		want, scale []float64
	}{{"out", got.out, r.out, r.outScale}, {"dx", got.dx, r.dx, r.dxScale}, {"dfilter", got.dfilter, r.dfilter, r.dfilterScale}} {
		for i := range a.got {
			near(t, a.got[i], a.want[i], 4+a.scale[i], "%s[%d]", a.what, i)
		}
	}
}

// Large tiles are for images that they fit, and for filters that stay in the cache.
func TestNewWinogradChoosesTiles(t *testing.T) {
	for _, c := range []struct{ channels, filters, extent, tile int }{
		{16, 16, 32, 4}, {64, 64, 8, 4}, {64, 64, 7, 4}, {64, 64, 6, 2}, {64, 64, 2, 2}, {256, 256, 8, 4}, {512, 512, 4, 2}, {3, 64, 32, 0}, {64, 7, 32, 0},
	} {
		s, tile := imageConvolution(c.channels, c.filters, c.extent), 0
		if w := NewWinograd(&s); w != nil {
			tile = w.size.outputs
		}
		if tile != c.tile {
			t.Errorf("%d channels, %d filters, %d x %d: tiles of %d outputs a side, want %d", c.channels, c.filters, c.extent, c.extent, tile, c.tile)
		}
	}
}

// An image has the same bits in every batch, and a range of a filter's gradient those of the whole.
func TestWinogradInPartsHasTheSameBits(t *testing.T) {
	eachSize(t, winogradInParts)
}

func winogradInParts(t *testing.T, size *winogradSize) {
	rapid.Check(t, func(t *rapid.T) {
		s, images := drawWinograd(t)
		if !s.isWinograd() || images == 0 {
			return
		}
		filter, x := noise[float32](1, s.OutChannels*s.patch()), noise[float32](2, images*s.InChannels*s.InHeight*s.InWidth)
		dout := noise[float32](3, images*s.OutChannels*s.pixels())
		same := func(x []float32) []float32 { return x }
		whole := runWinograd(&s, size, images, 0, filter, x, dout, same)
		in, out := len(x)/images, len(dout)/images
		for i := range images {
			alone := runWinograd(&s, size, 1, 0, filter, x[i*in:][:in], dout[i*out:][:out], same)
			sameBits(t, alone.out, whole.out[i*out:][:out])
			sameBits(t, alone.dx, whole.dx[i*in:][:in])
		}
		w, parts := newWinograd(&s, size), noise[float32](4, len(filter))
		at, memory := cutAt(t, s.InChannels, "channel"), noise[float32](5, w.SumWorkspace())
		w.FilterGrad(at[1], at[2], images, parts, x, dout, memory)
		w.FilterGrad(at[0], at[1], images, parts, x, dout, memory)
		sameBits(t, parts, whole.dfilter)
	})
}

// Transforms have the bits of portable Go, and convolutions those of every vector instruction.
func TestWinogradLevels(t *testing.T) {
	eachSize(t, winogradLevels)
}

func winogradLevels(t *testing.T, size *winogradSize) {
	lines := map[string]winogradLine{"input": size.input, "output": size.output, "outputGrad": size.outputGrad, "filter": size.filter, "filterGrad": size.filterGrad}
	for name, l := range lines {
		for _, width := range []int{24, 32} { // an odd and an even number of vectors
			t.Run(fmt.Sprint(name, width), func(t *testing.T) {
				const tiles = 3
				in := noise[float32](7, 6*6*tiles*width+100)
				forward := [3]int{6*tiles*width + 5, tiles*width + 3, width}
				backward := [3]int{-forward[0], -forward[1], width}
				for _, c := range []struct {
					at   int
					step [3]int
				}{{0, forward}, {(l.columns - 1) * (forward[0] + forward[1]), backward}} {
					run := func(level simd.Level) []float32 {
						defer simd.Use(level)()
						out := make([]float32, 36*tiles*width)
						transform(l, out, in, c.at, [3]int{l.rows * tiles * width, tiles * width, width}, c.step, tiles, width)
						return out
					}
					want := run(simd.None)
					for level := simd.AVX2; level <= simd.Available(); level++ {
						sameBits(t, run(level), want)
					}
				}
			})
		}
	}
	if simd.Available() != simd.AVX512 {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		s, images := drawWinograd(t)
		if !s.isWinograd() {
			return
		}
		filter, x := noise[float32](1, s.OutChannels*s.patch()), noise[float32](2, images*s.InChannels*s.InHeight*s.InWidth)
		dout := noise[float32](3, images*s.OutChannels*s.pixels())
		run := func(level simd.Level) winogradRun {
			defer simd.Use(level)()
			return runWinograd(&s, size, images, 0, filter, x, dout, func(x []float32) []float32 { return x })
		}
		narrow, wide := run(simd.AVX2), run(simd.AVX512)
		sameBits(t, narrow.out, wide.out)
		sameBits(t, narrow.dx, wide.dx)
		sameBits(t, narrow.dfilter, wide.dfilter)
	})
}

// The error of an output is at most a few times that of the direct way: the root of the mean square, and the largest, in units of the largest output.
func TestWinogradError(t *testing.T) {
	for name, c := range map[string]struct{ mean, largest float64 }{"2x2": {3, 4}, "4x4": {8, 12}} {
		t.Run(name, func(t *testing.T) { winogradError(t, winogradSizes[name], c.mean, c.largest) })
	}
}

func winogradError(t *testing.T, size *winogradSize, mostMean, mostLargest float64) {
	if simd.Available() == simd.None {
		t.Skip("needs vector instructions, with which both ways fuse the same sums")
	}
	for _, c := range []struct{ channels, extent int }{{16, 32}, {64, 8}, {256, 4}} {
		s, images := imageConvolution(c.channels, 16, c.extent), 2
		filter, x := noise[float32](1, s.OutChannels*s.patch()), noise[float32](2, images*s.InChannels*s.InHeight*s.InWidth)
		dout := noise[float32](3, images*s.OutChannels*s.pixels())
		var want winogradWanted
		want.compute(&s, images, filter, x, dout)
		short := runWinograd(&s, size, images, 0, filter, x, dout, func(x []float32) []float32 { return x })
		direct := winogradRun{make([]float32, len(dout)), make([]float32, len(x)), make([]float32, len(filter))}
		memory := make([]float32, Conv2DWorkspace(&s))
		Conv2D(&s, images, direct.out, x, filter, nil, nil, memory)
		Conv2DInputGrad(&s, images, direct.dx, filter, dout, memory)
		Conv2DFilterGrad(&s, wholeFilter(&s), images, direct.dfilter, x, dout, memory)
		for _, r := range []struct {
			what          string
			short, direct []float32
			want          []float64
		}{{"out", short.out, direct.out, want.out}, {"dx", short.dx, direct.dx, want.dx}, {"dfilter", short.dfilter, direct.dfilter, want.dfilter}} {
			mean, largest := errorsOf(r.short, r.want)
			meanDirect, largestDirect := errorsOf(r.direct, r.want)
			t.Logf("%d channels, %s: mean error %.2g (direct %.2g), largest %.2g (%.2g)", c.channels, r.what, mean, meanDirect, largest, largestDirect)
			if mean > mostMean*meanDirect || largest > mostLargest*largestDirect {
				t.Errorf("%d channels, %s: errors of %g and %g, direct %g and %g", c.channels, r.what, mean, largest, meanDirect, largestDirect)
			}
		}
	}
}

// errorsOf returns the root of the mean square of the errors, and the largest, in units of the largest element.
func errorsOf(got []float32, want []float64) (mean, largest float64) {
	scale := 0.0
	for i, w := range want {
		e := math.Abs(float64(got[i]) - w)
		mean, largest, scale = mean+e*e, max(largest, e), max(scale, math.Abs(w))
	}
	return math.Sqrt(mean/float64(len(want))) / scale, largest / scale
}

// imageConvolution is a convolution of 3 x 3 with a padding of 1.
func imageConvolution(channels, filters, extent int) Conv2DShape {
	return Conv2DShape{InChannels: channels, InHeight: extent, InWidth: extent, OutChannels: filters, OutHeight: extent, OutWidth: extent,
		KernelHeight: 3, KernelWidth: 3, StrideHeight: 1, StrideWidth: 1, DilationHeight: 1, DilationWidth: 1, Groups: 1,
		PaddingTop: 1, PaddingBottom: 1, PaddingLeft: 1, PaddingRight: 1}
}

func BenchmarkWinograd(b *testing.B) {
	for _, c := range []struct{ channels, filters, extent int }{{16, 16, 32}, {32, 32, 16}, {64, 64, 8}, {64, 64, 32}, {128, 128, 16}, {256, 256, 8}, {512, 512, 4}, {512, 512, 2}, {3, 64, 32}, {8, 8, 32}} {
		s, images := imageConvolution(c.channels, c.filters, c.extent), 32
		x, out := noise[float32](1, images*c.channels*c.extent*c.extent), noise[float32](2, images*c.filters*c.extent*c.extent)
		filter := noise[float32](3, c.channels*c.filters*9)
		run := func(way, what string, f func()) {
			b.Run(fmt.Sprintf("%dto%d,%dx%d/%s/%s", c.channels, c.filters, c.extent, c.extent, what, way), func(b *testing.B) {
				benchmarkFlops[float32](b, 2*9*float64(images*c.channels*c.filters*c.extent*c.extent), f)
			})
		}
		memory, block := make([]float32, Conv2DWorkspace(&s)), wholeFilter(&s)
		run("direct", "forward", func() { Conv2D(&s, images, out, x, filter, nil, nil, memory) })
		run("direct", "inputGrad", func() { Conv2DInputGrad(&s, images, x, filter, out, memory) })
		run("direct", "filterGrad", func() { Conv2DFilterGrad(&s, block, images, filter, x, out, memory) })
		for name, size := range winogradSizes {
			w := newWinograd(&s, size)
			g := w.InputGrad()
			memory := make([]float32, max(w.ConvolveWorkspace(), g.ConvolveWorkspace(), w.SumWorkspace(), w.FilterWorkspace(), g.FilterWorkspace()))
			transformed := make([]float32, max(w.FilterLength(), g.FilterLength()))
			run(name, "forward", func() {
				w.TransformFilter(transformed, filter, 0, c.channels, memory)
				w.Convolve(images, out, x, transformed, nil, nil, memory)
			})
			run(name, "inputGrad", func() {
				g.TransformFilter(transformed, filter, 0, c.filters, memory)
				g.Convolve(images, x, out, transformed, nil, nil, memory)
			})
			run(name, "filterGrad", func() { w.FilterGrad(0, c.channels, images, filter, x, out, memory) })
		}
	}
}
