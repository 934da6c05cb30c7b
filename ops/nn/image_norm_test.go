package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func grouped(name string, a attrs, x, want *tensor.Tensor, parameters ...*tensor.Tensor) Case {
	c := Case{Type: "group_norm", Name: name, Attrs: a, Inputs: slots{"X": One(x)}}
	for i, p := range parameters {
		c.Inputs[[]string{"Scale", "Bias"}[i]] = One(p)
	}
	if want != nil {
		c.Want = slots{"Y": One(want)}
	}
	return c
}

var (
	pairs = attrs{"groups": int32(2), "epsilon": float32(0)}

	imageNormCases = []Case{
		// Each pair of channels holds two numbers, which become -1 and 1.
		grouped("", pairs, Floats(dims{1, 4, 1, 1}, 1, 3, 10, 2), Floats(dims{1, 4, 1, 1}, -1, 1, 1, -1)),
		grouped("parameters", pairs, Floats(dims{1, 4}, 1, 3, 10, 2), Floats(dims{1, 4}, -2, 3, 24, 10), Floats(dims{4}, 2, 3, 4, 5), Floats(dims{4}, 0, 0, 20, 15)),
		grouped("channels last", attrs{"groups": int32(2), "epsilon": float32(0), "data_layout": "NHWC"}, Floats(dims{1, 1, 2, 2}, 1, 5, 3, 9),
			Floats(dims{1, 1, 2, 2}, -1, -1, 1, 1)),
		grouped("planes", attrs{"groups": int32(2)}, Spread(2, 2, 4, 2, 3), nil, Spread(1, 4), Spread(3, 4)),
		grouped("planes, channels last", attrs{"groups": int32(2), "data_layout": "NHWC"}, Spread(2, 2, 2, 3, 4), nil, Spread(1, 4), Spread(3, 4)),
		grouped("long planes", attrs{"groups": int32(1)}, Spread(2, 1, 2, 3, 5), nil),
		{Type: "instance_norm", Inputs: slots{"X": One(Floats(dims{1, 2, 2}, 1, 3, 10, 2)), "Scale": One(Floats(dims{2}, 1, 2)), "Bias": One(Floats(dims{2}, 0, 5))},
			Attrs: attrs{"epsilon": float32(0)}, Want: slots{"Y": One(Floats(dims{1, 2, 2}, -1, 1, 7, 3)), "SavedMean": One(Floats(dims{2}, 2, 6)),
				"SavedVariance": One(Floats(dims{2}, 1, 0.25))}},
		{Type: "instance_norm", Name: "images", Inputs: slots{"X": One(Spread(3, 2, 3, 2, 4)), "Scale": One(Spread(1, 3)), "Bias": One(Spread(2, 3))}},
		{Type: "instance_norm", Name: "no parameters", Inputs: slots{"X": One(Spread(3, 2, 3, 2, 4))}},

		{Type: "lrn", Inputs: slots{"X": One(Floats(dims{1, 3, 1, 1}, 1, 2, 3))},
			Attrs: attrs{"n": int32(3), "k": float32(1), "alpha": float32(1), "beta": float32(1)},
			Want:  slots{"Out": One(Floats(dims{1, 3, 1, 1}, 1./6, 2./15, 3./14)), "MidOut": One(Floats(dims{1, 3, 1, 1}, 6, 15, 14))}},
		{Type: "lrn", Name: "images", Inputs: slots{"X": One(Spread(1, 2, 4, 2, 3))}, Attrs: attrs{"n": int32(3), "alpha": float32(0.5)}},
		{Type: "lrn", Name: "channels last", Inputs: slots{"X": One(Spread(1, 2, 2, 3, 4))}, Attrs: attrs{"alpha": float32(0.5), "data_format": "NHWC"}},

		{Type: "affine_channel", Inputs: slots{"X": One(Floats(dims{1, 2, 2}, 1, 2, 3, 4)), "Scale": One(Floats(dims{2}, 2, 3)), "Bias": One(Floats(dims{2}, 10, 20))},
			Want: slots{"Out": One(Floats(dims{1, 2, 2}, 12, 14, 29, 32))}},
		{Type: "affine_channel", Name: "channels last", Inputs: slots{"X": One(Floats(dims{1, 1, 2, 2}, 1, 2, 3, 4)), "Scale": One(Floats(dims{2}, 2, 3)),
			"Bias": One(Floats(dims{2}, 10, 20))}, Attrs: attrs{"data_layout": "NHWC"}, Want: slots{"Out": One(Floats(dims{1, 1, 2, 2}, 12, 26, 16, 32))}},
		{Type: "affine_channel", Name: "rank 2", Inputs: slots{"X": One(Spread(2, 3, 2)), "Scale": One(Spread(1, 2)), "Bias": One(Spread(3, 2))}},
	}
)

func TestNormalisationsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{grouped("uneven groups", attrs{"groups": int32(3)}, Spread(1, 1, 4, 2), nil), fault.Unsupported},
		{grouped("more groups than channels", attrs{"groups": int32(5)}, Spread(1, 1, 4, 2), nil), fault.InvalidArgument},
		{grouped("no groups", attrs{"groups": int32(0)}, Spread(1, 1, 4, 2), nil), fault.InvalidArgument},
		{grouped("short scale", pairs, Spread(1, 1, 4, 2), nil, Spread(1, 3)), fault.ShapeMismatch},
		{Case{Type: "lrn", Attrs: attrs{"n": int32(4)}, Inputs: slots{"X": One(Spread(1, 1, 4, 1, 1))}}, fault.InvalidArgument},
		{Case{Type: "lrn", Attrs: attrs{"k": float32(0)}, Inputs: slots{"X": One(Spread(1, 1, 4, 1, 1))}}, fault.Unsupported},
		{Case{Type: "lrn", Inputs: slots{"X": One(Spread(1, 1, 4, 1))}}, fault.ShapeMismatch},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
