package detection

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "roi_perspective_transform",
		Doc: "Turns quadrilaterals of feature maps into rectangles (Sun et al. 2018, TextNet): element (y, x) of a region is the map at (u/w, v/w), interpolated linearly, with (u, v, w) = M*(x, y, 1), where M takes the " +
			"corners of a rectangle of transformed_height rows to those of the region. The rectangle has as many columns as keep its shape, at most transformed_width. What lies beyond the region or the map is 0.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [N, C, H, W], feature maps"},
			{Name: "ROIs", Doc: "[R, 8]: x and y of the corners, from the upper left one clockwise, in pixels of the images; those of an image are a sequence"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[R, C, transformed_height, transformed_width]"},
			{Name: "Mask", Doc: "int32 [R, 1, transformed_height, transformed_width]: 1 within the region and the map", Dispensable: true},
			{Name: "TransformMatrix", Doc: "[R, 9]: M, row by row", Dispensable: true},
			{Name: "Out2InIdx", Doc: "int32 [1]: nothing; Fluid fills it on GPUs", Dispensable: true, Intermediate: true},
			{Name: "Out2InWeights", Doc: "[1]: nothing; Fluid fills it on GPUs", Dispensable: true, Intermediate: true}},
		Attrs: []ops.Attr{{Name: "spatial_scale", Doc: "size of X over that of the images, above 0", Default: float32(1)},
			{Name: "transformed_height", Doc: "height of what a region becomes, at least 1", Default: int32(1)},
			{Name: "transformed_width", Doc: "width of what a region becomes, at least 1", Default: int32(1)}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("ROIs"); err != nil {
				return err
			}
			if !ops.Compatible(s.In("ROIs").Dims, []int64{program.Unknown, 8}) {
				return s.Errorf("ROIs", "corners [rows, 8]")
			}
			dims, err := inferRegionsOf(s, "X", "transformed")
			if err != nil {
				return err
			}
			dtype := s.In("X").DType
			s.Set("Out", dtype, dims...)
			s.Set("Mask", tensor.Int32, dims[0], 1, dims[2], dims[3])
			s.Set("TransformMatrix", dtype, dims[0], 9)
			s.Set("Out2InIdx", tensor.Int32, 1)
			s.Set("Out2InWeights", dtype, 1)
			for _, slot := range []string{"Out", "Mask", "TransformMatrix"} {
				s.ShareLoD(slot, "ROIs")
			}
			return nil
		},
		Bind:      opkit.BindFloats("X", bindPerspective[float32], bindPerspective[float64]),
		MixesRows: bothDivided("X", "ROIs"),
	}, opkit.Gradient{
		Doc: "each element of dOut gives its share by weight to the four places that it was interpolated between.", Inputs: []string{"X", "ROIs"}, From: []string{"Out"}, Wrt: []string{"X"},
		Bind: opkit.BindFloats("X", bindPerspectiveGrad[float32], bindPerspectiveGrad[float64]),
	})
}

// nearly is how far apart coordinates are that count as equal.
const nearly = 1e-4

func same(a, b float64) bool    { return math.Abs(a-b) < nearly }
func atLeast(a, b float64) bool { return a > b || same(a, b) }

// A quad is a region with four corners, in places of the map, and the matrix that takes places of the result to places of the map.
type quad struct {
	x, y   [4]float64
	matrix [9]float64
}

// quadOf reads region i and solves for its matrix.
func quadOf[T tensor.Float](r *regions, i int) (q quad) {
	corners := tensor.Data[T](r.boxes)[8*i:][:8]
	for k := range 4 {
		q.x[k], q.y[k] = float64(corners[2*k])*r.scale, float64(corners[2*k+1])*r.scale
	}
	side := func(a, b int) float64 { return math.Hypot(q.x[a]-q.x[b], q.y[a]-q.y[b]) }
	rows := float64(max(2, r.pooledHeight) - 1)
	columns := math.Round((side(0, 1)+side(2, 3))*rows/(side(1, 2)+side(3, 0))) + 1
	columns = max(2, min(columns, float64(r.pooledWidth))) - 1
	if math.IsNaN(columns) {
		columns = 1
	}
	dx1, dx2, dx3 := q.x[1]-q.x[2], q.x[3]-q.x[2], q.x[0]-q.x[1]+q.x[2]-q.x[3]
	dy1, dy2, dy3 := q.y[1]-q.y[2], q.y[3]-q.y[2], q.y[0]-q.y[1]+q.y[2]-q.y[3]
	area := dx1*dy2 - dx2*dy1 + 1e-5
	across, down := (dx3*dy2-dx2*dy3)/area/columns, (dx1*dy3-dx3*dy1)/area/rows
	q.matrix = [9]float64{(q.x[1]-q.x[0])/columns + across*q.x[1], (q.x[3]-q.x[0])/rows + down*q.x[3], q.x[0],
		(q.y[1]-q.y[0])/columns + across*q.y[1], (q.y[3]-q.y[0])/rows + down*q.y[3], q.y[0], across, down, 1}
	return q
}

// holds reports whether a point lies in the region or on its border.
func (q *quad) holds(x, y float64) bool {
	crossed := 0
	for i := range 4 {
		k := (i + 1) % 4
		left, right, top, bottom := min(q.x[i], q.x[k]), max(q.x[i], q.x[k]), min(q.y[i], q.y[k]), max(q.y[i], q.y[k])
		if same(q.y[i], q.y[k]) {
			if same(y, q.y[i]) && same(y, q.y[k]) && atLeast(x, left) && atLeast(right, x) {
				return true
			}
			continue
		}
		at := (y-q.y[i])*(q.x[k]-q.x[i])/(q.y[k]-q.y[i]) + q.x[i]
		if same(at, x) && atLeast(y, top) && atLeast(bottom, y) {
			return true
		}
		if !atLeast(top, y) && !(y-bottom > nearly) && at-x > nearly {
			crossed++
		}
	}
	return crossed%2 == 1
}

// at returns the places of the map around place (row, column) of the result; ok is false for one that is 0.
func (q *quad) at(r *regions, row, column int) (y, x taps, ok bool) {
	m := &q.matrix
	c, l := float64(column), float64(row)
	w := m[6]*c + m[7]*l + m[8]
	u, v := (m[0]*c+m[1]*l+m[2])/w, (m[3]*c+m[4]*l+m[5])/w
	if !q.holds(u, v) || !(u > -0.5+nearly && u < float64(r.width)-0.5-nearly && v > -0.5+nearly && v < float64(r.height)-0.5-nearly) {
		return y, x, false
	}
	limit := func(v float64) float64 {
		if v < nearly {
			return 0
		}
		return v
	}
	y, _ = tapsAt(limit(v), r.height)
	x, _ = tapsAt(limit(u), r.width)
	return y, x, true
}

func bindPerspective[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, mask, matrix := b.In("X"), b.Out("Out"), b.Out("Mask"), b.Out("TransformMatrix")
	r := newRegions(b, x.Dims(), []int64{b.In("ROIs").Dims()[0], x.Dims()[1], b.Int("transformed_height"), b.Int("transformed_width")})
	made, plane := r.pooledHeight*r.pooledWidth, r.height*r.width
	loops := []ops.Loop{r.locate(), {N: r.count, Apart: true, Writes: []string{"Out", "Mask", "TransformMatrix"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			q := quadOf[T](r, i)
			for k, v := range q.matrix {
				if matrix != nil {
					tensor.Data[T](matrix)[9*i+k] = T(v)
				}
			}
			maps := tensor.Data[T](x)[int(r.image.Int32s()[i])*r.channels*plane:][:r.channels*plane]
			for place := range made {
				ty, tx, ok := q.at(r, place/r.pooledWidth, place%r.pooledWidth)
				if mask != nil {
					mask.Int32s()[i*made+place] = 0
					if ok {
						mask.Int32s()[i*made+place] = 1
					}
				}
				upper, lower := ty.low*r.width, ty.high*r.width
				for c := 0; out != nil && c < r.channels; c++ {
					value, in := 0.0, maps[c*plane:][:plane]
					if ok {
						value = ty.lowWeight*(tx.lowWeight*float64(in[upper+tx.low])+tx.highWeight*float64(in[upper+tx.high])) +
							ty.highWeight*(tx.lowWeight*float64(in[lower+tx.low])+tx.highWeight*float64(in[lower+tx.high]))
					}
					tensor.Data[T](out)[(i*r.channels+c)*made+place] = T(value)
				}
			}
		}
		return nil
	}}}
	if index, weights := b.Out("Out2InIdx"), b.Out("Out2InWeights"); index != nil || weights != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Reads: []string{}, Writes: []string{"Out2InIdx", "Out2InWeights"}, Run: func(int, int, int) error {
			if index != nil {
				clear(index.Int32s())
			}
			if weights != nil {
				clear(tensor.Data[T](weights))
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}

func bindPerspectiveGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	r := newRegions(b, dx.Dims(), dout.Dims())
	made, plane := r.pooledHeight*r.pooledWidth, r.height*r.width
	return b.Loops(r.locate(), ops.Loop{N: r.channels, Apart: true, Reads: []string{"ROIs", "Out@GRAD"}, Run: func(_, from, to int) error {
		all := tensor.Data[T](dx)
		for image := range r.images {
			clear(all[(image*r.channels+from)*plane:][:(to-from)*plane])
		}
		for i := range r.count {
			q := quadOf[T](r, i)
			for place := range made {
				ty, tx, ok := q.at(r, place/r.pooledWidth, place%r.pooledWidth)
				if !ok {
					continue
				}
				upper, lower := ty.low*r.width, ty.high*r.width
				for c := from; c < to; c++ {
					g, to := float64(tensor.Data[T](dout)[(i*r.channels+c)*made+place]), all[(int(r.image.Int32s()[i])*r.channels+c)*plane:][:plane]
					to[upper+tx.low] += T(g * ty.lowWeight * tx.lowWeight)
					to[upper+tx.high] += T(g * ty.lowWeight * tx.highWeight)
					to[lower+tx.low] += T(g * ty.highWeight * tx.lowWeight)
					to[lower+tx.high] += T(g * ty.highWeight * tx.highWeight)
				}
			}
		}
		return nil
	}})
}
