package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// numbered makes an image [1, 1, n, n] of 1, 2, 3, ...
func numbered(n int64) *tensor.Tensor {
	values := make([]float64, n*n)
	for i := range values {
		values[i] = float64(i + 1)
	}
	return Floats(dims{1, 1, n, n}, values...)
}

func convolution(name string, a attrs, input, filter, bias, want *tensor.Tensor) Case {
	c := Case{Type: "conv2d", Name: name, Attrs: a, Inputs: slots{"Input": One(input), "Filter": One(filter)}}
	if bias != nil {
		c.Inputs["Bias"] = One(bias)
	}
	if want != nil {
		c.Want = slots{"Output": One(want)}
	}
	return c
}

func pooling(name, kind string, size int32, a attrs, x, want *tensor.Tensor) Case {
	c := Case{Type: "pool2d", Name: kind + " " + name, Inputs: slots{"X": One(x)}, Attrs: attrs{"pooling_type": kind, "ksize": []int32{size, size}}}
	for name, v := range a {
		c.Attrs[name] = v
	}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var (
	diagonal = Floats(dims{1, 1, 2, 2}, 1, 0, 0, 1)
	byTwo    = []int32{2, 2}

	imageCases = []Case{
		{Type: "pool2d", Name: "windows of tensors", Attrs: attrs{"pooling_type": "avg", "strides": []int32{2, 2}}, Want: slots{"Out": One(Floats(dims{2, 1, 1, 1}, 2.5, 6.5))},
			Inputs: slots{"X": One(Floats(dims{2, 1, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)), "KsizeTensorList": One(Int32s(dims{1}, 2), Int32s(dims{1}, 2))}},
		{Type: "conv2d_transpose", Name: "extents of a tensor", Attrs: attrs{"strides": []int32{2, 2}}, Want: slots{"Output": One(Floats(dims{2, 1, 2, 2}, 3, 0, 0, 0, 6, 0, 0, 0))},
			Inputs: slots{"Input": One(Floats(dims{2, 1, 1, 1}, 1, 2)), "Filter": One(Floats(dims{1, 1, 1, 1}, 3)), "OutputSizeTensor": One(Int32s(dims{2}, 2, 2))}},
		convolution("", nil, numbered(3), diagonal, nil, Floats(dims{1, 1, 2, 2}, 6, 8, 12, 14)),
		convolution("padded by strides", attrs{"paddings": []int32{1, 1}, "strides": byTwo}, numbered(3), diagonal, nil,
			Floats(dims{1, 1, 2, 2}, 1, 3, 7, 14)),
		convolution("dilated", attrs{"dilations": byTwo}, numbered(3), diagonal, nil, Floats(dims{1, 1, 1, 1}, 10)),
		convolution("bias", nil, numbered(2), Floats(dims{2, 1, 1, 1}, 1, -1), Floats(dims{2}, 10, 20),
			Floats(dims{1, 2, 2, 2}, 11, 12, 13, 14, 19, 18, 17, 16)),
		convolution("groups", attrs{"groups": int32(2), "paddings": []int32{1, 0}, "strides": []int32{1, 2}, "dilations": []int32{2, 1}},
			Spread(1, 2, 4, 5, 4), Spread(3, 6, 2, 2, 3), Spread(4, 6), nil),
		{Type: "depthwise_conv2d", Attrs: attrs{"groups": int32(2)}, Want: slots{"Output": One(Floats(dims{1, 2, 1, 2}, 2, 4, -3, -4))},
			Inputs: slots{"Input": One(Floats(dims{1, 2, 1, 2}, 1, 2, 3, 4)), "Filter": One(Floats(dims{2, 1, 1, 1}, 2, -1))}},
		// SAME adds a column and a row of zeros, the odd ones right and below.
		convolution("same", attrs{"padding_algorithm": "SAME", "paddings": []int32{7, 7}}, numbered(3), diagonal, nil,
			Floats(dims{1, 1, 3, 3}, 6, 8, 3, 12, 14, 6, 7, 8, 9)),
		convolution("same by strides", attrs{"padding_algorithm": "SAME", "strides": byTwo, "dilations": byTwo}, numbered(4), diagonal, nil,
			Floats(dims{1, 1, 2, 2}, 7, 11, 23, 27)),
		convolution("valid", attrs{"padding_algorithm": "VALID", "paddings": []int32{7, 7}}, numbered(3), diagonal, nil,
			Floats(dims{1, 1, 2, 2}, 6, 8, 12, 14)),
		convolution("four paddings", attrs{"paddings": []int32{1, 0, 0, 1}}, numbered(2), diagonal, nil, Floats(dims{1, 1, 2, 2}, 2, 0, 5, 2)),
		convolution("four paddings of groups", attrs{"groups": int32(2), "paddings": []int32{2, 0, 1, 3}}, Spread(1, 2, 4, 3, 4), Spread(3, 4, 2, 2, 3), nil, nil),
		convolution("channels last", attrs{"data_format": "NHWC"}, Floats(dims{1, 2, 2, 2}, 1, 10, 2, 20, 3, 30, 4, 40),
			Floats(dims{2, 2, 1, 2}, 1, 2, 3, 4, 1, 0, 0, 1), Floats(dims{2}, 0, 100),
			Floats(dims{1, 2, 1, 2}, 1+4+30+80, 100+1+20, 3+8+90+160, 100+3+40)),
		convolution("channels last, groups", attrs{"data_format": "NHWC", "groups": int32(2), "paddings": []int32{1, 0}}, Spread(1, 2, 4, 3, 4), Spread(3, 4, 2, 2, 3), nil, nil),

		pooling("", "max", 2, attrs{"strides": byTwo}, numbered(4), Floats(dims{1, 1, 2, 2}, 6, 8, 14, 16)),
		pooling("", "avg", 2, attrs{"strides": byTwo}, numbered(4), Floats(dims{1, 1, 2, 2}, 3.5, 5.5, 11.5, 13.5)),
		pooling("overlapping", "max", 2, nil, numbered(3), Floats(dims{1, 1, 2, 2}, 5, 6, 8, 9)),
		pooling("ceil", "max", 2, attrs{"strides": byTwo, "ceil_mode": true}, numbered(3), Floats(dims{1, 1, 2, 2}, 5, 6, 8, 9)),
		pooling("ceil", "avg", 2, attrs{"strides": byTwo, "ceil_mode": true}, numbered(3), Floats(dims{1, 1, 2, 2}, 3, 4.5, 7.5, 9)),
		pooling("inclusive", "avg", 2, attrs{"strides": byTwo, "ceil_mode": true, "exclusive": false}, numbered(3),
			Floats(dims{1, 1, 2, 2}, 3, 2.25, 3.75, 2.25)),
		pooling("padded", "avg", 2, attrs{"strides": byTwo, "paddings": []int32{1, 1}}, numbered(3), Floats(dims{1, 1, 2, 2}, 1, 2.5, 5.5, 7)),
		pooling("global", "avg", 9, attrs{"global_pooling": true}, numbered(3), Floats(dims{1, 1, 1, 1}, 5)),
		pooling("same", "max", 2, attrs{"padding_algorithm": "SAME"}, numbered(3), Floats(dims{1, 1, 3, 3}, 5, 6, 6, 8, 9, 9, 8, 9, 9)),
		pooling("valid", "avg", 2, attrs{"padding_algorithm": "VALID", "paddings": []int32{1, 1}}, numbered(2), Floats(dims{1, 1, 1, 1}, 2.5)),
		pooling("four paddings", "avg", 2, attrs{"paddings": []int32{1, 0, 0, 1}}, numbered(2), Floats(dims{1, 1, 2, 2}, 1.5, 2, 2.5, 3)),
		pooling("adaptive", "avg", 2, attrs{"adaptive": true, "exclusive": false}, numbered(3), Floats(dims{1, 1, 2, 2}, 3, 4, 6, 7)),
		pooling("adaptive", "max", 2, attrs{"adaptive": true}, Spread(1, 2, 2, 3, 5), nil),
		pooling("channels last", "max", 2, attrs{"data_format": "NHWC"}, Floats(dims{1, 2, 2, 2}, 1, 80, 2, 70, 3, 60, 4, 50), Floats(dims{1, 1, 1, 2}, 4, 80)),
		pooling("channels last", "avg", 2, attrs{"data_format": "NHWC", "paddings": []int32{1, 1}}, Spread(4, 2, 3, 2, 3), nil),
		pooling("several planes", "max", 3, attrs{"strides": byTwo, "paddings": []int32{1, 1}}, Spread(2, 2, 3, 4, 5), nil),
	}
)

func TestImagesThatDoNotFit(t *testing.T) {
	square := func(n int64) *tensor.Tensor { return Spread(1, 1, 1, n, n) }
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{convolution("small input", nil, square(1), diagonal, nil, nil), fault.ShapeMismatch},
		{convolution("channels", nil, Spread(1, 1, 2, 3, 3), diagonal, nil, nil), fault.ShapeMismatch},
		{convolution("no stride", attrs{"strides": []int32{0, 1}}, square(3), diagonal, nil, nil), fault.InvalidArgument},
		{convolution("no groups", attrs{"groups": int32(0)}, square(3), diagonal, nil, nil), fault.InvalidArgument},
		{convolution("three paddings", attrs{"paddings": []int32{0, 0, 0}}, square(3), diagonal, nil, nil), fault.InvalidArgument},
		{convolution("layout", attrs{"data_format": "CHWN"}, square(3), diagonal, nil, nil), fault.InvalidArgument},
		{convolution("algorithm", attrs{"padding_algorithm": "FULL"}, square(3), diagonal, nil, nil), fault.InvalidArgument},
		{pooling("adaptive and global", "max", 2, attrs{"adaptive": true, "global_pooling": true}, square(3), nil), fault.Unsupported},
		{pooling("nothing for adaptive", "max", 0, attrs{"adaptive": true}, square(3), nil), fault.InvalidArgument},
		{pooling("wide padding", "max", 2, attrs{"paddings": byTwo}, square(3), nil), fault.Unsupported},
		{pooling("unknown", "min", 2, nil, square(3), nil), fault.InvalidArgument},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
