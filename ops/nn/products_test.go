package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func pair(opType, name string, x, y, want *tensor.Tensor) Case {
	c := Case{Type: opType, Name: name, Inputs: slots{"X": One(x), "Y": One(y)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

func tensorProduct(name string, x, y, weight, bias, want *tensor.Tensor) Case {
	c := pair("bilinear_tensor_product", name, x, y, want)
	c.Inputs["Weight"] = One(weight)
	if bias != nil {
		c.Inputs["Bias"] = One(bias)
	}
	return c
}

var productCases = []Case{
	tensorProduct("", Floats(dims{1, 2}, 1, 2), Floats(dims{1, 2}, 3, 4), Floats(dims{2, 2, 2}, 1, 0, 0, 1, 0, 1, 1, 0), Floats(dims{1, 2}, 100, 200), Floats(dims{1, 2}, 111, 210)),
	tensorProduct("rows", Spread(1, 20, 3), Spread(2, 20, 2), Spread(3, 4, 3, 2), nil, nil),
	pair("fsp", "", Floats(dims{1, 1, 1, 2}, 1, 2), Floats(dims{1, 2, 1, 2}, 3, 4, 5, 6), Floats(dims{1, 1, 2}, 5.5, 8.5)),
	pair("fsp", "images", Spread(1, 2, 3, 2, 2), Spread(2, 2, 2, 2, 2), nil),
	pair("conv_shift", "", Floats(dims{1, 4}, 1, 2, 3, 4), Floats(dims{1, 3}, 1, 10, 100), Floats(dims{1, 4}, 214, 321, 432, 143)),
	pair("conv_shift", "rows", Spread(1, 2, 5), Spread(2, 2, 5), nil),
}

func TestProductsThatDoNotFit(t *testing.T) {
	for _, c := range []Case{
		tensorProduct("weight", Spread(1, 1, 2), Spread(1, 1, 2), Spread(1, 1, 2, 3), nil, nil),
		tensorProduct("bias", Spread(1, 1, 2), Spread(1, 1, 2), Spread(1, 3, 2, 2), Spread(1, 1, 2), nil),
		pair("fsp", "sizes", Spread(1, 1, 1, 2, 2), Spread(1, 1, 1, 2, 3), nil),
		pair("conv_shift", "even", Spread(1, 1, 4), Spread(1, 1, 2), nil),
		pair("conv_shift", "long", Spread(1, 1, 2), Spread(1, 1, 3), nil),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.ShapeMismatch {
			t.Errorf("%v: %v", c, err)
		}
	}
}
