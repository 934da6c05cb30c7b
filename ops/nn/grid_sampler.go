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
			"left or above, to 1. Between pixels it interpolates linearly, or takes the nearest.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, C, H, W]"}, {Name: "Grid", Doc: "[N, height, width, 2]"}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, C, height, width]"}},
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
			"from -1 to 1.",
		Inputs: []ops.Slot{{Name: "Theta", Doc: "float [N, 2, 3]"}, {Name: "OutputShape", Dispensable: true,
			Doc: "numbers in place of output_shape"}},
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, H, W, 2]"}},
		Attrs: []ops.Attr{{Name: "output_shape", Doc: "N, C, H and W of the images that the grid is for; N and C are not read", Default: []int32{}, Tensor: "OutputShape"},
			alignCornersAttr},
		Infer:     inferAffineGrid,
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("Theta", bindAffineGrid[float32], bindAffineGrid[float64]),
		MixesRows: opkit.RowsOnlyIn("Theta"),
	}, opkit.Gradient{
		Doc:    "dTheta[n] sums dOutput times (x, y, 1) over all pixels.",
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
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	x, grid := s.In("X").Dims, s.In("Grid").Dims
	if len(grid) != 4 || !opkit.Agree(grid[0], x[0]) || !opkit.Agree(grid[3], 2) {
		return s.Errorf("Grid", "dims [%d, height, width, 2]", x[0])
	}
	if x[2] == 0 || x[3] == 0 {
		return s.Errorf("X", "images with pixels")
	}
	s.Set("Output", s.In("X").DType, x[0], x[1], grid[1], grid[2])
	return nil
}

// A sampler knows how coordinates of a grid are places of an image.
type sampler struct {
	channels, height, width, places int
	align, nearest, border, mirror  bool
}

func newSampler(b *ops.Binding, x, grid []int64) *sampler {
	return &sampler{
		channels: int(x[1]), height: int(x[2]), width: int(x[3]), places: opkit.Count(grid[1:3]),
		align: b.Bool("align_corners"), nearest: b.Str("mode") == "nearest", border: b.Str("padding_mode") == "border", mirror: b.Str("padding_mode") == "reflection",
	}
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

// corner is one of the four pixels around a place: its index in a plane, -1 beyond the image, its weight, and how the weight changes with x and y.
func (s *sampler) corner(x, y axisPlace, k int) (at int, weight, byX, byY float64) {
	column, row := x.first+k%2, y.first+k/2
	wx, wy, dx, dy := 1-x.share, 1-y.share, -x.slope, -y.slope
	if k%2 == 1 {
		wx, dx = x.share, x.slope
	}
	if k/2 == 1 {
		wy, dy = y.share, y.slope
	}
	if at = row*s.width + column; column < 0 || column >= s.width || row < 0 || row >= s.height {
		at = -1
	}
	return at, wx * wy, dx * wy, wx * dy
}

func bindGridSampler[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, grid, out := b.In("X"), b.In("Grid"), b.Out("Output")
	s, n := newSampler(b, x.Dims(), grid.Dims()), int(x.Dims()[0])
	plane := s.height * s.width
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			image, at := tensor.Data[T](x)[i*s.channels*plane:][:s.channels*plane], tensor.Data[T](grid)[i*s.places*2:][:s.places*2]
			made := tensor.Data[T](out)[i*s.channels*s.places:][:s.channels*s.places]
			clear(made)
			for p := range s.places {
				px, py := s.axis(float64(at[2*p]), s.width), s.axis(float64(at[2*p+1]), s.height)
				for k := range 4 {
					pixel, weight, _, _ := s.corner(px, py, k)
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
	plane := s.height * s.width
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			image, at := tensor.Data[T](x)[i*s.channels*plane:][:s.channels*plane], tensor.Data[T](grid)[i*s.places*2:][:s.places*2]
			g := tensor.Data[T](dout)[i*s.channels*s.places:][:s.channels*s.places]
			if dx != nil {
				clear(tensor.Data[T](dx)[i*s.channels*plane:][:s.channels*plane])
			}
			for p := range s.places {
				px, py := s.axis(float64(at[2*p]), s.width), s.axis(float64(at[2*p+1]), s.height)
				byX, byY := 0.0, 0.0
				for k := range 4 {
					pixel, weight, slopeX, slopeY := s.corner(px, py, k)
					if pixel < 0 {
						continue
					}
					for c := range s.channels {
						share := float64(g[c*s.places+p])
						if dx != nil {
							tensor.Data[T](dx)[(i*s.channels+c)*plane+pixel] += T(share * weight)
						}
						byX += share * slopeX * float64(image[c*plane+pixel])
						byY += share * slopeY * float64(image[c*plane+pixel])
					}
				}
				if dgrid != nil {
					tensor.Data[T](dgrid)[(i*s.places+p)*2], tensor.Data[T](dgrid)[(i*s.places+p)*2+1] = T(byX), T(byY)
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
	theta := s.In("Theta").Dims
	if !ops.Compatible(theta, []int64{program.Unknown, 2, 3}) {
		return s.Errorf("Theta", "dims [N, 2, 3]")
	}
	shape := s.Ints("output_shape")
	if len(shape) != 4 {
		return opkit.BadAttr(s, "output_shape", "four numbers")
	}
	dims := []int64{theta[0], shape[2], shape[3], 2}
	for i, extent := range dims[1:3] {
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
	dims, align := out.Dims(), b.Bool("align_corners")
	n, height, width := int(dims[0]), int(dims[1]), int(dims[2])
	return b.Loops(ops.Loop{N: n, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			t, grid := tensor.Data[T](theta)[6*i:][:6], tensor.Data[T](out)[i*height*width*2:][:height*width*2]
			for p := range height * width {
				x, y := T(coordinate(p%width, width, align)), T(coordinate(p/width, height, align))
				grid[2*p], grid[2*p+1] = T(t[0]*x)+T(t[1]*y)+t[2], T(t[3]*x)+T(t[4]*y)+t[5]
			}
		}
		return nil
	}})
}

func bindAffineGridGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dtheta := b.In("Output@GRAD"), b.Out("Theta@GRAD")
	dims, align := dout.Dims(), b.Bool("align_corners")
	n, height, width := int(dims[0]), int(dims[1]), int(dims[2])
	return b.Loops(ops.Loop{N: n, Reads: []string{"Output@GRAD"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			g := tensor.Data[T](dout)[i*height*width*2:][:height*width*2]
			var sums [6]float64
			for p := range height * width {
				x, y := coordinate(p%width, width, align), coordinate(p/width, height, align)
				for k, v := range g[2*p:][:2] {
					sums[3*k] += float64(v) * x
					sums[3*k+1] += float64(v) * y
					sums[3*k+2] += float64(v)
				}
			}
			for k, v := range sums {
				tensor.Data[T](dtheta)[6*i+k] = T(v)
			}
		}
		return nil
	}})
}
