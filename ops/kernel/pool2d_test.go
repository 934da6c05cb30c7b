package kernel

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"pgregory.net/rapid"
)

func drawPooling(t *rapid.T) (s Pool2DShape, planes int) {
	draw := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	s = Pool2DShape{
		InHeight: draw("height", 1, 6), InWidth: draw("width", 1, 6),
		KernelHeight: draw("kernel height", 1, 4), KernelWidth: draw("kernel width", 1, 4),
		StrideHeight: draw("stride height", 1, 3), StrideWidth: draw("stride width", 1, 3),
	}
	s.PaddingTop, s.PaddingLeft = draw("padding top", 0, s.KernelHeight-1), draw("padding left", 0, s.KernelWidth-1)
	below, right := draw("padding bottom", 0, s.KernelHeight-1), draw("padding right", 0, s.KernelWidth-1)
	ceilMode := rapid.Bool().Draw(t, "ceil mode")
	s.OutHeight = PoolOutSize(s.InHeight, s.KernelHeight, s.StrideHeight, s.PaddingTop+below, ceilMode)
	s.OutWidth = PoolOutSize(s.InWidth, s.KernelWidth, s.StrideWidth, s.PaddingLeft+right, ceilMode)
	return s, draw("planes", 0, 3)
}

// behind lists the places of x that every output element depends on.
func behind(s *Pool2DShape, planes int) [][]int {
	var all [][]int
	for p := range planes {
		for oy := range s.OutHeight {
			for ox := range s.OutWidth {
				places := []int{}
				for ky := range s.KernelHeight {
					for kx := range s.KernelWidth {
						y, x := oy*s.StrideHeight+ky-s.PaddingTop, ox*s.StrideWidth+kx-s.PaddingLeft
						if y >= 0 && y < s.InHeight && x >= 0 && x < s.InWidth {
							places = append(places, (p*s.InHeight+y)*s.InWidth+x)
						}
					}
				}
				all = append(all, places)
			}
		}
	}
	return all
}

func TestPooling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, planes := drawPooling(t)
		places := behind(&s, planes)
		seed := rapid.Int64().Draw(t, "seed")
		size := s.InHeight * s.InWidth
		x, dout := noise[float32](seed, planes*size), noise[float32](seed+1, len(places))
		out, dx, argmax := make([]float32, len(places)), noise[float32](2, len(x)), make([]int32, len(places))

		volumes := s.volumes()
		MaxPool3DPlaces(&volumes, planes, out, argmax, x)
		wantDx := make([]float64, len(x))
		for o, window := range places {
			best := -1
			for _, i := range window {
				if best < 0 || x[i] > x[best] {
					best = i
				}
			}
			if best < 0 {
				if out[o] != 0 || argmax[o] != -1 {
					t.Fatalf("an empty window gives %v at %d", out[o], argmax[o])
				}
				continue
			}
			if out[o] != x[best] || int(argmax[o]) != best%size {
				t.Fatalf("out[%d] = %v at %d, want %v at %d", o, out[o], argmax[o], x[best], best%size)
			}
			wantDx[best] += float64(dout[o])
		}
		MaxPool3DGrad(&volumes, planes, dx, nil, argmax, dout)
		nearAll(t, "max dx", dx, wantDx)
		again := noise[float32](3, len(x))
		MaxPool2DGrad(&s, planes, again, x, dout)
		sameBits(t, again, dx)
		lines := make([]float32, len(out))
		MaxPool2D(&s, planes, lines, x, make([]float32, s.InWidth))
		sameBits(t, lines, out)

		for _, exclusive := range []bool{true, false} {
			AvgPool3D(&volumes, planes, exclusive, out, x)
			AvgPool3DGrad(&volumes, planes, exclusive, dx, dout)
			wantDx := make([]float64, len(x))
			for o, window := range places {
				divisor := float64(s.KernelHeight * s.KernelWidth)
				if exclusive {
					divisor = math.Max(float64(len(window)), 1)
				}
				want := 0.0
				for _, i := range window {
					want += float64(x[i]) / divisor
					wantDx[i] += float64(dout[o]) / divisor
				}
				near(t, out[o], want, 1, "average[%d]", o)
			}
			nearAll(t, "average dx", dx, wantDx)
		}
	})
}

// Adaptive windows of a row of five, for three places: they overlap, and a mean divides by what is in the window.
func TestAdaptivePooling(t *testing.T) {
	s := Pool2DShape{InHeight: 1, InWidth: 5, OutHeight: 1, OutWidth: 3, Adaptive: true}
	out, dx := make([]float64, 3), make([]float64, 5)
	x := []float64{3, 1, 2, 8, 4}
	volumes := s.volumes()
	AvgPool3D(&volumes, 1, false, out, x)
	sameBits(t, out, []float64{2, 11.0 / 3, 6})
	AvgPool3DGrad(&volumes, 1, false, dx, []float64{2, 3, 4})
	sameBits(t, dx, []float64{1, 2, 1, 3, 2})
	MaxPool2D(&s, 1, out, x, make([]float64, 5))
	sameBits(t, out, []float64{3, 8, 8})
	MaxPool2DGrad(&s, 1, dx, x, []float64{2, 3, 4})
	sameBits(t, dx, []float64{2, 0, 0, 7, 0})
}

func TestMaxPoolKeepsNaN(t *testing.T) {
	s := Pool2DShape{InHeight: 1, InWidth: 3, OutHeight: 1, OutWidth: 1, KernelHeight: 1, KernelWidth: 3, StrideHeight: 1, StrideWidth: 1}
	out, argmax := make([]float64, 1), make([]int32, 1)
	volumes := s.volumes()
	if MaxPool3DPlaces(&volumes, 1, out, argmax, []float64{1, math.NaN(), 5}); !math.IsNaN(out[0]) || argmax[0] != 1 {
		t.Errorf("%v at %d, want NaN at 1", out[0], argmax[0])
	}
}

func TestPoolOutSize(t *testing.T) {
	for _, c := range []struct {
		in, kernel, stride, padding int
		ceilMode                    bool
		want                        int
	}{{24, 2, 2, 0, false, 12}, {5, 2, 2, 0, false, 2}, {5, 2, 2, 0, true, 3}, {24, 2, 2, 0, true, 12}, {112, 3, 2, 2, false, 56},
		{1, 2, 2, 0, true, 0}, {1, 2, 3, 0, false, 0}} {
		if got := PoolOutSize(c.in, c.kernel, c.stride, c.padding, c.ceilMode); got != c.want {
			t.Errorf("%+v gives %d", c, got)
		}
	}
}

// Windows of 2 x 2 have loops of their own, which must choose the same elements, NaNs and ties included.
func TestMaxPoolOfPairs(t *testing.T) {
	g := newGuards(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		s := Pool2DShape{OutHeight: rapid.IntRange(1, 4).Draw(t, "height"), OutWidth: rapid.IntRange(1, 21).Draw(t, "width"),
			KernelHeight: 2, KernelWidth: 2, StrideHeight: 2, StrideWidth: 2}
		s.InHeight = 2*s.OutHeight + rapid.IntRange(-1, 1).Draw(t, "extra row")
		s.InWidth = 2*s.OutWidth + rapid.IntRange(-1, 1).Draw(t, "extra column")
		const planes = 2
		count := planes * s.OutHeight * s.OutWidth
		x := guarded(g, 0, drawSpecial(t, planes*s.InHeight*s.InWidth))
		dout := guarded(g, 1, drawSpecial(t, count))
		pool := func() (out, dx []float32) {
			out, dx = guarded(g, 2, noise[float32](2, count)), guarded(g, 3, noise[float32](3, len(x)))
			MaxPool2D(&s, planes, out, x, make([]float32, s.InWidth))
			MaxPool2DGrad(&s, planes, dx, x, dout)
			return append([]float32(nil), out...), append([]float32(nil), dx...)
		}
		out, dx := pool()
		defer simd.Use(simd.None)()
		wantOut, wantDx := pool()
		sameBits(t, out, wantOut)
		sameBits(t, dx, wantDx)
	})
}
