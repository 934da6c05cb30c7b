package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func transposed(opType, name string, a attrs, input, filter, bias, want *tensor.Tensor) Case {
	c := convolution(name, a, input, filter, bias, want)
	c.Type = opType
	return c
}

// each pixel adds itself times 1 2 3 4 to a window of 2 x 2
var oneToFour = Floats(dims{1, 1, 2, 2}, 1, 2, 3, 4)

var convCases = []Case{
	transposed("conv2d_transpose", "", nil, numbered(2), oneToFour, nil, Floats(dims{1, 1, 3, 3}, 1, 4, 4, 6, 20, 16, 9, 24, 16)),
	transposed("conv2d_transpose", "strides", attrs{"strides": byTwo}, numbered(2), oneToFour, Floats(dims{1}, 10),
		Floats(dims{1, 1, 4, 4}, 11, 12, 12, 14, 13, 14, 16, 18, 13, 16, 14, 18, 19, 22, 22, 26)),
	transposed("conv2d_transpose", "output size", attrs{"strides": byTwo, "paddings": []int32{1, 1}, "output_size": []int32{3, 2}}, numbered(2), oneToFour, nil,
		Floats(dims{1, 1, 3, 2}, 4, 6, 6, 4, 12, 12)),
	transposed("conv2d_transpose", "output padding", attrs{"output_padding": []int32{1, 0}, "dilations": byTwo}, numbered(1), oneToFour, nil,
		Floats(dims{1, 1, 4, 3}, 1, 0, 2, 0, 0, 0, 3, 0, 4, 0, 0, 0)),
	transposed("conv2d_transpose", "pointwise, output padding", attrs{"output_padding": []int32{1, 0}, "dilations": byTwo}, numbered(2), Floats(dims{1, 1, 1, 1}, 3), nil,
		Floats(dims{1, 1, 3, 2}, 3, 6, 9, 12, 0, 0)),
	transposed("conv2d_transpose", "groups, four paddings", attrs{"groups": int32(2), "paddings": []int32{1, 0, 0, 2}, "strides": []int32{2, 1}}, Spread(1, 2, 4, 2, 3),
		Spread(3, 4, 3, 2, 3), Spread(4, 6), nil),
	transposed("conv2d_transpose", "channels last", attrs{"data_format": "NHWC", "padding_algorithm": "SAME", "strides": byTwo}, Spread(1, 2, 2, 3, 2), Spread(3, 2, 3, 2, 2),
		Spread(4, 3), nil),
	transposed("depthwise_conv2d_transpose", "", attrs{"groups": int32(2)}, Floats(dims{1, 2, 1, 2}, 1, 2, 3, 4), Floats(dims{2, 1, 1, 2}, 1, 10, -1, 2), nil,
		Floats(dims{1, 2, 1, 3}, 1, 12, 20, -3, 2, 8)),
	transposed("conv3d", "", nil, Floats(dims{1, 1, 2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), Floats(dims{1, 1, 2, 1, 2}, 1, 0, 0, 1), Floats(dims{1}, 100),
		Floats(dims{1, 1, 1, 2, 1}, 107, 111)),
	transposed("conv3d", "groups, strides", attrs{"groups": int32(2), "paddings": []int32{1, 0, 0, 1, 2, 1}, "strides": []int32{1, 2, 1}, "dilations": []int32{2, 1, 1}},
		Spread(1, 2, 4, 3, 2, 3), Spread(3, 2, 2, 2, 2, 2), nil, nil),
	transposed("conv3d", "channels last", attrs{"data_format": "NDHWC", "padding_algorithm": "SAME"}, Spread(1, 2, 3, 2, 3, 2), Spread(3, 3, 2, 2, 1, 2), nil, nil),
	transposed("conv3d_transpose", "", nil, Floats(dims{1, 1, 1, 1, 2}, 1, 2), Floats(dims{1, 1, 2, 1, 2}, 1, 2, 3, 4), nil,
		Floats(dims{1, 1, 2, 1, 3}, 1, 4, 4, 3, 10, 8)),
	transposed("conv3d_transpose", "groups, strides", attrs{"groups": int32(2), "strides": []int32{1, 2, 2}, "output_padding": []int32{0, 1, 0}}, Spread(1, 2, 4, 2, 1, 2),
		Spread(3, 4, 1, 2, 2, 1), Spread(5, 2), nil),
}

func TestTransposedConvolutionsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		name string
		a    attrs
		want fault.Kind
	}{
		{"output too small", attrs{"strides": byTwo, "output_size": []int32{3, 4}}, fault.InvalidArgument},
		{"output too large", attrs{"strides": byTwo, "output_size": []int32{4, 6}}, fault.InvalidArgument},
		{"too much padding", attrs{"paddings": []int32{2, 2}}, fault.ShapeMismatch},
		{"output padding of a stride", attrs{"output_padding": []int32{1, 0}}, fault.InvalidArgument},
		{"groups", attrs{"groups": int32(3)}, fault.InvalidArgument},
	} {
		if err := Golden(transposed("conv2d_transpose", c.name, c.a, numbered(2), oneToFour, nil, nil)); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
