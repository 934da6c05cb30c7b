package kernel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// cutAt draws where to cut [0, n) in two.
func cutAt(t *rapid.T, n int, label string) [3]int {
	return [3]int{0, rapid.IntRange(0, n).Draw(t, label), n}
}

func testFilterGradBlocks[T tensor.Float](t *rapid.T) {
	s, images := drawConvolution(t)
	in, out := images*s.InChannels*s.InHeight*s.InWidth, images*s.OutChannels*s.pixels()
	x, dout := noise[T](1, in), noise[T](2, out)
	workspace := noise[T](3, Conv2DWorkspace(&s))
	size := s.OutChannels * s.patch()
	whole, blocks := noise[T](4, size), noise[T](5, size)
	Conv2DFilterGrad(&s, wholeFilter(&s), images, whole, x, dout, workspace)
	channels, filters := cutAt(t, s.InChannels/s.Groups, "channel"), cutAt(t, s.OutChannels/s.Groups, "filter")
	for c := range 2 {
		for f := range 2 {
			Conv2DFilterGrad(&s, &Conv2DBlock{FirstChannel: channels[c], LastChannel: channels[c+1], FirstFilter: filters[f], LastFilter: filters[f+1]},
				images, blocks, x, dout, workspace)
		}
	}
	sameBits(t, blocks, whole)
}

// The choice must differ between shapes, or the tests of equal bits would compare one way with itself.
func TestFilterGradientIsComputedBothWays(t *testing.T) {
	for _, c := range []struct {
		filters, patch int
		want, byRow    bool
	}{{50, 500, false, false}, {20, 25, false, false}, {64, 576, true, false}, {32, 288, true, false}, {16, 9, true, true}, {2, 9, false, false}} {
		if got := exchangesFilter(c.filters, c.patch, false); got != c.want {
			t.Errorf("%d filters of %d: exchanged is %v, want %v", c.filters, c.patch, got, c.want)
		}
		if got := exchangesFilter(c.filters, c.patch, true); got != c.byRow {
			t.Errorf("%d filters of %d by row: exchanged is %v, want %v", c.filters, c.patch, got, c.byRow)
		}
	}
}

func TestFilterGradientInBlocksHasTheSameBits(t *testing.T) {
	t.Run("float32", func(t *testing.T) { rapid.Check(t, testFilterGradBlocks[float32]) })
	t.Run("float64", func(t *testing.T) { rapid.Check(t, testFilterGradBlocks[float64]) })
}

func TestSumOfChannelsInPartsHasTheSameBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pre, n, post := rapid.IntRange(0, 5).Draw(t, "pre"), rapid.IntRange(1, 40).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "post")
		dout := noise[float32](1, pre*n*post)
		whole, parts := noise[float32](2, n), noise[float32](3, n)
		AddGrad(nil, whole, nil, nil, nil, dout, pre, n, post)
		at := cutAt(t, n, "channel")
		AddGradChannels(parts, dout, pre, n, post, at[1], at[2])
		AddGradChannels(parts, dout, pre, n, post, at[0], at[1])
		sameBits(t, parts, whole)
	})
}

func TestFilterGradientBlockAllocatesNothing(t *testing.T) {
	s := mnistConvolution()
	x, dout := noise[float32](1, s.InChannels*s.InHeight*s.InWidth), noise[float32](2, s.OutChannels*s.pixels())
	dfilter, workspace := make([]float32, s.OutChannels*s.patch()), make([]float32, Conv2DWorkspace(&s))
	block := wholeFilter(&s)
	noAllocation(t, func() {
		Conv2DFilterGrad(&s, block, 1, dfilter, x, dout, workspace)
	})
}
