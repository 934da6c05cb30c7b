package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func gridded(name string, a attrs, x, grid, want *tensor.Tensor) Case {
	c := Case{Type: "grid_sampler", Name: name, Attrs: a, Inputs: slots{"X": One(x), "Grid": One(grid)}}
	if want != nil {
		c.Want = slots{"Output": One(want)}
	}
	return c
}

// atKinks leaves out the gradient of a grid whose places are pixels, where it has no slope.
func atKinks(c Case) Case {
	c.Constant = []string{"Grid"}
	return c
}

func affine(name string, a attrs, theta, want *tensor.Tensor) Case {
	c := Case{Type: "affine_grid", Name: name, Attrs: a, Inputs: slots{"Theta": One(theta)}}
	if want != nil {
		c.Want = slots{"Output": One(want)}
	}
	return c
}

var (
	nearestNoGrid = attrs{"mode": "nearest"}

	gridCases = []Case{
		// The corners, the middle, and a place half a pixel beyond the border.
		atKinks(gridded("", nil, numbered(2), Floats(dims{1, 1, 4, 2}, -1, -1, 1, 1, 0, 0, 2, 1), Floats(dims{1, 1, 1, 4}, 1, 4, 2.5, 2))),
		atKinks(gridded("border", attrs{"padding_mode": "border"}, numbered(2), Floats(dims{1, 1, 2, 2}, 2, 1, -3, 0), Floats(dims{1, 1, 1, 2}, 4, 2))),
		atKinks(gridded("borders of pixels", attrs{"align_corners": false}, numbered(2), Floats(dims{1, 1, 3, 2}, -0.5, -0.5, 0, 0, 0.5, 0.5), Floats(dims{1, 1, 1, 3}, 1, 2.5, 4))),
		gridded("images", nil, Spread(1, 2, 2, 3, 4), Spread(3, 2, 2, 2, 2), nil),
		gridded("images, border", attrs{"padding_mode": "border", "align_corners": false}, Spread(1, 2, 2, 3, 3), Spread(5, 2, 1, 3, 2), nil),
		atKinks(gridded("mirror", attrs{"padding_mode": "reflection"}, numbered(3), Floats(dims{1, 1, 4, 2}, 2, 0, -2, 0, 3, 0, 0, -5), Floats(dims{1, 1, 1, 4}, 5, 5, 4, 2))),
		atKinks(gridded("mirror at the borders of pixels", attrs{"padding_mode": "reflection", "align_corners": false}, numbered(3), Floats(dims{1, 1, 3, 2}, 1.5, 0, 2, 0, -1.25, 0),
			Floats(dims{1, 1, 1, 3}, 5.75, 5, 4))),
		gridded("images, mirror", attrs{"padding_mode": "reflection"}, Spread(1, 2, 2, 3, 3), Spread(5, 2, 1, 3, 2), nil),
		gridded("images, mirror at the borders of pixels", attrs{"padding_mode": "reflection", "align_corners": false}, Spread(1, 2, 2, 3, 3), Spread(3, 2, 2, 2, 2), nil),
		atKinks(gridded("mirror of one pixel", attrs{"padding_mode": "reflection"}, Floats(dims{1, 1, 1, 1}, 7), Floats(dims{1, 1, 1, 2}, 3, -2), Floats(dims{1, 1, 1, 1}, 7))),
		func() Case {
			c := gridded("nearest", nearestNoGrid, numbered(3), Floats(dims{1, 1, 3, 2}, -0.8, 0.9, 0.1, 0.1, 3, 0), Floats(dims{1, 1, 1, 3}, 7, 5, 0))
			c.NoFloat32 = true
			return c
		}(),
		affine("", attrs{"output_shape": []int32{1, 1, 2, 2}}, Floats(dims{1, 2, 3}, 1, 0, 0, 0, 2, 1), Floats(dims{1, 2, 2, 2}, -1, -1, 1, -1, -1, 3, 1, 3)),
		affine("borders of pixels", attrs{"output_shape": []int32{1, 1, 1, 2}, "align_corners": false}, Floats(dims{1, 2, 3}, 1, 0, 0, 0, 1, 0),
			Floats(dims{1, 1, 2, 2}, -0.5, 0, 0.5, 0)),
		// The middle of a volume, its last element, and half of an element in front of it.
		atKinks(gridded("volume", nil, counted(1, 1, 2, 2, 2), Floats(dims{1, 1, 1, 3, 3}, 0, 0, 0, 1, 1, 1, -1, -1, -2), Floats(dims{1, 1, 1, 1, 3}, 3.5, 7, 0))),
		gridded("volumes", nil, Spread(1, 2, 2, 3, 2, 3), Spread(3, 2, 2, 1, 2, 3), nil),
		gridded("volumes, border", attrs{"padding_mode": "border", "align_corners": false}, Spread(1, 1, 2, 2, 3, 3), Spread(5, 1, 1, 2, 2, 3), nil),
		gridded("volumes, mirror", attrs{"padding_mode": "reflection"}, Spread(1, 1, 2, 3, 3, 2), Spread(5, 1, 1, 2, 2, 3), nil),
		func() Case {
			c := gridded("nearest of a volume", nearestNoGrid, counted(1, 1, 2, 2, 2), Floats(dims{1, 1, 1, 2, 3}, 0.8, -0.9, 0.3, -0.7, 0.6, -0.2), Floats(dims{1, 1, 1, 1, 2}, 5, 2))
			c.NoFloat32 = true
			return c
		}(),
		affine("volume", attrs{"output_shape": []int32{1, 1, 2, 1, 2}, "align_corners": false}, Floats(dims{1, 3, 4}, 1, 0, 0, 0, 0, 1, 0, 2, 0, 0, 4, 1),
			Floats(dims{1, 2, 1, 2, 3}, -0.5, 2, -1, 0.5, 2, -1, -0.5, 2, 3, 0.5, 2, 3)),
		affine("volumes", attrs{"output_shape": []int32{2, 1, 3, 2, 2}}, Spread(1, 2, 3, 4), nil),
		affine("several", attrs{"output_shape": []int32{2, 1, 3, 2}}, Spread(1, 2, 2, 3), nil),
	}
)

func TestGridsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{gridded("another mode", attrs{"padding_mode": "wrap"}, numbered(2), Floats(dims{1, 1, 1, 2}, 0, 0), nil), fault.InvalidArgument},
		{gridded("mode", attrs{"mode": "bicubic"}, numbered(2), Floats(dims{1, 1, 1, 2}, 0, 0), nil), fault.InvalidArgument},
		{gridded("coordinates", nil, numbered(2), Floats(dims{1, 1, 1, 3}, 0, 0, 0), nil), fault.ShapeMismatch},
		{affine("shape", attrs{"output_shape": []int32{1, 2}}, Spread(1, 1, 2, 3), nil), fault.InvalidArgument},
		{affine("theta", attrs{"output_shape": []int32{1, 1, 2, 2}}, Spread(1, 1, 3, 3), nil), fault.ShapeMismatch},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
