package nn

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// alignCornersAttr says what the coordinates -1 and 1 mean.
var alignCornersAttr = ops.Attr{Name: "align_corners", Doc: "whether -1 and 1 are the centres of the border pixels, and not the borders of the image", Default: true}

func init() {
	opkit.Register(ops.Def{
		Type: "grid_sampler",
		Doc: "Takes pixels of images from places that a grid names (Jaderberg et al. 2015): Output[n, c, i, j] is X[n, c] at the place (x, y) = Grid[n, i, j]. Coordinates go from -1, " +
			"left or above, to 1. Between pixels it interpolates linearly, or takes the nearest. Of volumes it takes elements at places (x, y, z).",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, C, H, W], or [N, C, D, H, W]"}, {Name: "Grid", Doc: "[N, height, width, 2], or [N, depth, height, width, 3]"}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, C, height, width], or [N, C, depth, height, width]"}},
		Attrs: []ops.Attr{alignCornersAttr,
			{Name: "mode", Doc: "bilinear or nearest", Default: "bilinear", Check: named("mode", "bilinear", "nearest")},
			{Name: "padding_mode", Doc: "what lies beyond the border: zeros, border for the pixels of the border, or reflection for the image as in a mirror at each border", Default: "zeros",
				Check: named("padding_mode", "zeros", "border", "reflection")}},
		Infer:     inferGridSampler,
		Cost:      opkit.PerElement(12),
		Bind:      opkit.BindFloats("X", bindGridSampler[float32], bindGridSampler[float64]),
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return !divided("X") || !divided("Grid") },
	}, opkit.Gradient{
		Doc:    "dX sums, for each pixel, dOutput of what is computed from it, by weight; dGrid is dOutput times the slope of X along each axis.",
		Inputs: []string{"X", "Grid"},
		Wrt:    []string{"X", "Grid"},
		Cost:   opkit.PerElement(24),
		Bind:   opkit.BindFloats("X", bindGridSamplerGrad[float32], bindGridSamplerGrad[float64]),
	})

	opkit.Register(ops.Def{
		Type: "affine_grid",
		Doc: "Makes the grid of an affine map for grid_sampler (Jaderberg et al. 2015): Output[n, i, j] = Theta[n] times (x, y, 1), where x and y are the coordinates of pixel (i, j), " +
			"from -1 to 1. For volumes it is Theta[n] times (x, y, z, 1).",
		Inputs: []ops.Slot{{Name: "Theta", Doc: "float [N, 2, 3], or [N, 3, 4]"}, {Name: "OutputShape", Dispensable: true,
			Doc: "numbers in place of output_shape"}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, H, W, 2], or [N, D, H, W, 3]"}},
		Attrs: []ops.Attr{{Name: "output_shape", Doc: "N, C, H and W of the images that the grid is for, or N, C, D, H and W; N and C are not read", Default: []int32{}, Tensor: "OutputShape"},
			alignCornersAttr},
		Infer:     inferAffineGrid,
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("Theta", bindAffineGrid[float32], bindAffineGrid[float64]),
		MixesRows: opkit.RowsOnlyIn("Theta"),
	}, opkit.Gradient{
		Doc:    "dTheta[n] sums dOutput times (x, y, 1), or (x, y, z, 1), over all pixels.",
		Inputs: []string{"Theta"},
		Wrt:    []string{"Theta"},
		Cost:   opkit.PerElement(6),
		Bind:   opkit.BindFloats("Theta", bindAffineGridGrad[float32], bindAffineGridGrad[float64]),
	})
}

// named makes the check of an attribute of few words.
func named(name string, values ...string) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, _ := op.Str(name); slices.Contains(values, v) {
			return nil
		}
		return errors.New(strings.Join(values, " or "))
	}
}

func inferGridSampler(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Grid"); err != nil {
		return err
	}
	x, grid := s.In("X").Dims, s.In("Grid").Dims
	if len(x) != 4 && len(x) != 5 {
		return s.Errorf("X", "images of rank 4, or volumes of rank 5")
	}
	axes := len(x) - 2
	if len(grid) != len(x) || !opkit.Agree(grid[0], x[0]) || !opkit.Agree(grid[1+axes], int64(axes)) {
		return s.Errorf("Grid", "dims [%d, height, width, 2], or [%d, depth, height, width, 3] for volumes", x[0], x[0])
	}
	if slices.Contains(x[2:], 0) {
		return s.Errorf("X", "images with pixels")
	}
	s.Set("Output", s.In("X").DType, slices.Concat(x[:2], grid[1:1+axes])...)
	return nil
}

// A sampler knows how coordinates of a grid are places of an image, or of a volume.
type sampler struct {
	channels, places               int
	extents                        [3]int // of width, height and depth, which is 1 for an image
	axes                           int    // 2 or 3: the coordinates of a place
	align, nearest, border, mirror bool
}

func newSampler(b *ops.Binding, x, grid []int64) *sampler {
	s := &sampler{
		channels: int(x[1]), extents: [3]int{1, 1, 1}, axes: len(x) - 2, places: opkit.Count(grid[1 : len(grid)-1]),
		align: b.Bool("align_corners"), nearest: b.Str("mode") == "nearest", border: b.Str("padding_mode") == "border", mirror: b.Str("padding_mode") == "reflection",
	}
	for axis := range s.axes {
		s.extents[axis] = int(x[len(x)-1-axis])
	}
	return s
}

// plane is the number of elements of a channel.
func (s *sampler) plane() int { return s.extents[0] * s.extents[1] * s.extents[2] }

// corners is the number of elements around a place.
func (s *sampler) corners() int { return 1 << s.axes }

// at returns a place of the grid along each axis.
func at[T tensor.Float](s *sampler, coordinates []T) (p [3]axisPlace) {
	for axis, g := range coordinates[:s.axes] {
		p[axis] = s.axis(float64(g), s.extents[axis])
	}
	return p
}

// An axisPlace is a coordinate as two neighbouring pixels of an axis, the share of the second, and the change of the share with the coordinate.
type axisPlace struct {
	first        int
	share, slope float64
}

func (s *sampler) axis(g float64, extent int) (p axisPlace) {
	v := ((g+1)*float64(extent) - 1) / 2
	p.slope = float64(extent) / 2
	if s.align {
		v, p.slope = (g+1)/2*float64(extent-1), float64(extent-1)/2
	}
	if s.mirror {
		turned := 1.0
		v, turned = mirrored(v, extent, s.align)
		p.slope *= turned
	}
	if (s.border || s.mirror) && !(v >= 0 && v <= float64(extent-1)) {
		v, p.slope = max(min(v, float64(extent-1)), 0), 0
	}
	if s.nearest {
		v, p.slope = math.RoundToEven(v), 0
	}
	if !(v > -2 && v < float64(extent)+1) { // also NaN: nothing of the image is near
		v = -2
	}
	floor := math.Floor(v)
	p.first, p.share = int(floor), v-floor
	return p
}

// mirrored returns the place in the image that a mirror at each border shows at v: at the centres of the border pixels, or with align false at the borders of the image, where
// the result may be half a pixel beyond the last centre. turned is -1 where it moves against v, else 1.
func mirrored(v float64, extent int, align bool) (at, turned float64) {
	low, span := -0.5, float64(extent)
	if align {
		low, span = 0, float64(extent-1)
	}
	if span == 0 {
		return 0, 0
	}
	turned = 1
	if v -= low; v < 0 {
		v, turned = -v, -1
	}
	if v -= 2 * span * math.Floor(v/(2*span)); v > span {
		v, turned = 2*span-v, -turned
	}
	return v + low, turned
}

// corner is one of the four pixels around a place, or of eight elements of a volume: its index in a channel, -1 beyond the image, its weight, and how the weight changes with x, y and z.
func (s *sampler) corner(p *[3]axisPlace, k int) (at int, weight float64, by [3]float64) {
	var w, d [3]float64
	inside, step := true, 1
	for axis := range w {
		place := p[axis].first + k>>axis&1
		w[axis], d[axis] = 1-p[axis].share, -p[axis].slope
		if k>>axis&1 == 1 {
			w[axis], d[axis] = p[axis].share, p[axis].slope
		}
		inside = inside && place >= 0 && place < s.extents[axis]
		at += place * step
		step *= s.extents[axis]
	}
	if !inside {
		at = -1
	}
	return at, w[0] * w[1] * w[2], [3]float64{d[0] * w[1] * w[2], w[0] * d[1] * w[2], w[0] * w[1] * d[2]}
}

func bindGridSampler[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, grid, out := b.In("X"), b.In("Grid"), b.Out("Output")
	s, n := newSampler(b, x.Dims(), grid.Dims()), int(x.Dims()[0])
	plane := s.plane()
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			image, coordinates := tensor.Data[T](x)[i*s.channels*plane:][:s.channels*plane], tensor.Data[T](grid)[i*s.places*s.axes:][:s.places*s.axes]
			made := tensor.Data[T](out)[i*s.channels*s.places:][:s.channels*s.places]
			clear(made)
			for p := range s.places {
				place := at(s, coordinates[p*s.axes:])
				for k := range s.corners() {
					pixel, weight, _ := s.corner(&place, k)
					if pixel < 0 || weight == 0 {
						continue
					}
					for c := range s.channels {
						made[c*s.places+p] += T(image[c*plane+pixel] * T(weight))
					}
				}
			}
		}
		return nil
	}})
}

func bindGridSamplerGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, grid, dout, dx, dgrid := b.In("X"), b.In("Grid"), b.In("Output@GRAD"), b.Out("X@GRAD"), b.Out("Grid@GRAD")
	s, n := newSampler(b, x.Dims(), grid.Dims()), int(x.Dims()[0])
	plane := s.plane()
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			image, coordinates := tensor.Data[T](x)[i*s.channels*plane:][:s.channels*plane], tensor.Data[T](grid)[i*s.places*s.axes:][:s.places*s.axes]
			g := tensor.Data[T](dout)[i*s.channels*s.places:][:s.channels*s.places]
			if dx != nil {
				clear(tensor.Data[T](dx)[i*s.channels*plane:][:s.channels*plane])
			}
			for p := range s.places {
				place := at(s, coordinates[p*s.axes:])
				var sums [3]float64
				for k := range s.corners() {
					pixel, weight, by := s.corner(&place, k)
					if pixel < 0 {
						continue
					}
					for c := range s.channels {
						share := float64(g[c*s.places+p])
						if dx != nil {
							tensor.Data[T](dx)[(i*s.channels+c)*plane+pixel] += T(share * weight)
						}
						for axis := range s.axes {
							sums[axis] += share * by[axis] * float64(image[c*plane+pixel])
						}
					}
				}
				if dgrid != nil {
					for axis := range s.axes {
						tensor.Data[T](dgrid)[(i*s.places+p)*s.axes+axis] = T(sums[axis])
					}
				}
			}
		}
		return nil
	}})
}

func inferAffineGrid(s *ops.Shapes) error {
	if err := s.IsFloat("Theta"); err != nil {
		return err
	}
	theta, shape := s.In("Theta").Dims, s.Ints("output_shape")
	if len(shape) != 4 && len(shape) != 5 {
		return opkit.BadAttr(s, "output_shape", "four numbers, or five for volumes")
	}
	axes := int64(len(shape) - 2)
	if !ops.Compatible(theta, []int64{program.Unknown, axes, axes + 1}) {
		return s.Errorf("Theta", "dims [N, %d, %d]", axes, axes+1)
	}
	dims := slices.Concat(theta[:1], shape[2:], []int64{axes})
	for i, extent := range dims[1 : 1+axes] {
		switch {
		case extent == ops.Open:
			dims[1+i] = program.Unknown
		case extent < 1 || extent > math.MaxInt32:
			return opkit.BadAttr(s, "output_shape", "extents in [1, %d]", math.MaxInt32)
		}
	}
	s.Set("Output", s.In("Theta").DType, dims...)
	return nil
}

// A gridShape has the extents of a grid: of width, height and depth, which is 1 for images.
type gridShape struct {
	axes    int // 2 or 3
	extents [3]int
	align   bool
}

func gridShapeOf(b *ops.Binding, dims []int64) gridShape {
	g := gridShape{axes: len(dims) - 2, extents: [3]int{1, 1, 1}, align: b.Bool("align_corners")}
	for axis := range g.axes {
		g.extents[axis] = int(dims[len(dims)-2-axis])
	}
	return g
}

// places is the number of places.
func (g *gridShape) places() int { return g.extents[0] * g.extents[1] * g.extents[2] }

// coordinates are x, y and z of place p, from -1 to 1.
func (g *gridShape) coordinates(p int) (c [3]float64) {
	for axis, extent := range g.extents {
		c[axis] = coordinate(p%extent, extent, g.align)
		p /= extent
	}
	return c
}

// coordinate returns that of pixel i of so many.
func coordinate(i, extent int, align bool) float64 {
	switch {
	case !align:
		return float64(2*i+1)/float64(extent) - 1
	case extent == 1:
		return -1
	}
	return 2*float64(i)/float64(extent-1) - 1
}

func bindAffineGrid[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	theta, out := b.In("Theta"), b.Out("Output")
	shape, n := gridShapeOf(b, out.Dims()), int(out.Dims()[0])
	axes, places := shape.axes, shape.places()
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			t, grid := tensor.Data[T](theta)[axes*(axes+1)*i:][:axes*(axes+1)], tensor.Data[T](out)[i*places*axes:][:places*axes]
			for p := range places {
				c := shape.coordinates(p)
				for row := range axes {
					of, sum := t[row*(axes+1):][:axes+1], T(0)
					for axis := range axes {
						sum += T(of[axis] * T(c[axis]))
					}
					grid[p*axes+row] = sum + of[axes]
				}
			}
		}
		return nil
	}})
}

func bindAffineGridGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dtheta := b.In("Output@GRAD"), b.Out("Theta@GRAD")
	shape, n := gridShapeOf(b, dout.Dims()), int(dout.Dims()[0])
	axes, places := shape.axes, shape.places()
	return b.Loops(ops.Loop{N: n, Reads: []string{"Output@GRAD"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			g := tensor.Data[T](dout)[i*places*axes:][:places*axes]
			var sums [12]float64
			for p := range places {
				c := shape.coordinates(p)
				for row, v := range g[p*axes:][:axes] {
					for axis := range axes {
						sums[row*(axes+1)+axis] += float64(v) * c[axis]
					}
					sums[row*(axes+1)+axes] += float64(v)
				}
			}
			for k, v := range sums[:axes*(axes+1)] {
				tensor.Data[T](dtheta)[axes*(axes+1)*i+k] = T(v)
			}
		}
		return nil
	}})
}
