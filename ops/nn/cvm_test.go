package nn_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// shown are three rows of an embedding that begin with shows and clicks.
func shown() *tensor.Tensor {
	return gradcheck.Floats(dims{3, 4}, 3, 1, 0.5, -0.5, 0, 0, 0.25, 2, 7, 7, -1, 1)
}

var (
	shows    = gradcheck.Floats(dims{3, 2}, 1, 0, 2, 1, 3, 2)
	noCVM    = attrs{"use_cvm": false}
	dropped  = gradcheck.Floats(dims{3, 2}, 0.5, -0.5, 0.25, 2, -1, 1)
	cvmCases = []gradcheck.Case{
		{Name: "by hand", Type: "cvm", Inputs: slots{"X": gradcheck.One(shown()), "CVM": gradcheck.One(shows)}, Constant: []string{"X", "CVM"},
			Want: slots{"Y": gradcheck.One(gradcheck.Floats(dims{3, 4}, math.Log(4), -math.Ln2, 0.5, -0.5, 0, 0, 0.25, 2, math.Log(8), 0, -1, 1))}},
		// Where nothing was shown or clicked, the gradient of the columns that are left is the derivative.
		{Name: "drops", Type: "cvm", Inputs: slots{"X": gradcheck.One(shown()), "CVM": gradcheck.One(gradcheck.Floats(dims{3, 2}, 0, 0, 0, 0, 0, 0))},
			Attrs: noCVM, Constant: []string{"CVM"}, Want: slots{"Y": gradcheck.One(dropped)}},
		{Name: "sequences", Type: "cvm", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(shown(), 1, 0, 2)), "CVM": gradcheck.One(gradcheck.Floats(dims{3, 2}, 0, 0, 0, 0, 0, 0))},
			Attrs: noCVM, Constant: []string{"CVM"}, Want: slots{"Y": gradcheck.One(gradcheck.Sequences(dropped.Clone(), 1, 0, 2))}},
		{Name: "by hand", Type: "cvm_grad", Inputs: slots{"X": gradcheck.One(shown()), "CVM": gradcheck.One(shows), "Y@GRAD": gradcheck.One(gradcheck.Spread(1, 3, 4))},
			Want: slots{"X@GRAD": gradcheck.One(withCounts(gradcheck.Spread(1, 3, 4), 1, 0, 2, 1, 3, 2))}},
		{Name: "sequences", Type: "cvm_grad", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(shown(), 1, 0, 2)), "CVM": gradcheck.One(shows),
			"Y@GRAD": gradcheck.One(gradcheck.Spread(2, 3, 4))}, Want: slots{"X@GRAD": gradcheck.One(withCounts(gradcheck.Spread(2, 3, 4), 1, 0, 3, 2, 3, 2))}},
		{Name: "drops", Type: "cvm_grad", Inputs: slots{"X": gradcheck.One(shown()), "CVM": gradcheck.One(shows), "Y@GRAD": gradcheck.One(dropped)},
			Attrs: noCVM, Want: slots{"X@GRAD": gradcheck.One(gradcheck.Floats(dims{3, 4}, 1, 0, 0.5, -0.5, 2, 1, 0.25, 2, 3, 2, -1, 1))}},
	}
)

// withCounts puts pairs of numbers in front of the rows of t, over those that are there.
func withCounts(t *tensor.Tensor, pairs ...float64) *tensor.Tensor {
	width := int(t.Dims()[1])
	for i := 0; i < len(pairs); i += 2 {
		copy(t.Float64s()[i/2*width:], pairs[i:i+2])
	}
	return t
}

func TestCVMThatDoesNotFit(t *testing.T) {
	two := gradcheck.Spread(1, 2, 2)
	nested := gradcheck.Spread(1, 2, 4)
	nested.SetLoD([][]int64{{0, 1}, {0, 2}})
	for _, c := range []struct {
		name   string
		x, cvm *tensor.Tensor
		attrs  attrs
		want   fault.Kind
	}{
		{"nothing left", two, two, noCVM, fault.ShapeMismatch},
		{"no click", gradcheck.Spread(1, 2, 1), two, nil, fault.ShapeMismatch},
		{"a vector", gradcheck.Spread(1, 2), two, nil, fault.ShapeMismatch},
		{"few counts", gradcheck.Spread(1, 3, 4), two, nil, fault.ShapeMismatch},
		{"a count of sequences", gradcheck.Sequences(gradcheck.Spread(1, 3, 4), 3), two, nil, fault.ShapeMismatch},
		{"three counts", gradcheck.Spread(1, 2, 4), gradcheck.Spread(1, 2, 3), nil, fault.ShapeMismatch},
		{"whole numbers", gradcheck.Spread(1, 2, 4), gradcheck.Ints(dims{2, 2}, 1, 2, 3, 4), nil, fault.TypeMismatch},
		{"two levels", nested, two, nil, fault.Unsupported},
	} {
		err := gradcheck.Golden(gradcheck.Case{Name: c.name, Type: "cvm", Inputs: slots{"X": gradcheck.One(c.x), "CVM": gradcheck.One(c.cvm)}, Attrs: c.attrs})
		if fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
