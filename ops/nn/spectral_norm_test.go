package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func spectral(name string, a attrs, weight, u, v, want *tensor.Tensor) Case {
	c := Case{Type: "spectral_norm", Name: name, Attrs: a, Inputs: slots{"Weight": One(weight), "U": One(u), "V": One(v)}, Constant: []string{"U", "V"}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var spectralCases = []Case{
	// The matrix maps (1, 0) to itself and (0, 1) to (0, 2), its largest singular value.
	spectral("", attrs{"power_iters": int32(400), "eps": float32(0)}, Floats(dims{2, 2}, 1, 0, 0, 2), Floats(dims{2}, 1, 1), Floats(dims{2}, 1, 1), Floats(dims{2, 2}, 0.5, 0, 0, 1)),
	spectral("no steps", attrs{"power_iters": int32(0)}, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2}, 1, 0), Floats(dims{2}, 0, 1), Floats(dims{2, 2}, 0.5, 1, 1.5, 2)),
	spectral("axis", attrs{"power_iters": int32(0), "dim": int32(1)}, Spread(1, 2, 3, 2), Spread(2, 3), Spread(3, 4), nil),
}

func TestSpectralNormsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{spectral("u", nil, Spread(1, 2, 3), Spread(2, 3), Spread(3, 3), nil), fault.ShapeMismatch},
		{spectral("v", nil, Spread(1, 2, 3), Spread(2, 2), Spread(3, 2), nil), fault.ShapeMismatch},
		{spectral("steps", attrs{"power_iters": int32(-1)}, Spread(1, 2, 3), Spread(2, 2), Spread(3, 3), nil), fault.InvalidArgument},
		{spectral("axis", attrs{"dim": int32(2)}, Spread(1, 2, 3), Spread(2, 2), Spread(3, 3), nil), fault.InvalidArgument},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
