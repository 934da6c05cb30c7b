package kernel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

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
			MaxPool2D(&s, planes, out, nil, x)
			MaxPool2DGrad(&s, planes, dx, x, nil, dout)
			return append([]float32(nil), out...), append([]float32(nil), dx...)
		}
		out, dx := pool()
		defer simd.Use(simd.None)()
		wantOut, wantDx := pool()
		sameBits(t, out, wantOut)
		sameBits(t, dx, wantDx)
	})
}
