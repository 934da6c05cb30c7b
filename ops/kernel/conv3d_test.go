package kernel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

func drawVolumes(t *rapid.T) (s Conv3DShape, volumes int) {
	draw := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	s.Groups = draw("groups", 1, 2)
	s.InChannels, s.OutChannels = s.Groups*draw("in channels", 1, 2), s.Groups*draw("out channels", 1, 3)
	for i := range 3 {
		s.In[i], s.Kernel[i], s.Stride[i], s.Dilation[i] = draw("extent", 1, 5), draw("kernel", 1, 3), draw("stride", 1, 2), draw("dilation", 1, 2)
		s.Before[i], s.After[i] = draw("before", 0, 2), draw("after", 0, 2)
		s.Out[i] = ConvOutSize(s.In[i], s.Kernel[i], s.Stride[i], s.Before[i]+s.After[i], s.Dilation[i])
	}
	return s, draw("volumes", 0, 2)
}

// eachVolumeProduct calls f with the places of every input element and filter element that are multiplied, and of their output element.
func eachVolumeProduct(s *Conv3DShape, volumes int, f func(out, x, filter int)) {
	inGroup, outGroup := s.InChannels/s.Groups, s.OutChannels/s.Groups
	at := func(extents [3]int, p [3]int) int { return (p[0]*extents[1]+p[1])*extents[2] + p[2] }
	each := func(extents [3]int, f func(p [3]int)) {
		for z := range extents[0] {
			for y := range extents[1] {
				for x := range extents[2] {
					f([3]int{z, y, x})
				}
			}
		}
	}
	for n := range volumes {
		for oc := range s.OutChannels {
			for ic := range inGroup {
				each(s.Out, func(o [3]int) {
					each(s.Kernel, func(k [3]int) {
						var p [3]int
						for i := range p {
							p[i] = o[i]*s.Stride[i] + k[i]*s.Dilation[i] - s.Before[i]
							if p[i] < 0 || p[i] >= s.In[i] {
								return
							}
						}
						f((n*s.OutChannels+oc)*volume(s.Out)+at(s.Out, o),
							(n*s.InChannels+oc/outGroup*inGroup+ic)*volume(s.In)+at(s.In, p),
							(oc*inGroup+ic)*volume(s.Kernel)+at(s.Kernel, k))
					})
				})
			}
		}
	}
}

func testVolumes[T tensor.Float](t *rapid.T) {
	s, volumes := drawVolumes(t)
	seed := rapid.Int64().Draw(t, "seed")
	x, filter := noise[T](seed, volumes*s.InChannels*volume(s.In)), noise[T](seed+1, s.OutChannels*s.patch())
	dout := noise[T](seed+2, volumes*s.OutChannels*volume(s.Out))
	wantOut, wantDx, wantDfilter := make([]float64, len(dout)), make([]float64, len(x)), make([]float64, len(filter))
	eachVolumeProduct(&s, volumes, func(o, i, w int) {
		wantOut[o] += float64(x[i]) * float64(filter[w])
		wantDx[i] += float64(dout[o]) * float64(filter[w])
		wantDfilter[w] += float64(dout[o]) * float64(x[i])
	})
	workspace := noise[T](3, Conv3DWorkspace(&s)) // holds arbitrary values
	out, dx, dfilter := noise[T](4, len(dout)), noise[T](5, len(x)), noise[T](6, len(filter))
	Conv3D(&s, volumes, out, x, filter, nil, nil, workspace)
	Conv3DInputGrad(&s, volumes, dx, filter, dout, workspace)
	channels := s.InChannels / s.Groups
	Conv3DFilterGrad(&s, 0, channels, volumes, dfilter, x, dout, workspace)
	nearAll(t, "out", out, wantOut)
	nearAll(t, "dx", dx, wantDx)
	for w := range dfilter {
		near(t, dfilter[w], wantDfilter[w], float64(1+volumes*volume(s.Out)), "dfilter[%d]", w)
	}
	parts := noise[T](7, len(filter))
	for c := range channels {
		Conv3DFilterGrad(&s, c, c+1, volumes, parts, x, dout, workspace)
	}
	sameBits(t, parts, dfilter)
}

func TestConvolutionOfVolumes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		t.Run("float32", func(t *testing.T) { rapid.Check(t, testVolumes[float32]) })
		t.Run("float64", func(t *testing.T) { rapid.Check(t, testVolumes[float64]) })
	})
}
