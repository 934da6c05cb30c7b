package detection

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// mostSamples bounds the points of a bin along an axis, so that a huge box from outside costs no more than bounded time.
const mostSamples = 1 << 10

func init() {
	opkit.Register(ops.Def{
		Type: "roi_align",
		Doc: "Makes maps of one size from regions of feature maps (He et al. 2017, Mask R-CNN): divides each region into pooled_height x pooled_width bins, and takes the mean of " +
			"points that lie evenly in each. A point is interpolated linearly between four places; beyond the border by more than one place it is 0.",
		Inputs:  regionInputs,
		Outputs: []ops.Slot{{Name: "Out", Doc: "[R, C, pooled_height, pooled_width]"}},
		Attrs: append(append([]ops.Attr{}, regionAttrs...),
			ops.Attr{Name: "sampling_ratio", Doc: "points of a bin along each axis; up to 0: as many as places", Default: int32(-1)},
			ops.Attr{Name: "aligned", Doc: "whether places are taken as centres of pixels, and a region may be less than a place", Default: false}),
		Infer: func(s *ops.Shapes) error {
			dims, err := inferRegions(s)
			if err != nil {
				return err
			}
			if s.Int("sampling_ratio") > mostSamples {
				return opkit.BadAttr(s, "sampling_ratio", "up to %d", mostSamples)
			}
			s.Set("Out", s.In("X").DType, dims...)
			s.ShareLoD("Out", "ROIs")
			return nil
		},
		Bind:      opkit.BindFloats("X", bindRoiAlign[float32], bindRoiAlign[float64]),
		MixesRows: bothDivided("X", "ROIs"),
		RowsOf:    "ROIs",
	}, opkit.Gradient{
		Doc:    "each element of dOut gives dX, at the four places around each point of its bin, its share by weight.",
		Inputs: []string{"X", "ROIs", "RoisNum"},
		Wrt:    []string{"X"},
		Bind:   opkit.BindFloats("X", bindRoiAlignGrad[float32], bindRoiAlignGrad[float64]),
	})
}

// A region is divided into bins, each with rows x columns points.
type region struct {
	left, top, binWidth, binHeight float64
	rows, columns                  int
}

// An aligner divides regions into bins and points.
type aligner struct {
	*regions
	aligned bool
	samples int // points of a bin along each axis; below 1 for as many as places
}

func newAligner(b *ops.Binding, x, out []int64) *aligner {
	return &aligner{newRegions(b, x, out), b.Bool("aligned"), int(b.Int("sampling_ratio"))}
}

// region returns the region of a box, in places of a map.
func (r *aligner) region(box [4]float64) (g region) {
	shift := 0.0
	if r.aligned {
		shift = 0.5
	}
	g.left, g.top = box[0]*r.scale-shift, box[1]*r.scale-shift
	width, height := box[2]*r.scale-shift-g.left, box[3]*r.scale-shift-g.top
	if !r.aligned {
		width, height = max(width, 1), max(height, 1)
	}
	g.binWidth, g.binHeight = width/float64(r.pooledWidth), height/float64(r.pooledHeight)
	g.rows, g.columns = r.samples, r.samples
	if r.samples < 1 {
		g.rows, g.columns = points(g.binHeight), points(g.binWidth)
	}
	return g
}

// points returns how many points lie in a bin of such an extent.
func points(extent float64) int {
	if !(extent < mostSamples) {
		return mostSamples
	}
	return max(int(math.Ceil(extent)), 0)
}

// taps are the two places along an axis that a point lies between, and their weights.
type taps struct {
	low, high             int
	lowWeight, highWeight float64
}

// tapsAt returns the places around a coordinate on an axis of so many; ok is false far beyond the border.
func tapsAt(v float64, places int) (t taps, ok bool) {
	if !(v >= -1 && v <= float64(places)) {
		return t, false
	}
	v = max(v, 0)
	t.low = int(v)
	if t.low >= places-1 {
		t.low, t.high = places-1, places-1
		return taps{t.low, t.high, 1, 0}, true
	}
	t.high, t.highWeight = t.low+1, v-float64(t.low)
	t.lowWeight = 1 - t.highWeight
	return t, true
}

// point returns the places around point k of a bin, down and to the right; ok is false for one beyond the map.
func (r *regions) point(g *region, place, k int) (y, x taps, ok bool) {
	row, column := place/r.pooledWidth, place%r.pooledWidth
	y, inside := tapsAt(g.top+float64(row)*g.binHeight+(float64(k/g.columns)+0.5)*g.binHeight/float64(g.rows), r.height)
	x, ok = tapsAt(g.left+float64(column)*g.binWidth+(float64(k%g.columns)+0.5)*g.binWidth/float64(g.columns), r.width)
	return y, x, ok && inside
}

func boxAt[T tensor.Float](boxes []T, i int) [4]float64 {
	return [4]float64{float64(boxes[4*i]), float64(boxes[4*i+1]), float64(boxes[4*i+2]), float64(boxes[4*i+3])}
}

func bindRoiAlign[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("Out")
	r := newAligner(b, x.Dims(), out.Dims())
	plane, pooled := r.height*r.width, r.pooledHeight*r.pooledWidth
	return b.Loops(r.locate(), ops.Loop{N: r.count, Apart: true, Reads: []string{"X", "ROIs"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			g := r.region(boxAt(tensor.Data[T](r.boxes), i))
			maps := tensor.Data[T](x)[int(r.image.Int32s()[i])*r.channels*plane:][:r.channels*plane]
			made := tensor.Data[T](out)[i*r.channels*pooled:][:r.channels*pooled]
			clear(made)
			count := float64(max(g.rows*g.columns, 1))
			for place := range pooled {
				for k := range g.rows * g.columns {
					ty, tx, ok := r.point(&g, place, k)
					if !ok {
						continue
					}
					upper, lower := ty.low*r.width, ty.high*r.width
					a, b := T(ty.lowWeight*tx.lowWeight/count), T(ty.lowWeight*tx.highWeight/count)
					c, d := T(ty.highWeight*tx.lowWeight/count), T(ty.highWeight*tx.highWeight/count)
					for channel := range r.channels {
						in := maps[channel*plane:][:plane]
						made[channel*pooled+place] += T(a*in[upper+tx.low]) + T(b*in[upper+tx.high]) + T(c*in[lower+tx.low]) + T(d*in[lower+tx.high])
					}
				}
			}
		}
		return nil
	}})
}

func bindRoiAlignGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	r := newAligner(b, dx.Dims(), dout.Dims())
	plane, pooled := r.height*r.width, r.pooledHeight*r.pooledWidth
	return b.Loops(r.locate(), ops.Loop{N: r.channels, Apart: true, Reads: []string{"ROIs", "Out@GRAD"}, Run: func(_, from, to int) error {
		gradient, boxes := tensor.Data[T](dx), tensor.Data[T](r.boxes)
		for i := range r.images {
			clear(gradient[(i*r.channels+from)*plane:][:(to-from)*plane])
		}
		for i := range r.count {
			g := r.region(boxAt(boxes, i))
			count := float64(max(g.rows*g.columns, 1))
			for place := range pooled {
				for k := range g.rows * g.columns {
					ty, tx, ok := r.point(&g, place, k)
					if !ok {
						continue
					}
					upper, lower := ty.low*r.width, ty.high*r.width
					for channel := from; channel < to; channel++ {
						to := gradient[(int(r.image.Int32s()[i])*r.channels+channel)*plane:][:plane]
						share := float64(tensor.Data[T](dout)[(i*r.channels+channel)*pooled+place]) / count
						to[upper+tx.low] += T(share * ty.lowWeight * tx.lowWeight)
						to[upper+tx.high] += T(share * ty.lowWeight * tx.highWeight)
						to[lower+tx.low] += T(share * ty.highWeight * tx.lowWeight)
						to[lower+tx.high] += T(share * ty.highWeight * tx.highWeight)
					}
				}
			}
		}
		return nil
	}})
}
