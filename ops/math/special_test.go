package math_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// eulerGamma is -digamma(1).
const eulerGamma = 0.5772156649015329

// pair applies an op to X and Y; want is Out.
func pair(op, name string, x, y, want *tensor.Tensor, a attrs) Case {
	return Case{Type: op, Name: name, Inputs: slots{"X": One(x), "Y": One(y)}, Attrs: a, Want: slots{"Out": One(want)}}
}

// known applies an op to one input; nil says that laws are enough.
func known(op, name, slot string, x *tensor.Tensor, a attrs, to string, want *tensor.Tensor) Case {
	c := Case{Type: op, Name: name, Inputs: slots{slot: One(x)}, Attrs: a}
	if want != nil {
		c.Want = slots{to: One(want)}
	}
	return c
}

var specialCases = []Case{
	unaryCase("trunc", []float64{-1.5, 1.25, 0.5}, -1, 1, 0),
	known("abs", "int64", "X", Ints(dims{3}, -3, 0, 5), nil, "Out", Ints(dims{3}, 3, 0, 5)),
	known("sign", "int32", "X", Int32s(dims{3}, -3, 0, 5), nil, "Out", Int32s(dims{3}, -1, 0, 1)),
	known("square", "int64", "X", Ints(dims{2}, -3, 5), nil, "Out", Ints(dims{2}, 9, 25)),
	known("relu", "int32", "X", Int32s(dims{2}, -3, 5), nil, "Out", Int32s(dims{2}, 0, 5)),
	known("floor", "int64", "X", Ints(dims{2}, -3, 5), nil, "Out", Ints(dims{2}, -3, 5)),
	unaryCase("asinh", []float64{-2, 0, 0.75}, math.Asinh(-2), 0, math.Ln2),
	unaryCase("acosh", []float64{1.25, 3}, math.Ln2, math.Acosh(3)),
	unaryCase("atanh", []float64{-0.6, 0, 0.6}, -math.Ln2, 0, math.Ln2),
	unaryCase("lgamma", []float64{5, 0.5, -0.5}, math.Log(24), math.Log(math.Pi)/2, math.Log(4*math.Pi)/2),
	unaryCase("digamma", []float64{1, 2, 0.5, -0.5, 30}, -eulerGamma, 1-eulerGamma, -eulerGamma-2*math.Ln2, 2-eulerGamma-2*math.Ln2, 3.384438132685525),
	unaryCase("erfinv", []float64{0, 0.5204998778130465, -0.5204998778130465}, 0, 0.5, -0.5),
	unaryCase("logit", []float64{0.5, 0.75, 0.2}, 0, math.Log(3), -math.Log(4)),
	known("logit", "limited", "X", Floats(dims{2}, 0.05, 0.99), attrs{"eps": float32(0.25)}, "Out", Floats(dims{2}, -math.Log(3), math.Log(3))),
	known("i0", "", "x", Floats(dims{3}, 0, 1, -2), nil, "out", Floats(dims{3}, 1, 1.2660658777520084, 2.2795853023360673)),
	{Type: "i0", Name: "large", Inputs: slots{"x": One(Floats(dims{1}, 40))}, Constant: []string{"x"}, Want: slots{"out": One(Floats(dims{1}, 14894774793419902))}},
	known("i0e", "", "x", Floats(dims{3}, 0, 1, -2), nil, "out", Floats(dims{3}, 1, 0.46575960759364043, 0.308508322553671)),
	known("i0e", "large", "x", Floats(dims{2}, 40, 800), nil, "out", Floats(dims{2}, 0.06327827987523532, 0.014106945005869183)),
	known("i1", "", "x", Floats(dims{3}, 0, 1, -2), nil, "out", Floats(dims{3}, 0, 0.5651591039924851, -1.5906368546373295)),
	known("i1e", "", "x", Floats(dims{3}, 1, -2, 40), nil, "out", Floats(dims{3}, 0.2079104153497085, -0.2152692892489377, 0.06248222907444206)),
	{Type: "i1e", Name: "nothing", Inputs: slots{"x": One(Floats(dims{1}, 0))}, Constant: []string{"x"}, Want: slots{"out": One(Floats(dims{1}, 0))}},
	pair("elementwise_fmax", "", Floats(dims{3}, 1, math.NaN(), 3), Floats(dims{3}, 2, 2, math.NaN()), Floats(dims{3}, 2, 2, 3), nil),
	pair("elementwise_fmax", "broadcast", Floats(dims{2, 2}, 1, 4, 3, 2), Floats(dims{2}, 2, 3), Floats(dims{2, 2}, 2, 4, 3, 3), nil),
	pair("elementwise_fmin", "", Ints(dims{3}, 1, 5, 3), Ints(dims{3}, 2, 2, 2), Ints(dims{3}, 1, 2, 2), nil),
	pair("elementwise_fmin", "broadcast", Floats(dims{2, 2}, 1, 4, 3, 2), Floats(dims{2, 1}, 2, 2.5), Floats(dims{2, 2}, 1, 2, 2.5, 2), nil),

	known("trace", "", "Input", Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), nil, "Out", Floats(dims{1}, 6)),
	known("trace", "offset", "Input", Floats(dims{2, 3, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), attrs{"axis1": int32(1), "axis2": int32(-1), "offset": int32(-1)}, "Out", Floats(dims{2}, 9, 21)),
	known("diagonal", "", "Input", Floats(dims{2, 3, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), attrs{"axis1": int32(2), "axis2": int32(1)}, "Out", Floats(dims{2, 2}, 1, 4, 7, 10)),
	known("diagonal", "whole numbers", "Input", Ints(dims{2, 2}, 1, 2, 3, 4), attrs{"offset": int32(1)}, "Out", Ints(dims{1}, 2)),
	known("diag_embed", "", "Input", Floats(dims{2, 2}, 1, 2, 3, 4), nil, "Out", Floats(dims{2, 2, 2}, 1, 0, 0, 2, 3, 0, 0, 4)),
	known("diag_embed", "offset", "Input", Floats(dims{2}, 1, 2), attrs{"offset": int32(-1), "dim1": int32(1), "dim2": int32(0)}, "Out", Floats(dims{3, 3}, 0, 1, 0, 0, 0, 2, 0, 0, 0)),
	known("fill_diagonal", "", "X", Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6), attrs{"value": float32(9)}, "Out", Floats(dims{3, 2}, 9, 2, 3, 9, 5, 6)),
	diagonals("", nil, Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6), Floats(dims{2}, 8, 9), Floats(dims{3, 2}, 8, 2, 3, 9, 5, 6)),
	diagonals("of matrices", attrs{"dim1": int32(2), "dim2": int32(0), "offset": int64(1)}, Ints(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), Ints(dims{2, 1}, 10, 20), Ints(dims{2, 2, 2}, 1, 2, 3, 4, 10, 6, 20, 8)),
	known("fill_diagonal", "wrap", "X", Ints(dims{4, 2}, 0, 0, 0, 0, 0, 0, 0, 0), attrs{"value": float32(1), "wrap": true}, "Out", Ints(dims{4, 2}, 1, 0, 0, 1, 0, 0, 1, 0)),
	known("fill_diagonal", "cube", "X", Floats(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), nil, "Out", Floats(dims{2, 2, 2}, 0, 2, 3, 4, 5, 6, 7, 0)),
	known("fill_diagonal", "offset", "X", Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), attrs{"offset": int32(1)}, "Out", Floats(dims{2, 3}, 1, 0, 3, 4, 5, 0)),
	{Type: "tril_indices", Attrs: attrs{"rows": int32(2), "cols": int32(3), "offset": int32(1)}, Want: slots{"out": One(Ints(dims{2, 5}, 0, 0, 1, 1, 1, 0, 1, 0, 1, 2))}},
	{Type: "triu_indices", Attrs: attrs{"row": int32(2), "col": int32(2), "dtype": int32(tensor.Int32)}, Want: slots{"out": One(Int32s(dims{2, 3}, 0, 0, 1, 0, 1, 1))}},

	known("cholesky", "", "X", Floats(dims{1, 2, 2}, 4, 2, 2, 5), nil, "Out", Floats(dims{1, 2, 2}, 2, 0, 1, 2)),
	known("determinant", "", "Input", Floats(dims{2, 2, 2}, 1, 2, 3, 4, 0, 1, 2, 0), nil, "Out", Floats(dims{2}, -2, -2)),
	known("determinant", "one", "Input", Floats(dims{3, 3}, 2, 0, 1, 0, 3, 0, 1, 0, 2), nil, "Out", Floats(dims{1}, 9)),
	known("matrix_power", "", "X", Floats(dims{1, 2, 2}, 1, 2, 0, 1), attrs{"n": int32(3)}, "Out", Floats(dims{1, 2, 2}, 1, 6, 0, 1)),
	known("matrix_power", "inverse", "X", Floats(dims{2, 2}, 2, 1, 0, 1), attrs{"n": int32(-2)}, "Out", Floats(dims{2, 2}, 0.25, -0.75, 0, 1)),
	known("matrix_power", "nothing", "X", Floats(dims{2, 2}, 2, 1, 0, 1), attrs{"n": int32(0)}, "Out", Floats(dims{2, 2}, 1, 0, 0, 1)),

	known("kthvalue", "", "X", Floats(dims{2, 3}, 3, 1, 2, 4, 6, 5), attrs{"k": int32(2)}, "Out", Floats(dims{2}, 2, 5)),
	known("kthvalue", "kept", "X", Floats(dims{2, 3}, 3, 1, 2, 4, 6, 5), attrs{"k": int32(1), "axis": int32(0), "keepdim": true}, "Indices", Ints(dims{1, 3}, 0, 0, 0)),
	{Type: "mode", Inputs: slots{"X": One(Ints(dims{2, 4}, 3, 1, 3, 1, 2, 7, 7, 9))}, Want: slots{"Out": One(Ints(dims{2}, 1, 7)), "Indices": One(Ints(dims{2}, 3, 2))}},
	known("mode", "one", "X", Spread(1, 3), nil, "Indices", nil),
	known("cumprod", "", "X", Floats(dims{2, 2}, 2, 3, 4, 5), nil, "Out", Floats(dims{2, 2}, 2, 6, 4, 20)),
	known("cumprod", "zeros", "X", Floats(dims{4, 2}, 2, 0, 0, 3, 5, 0, 7, 2), attrs{"dim": int32(0)}, "Out", Floats(dims{4, 2}, 2, 0, 0, 0, 0, 0, 0, 0)),
	{Type: "searchsorted", Inputs: slots{"SortedSequence": One(Floats(dims{2, 3}, 1, 3, 5, 2, 2, 4)), "Values": One(Floats(dims{2, 2}, 3, 6, 2, 0))},
		Want: slots{"Out": One(Ints(dims{2, 2}, 1, 3, 0, 0))}},
	{Type: "searchsorted", Name: "right", Attrs: attrs{"right": true, "out_int32": true}, Inputs: slots{"SortedSequence": One(Ints(dims{3}, 1, 3, 3)), "Values": One(Ints(dims{2, 1}, 3, 0))},
		Want: slots{"Out": One(Int32s(dims{2, 1}, 3, 0))}},

	{Type: "take_along_axis", Attrs: attrs{"Axis": int32(1)}, Inputs: slots{"Input": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)), "Index": One(Ints(dims{2, 2}, 2, 0, -1, -1))},
		Want: slots{"Result": One(Floats(dims{2, 2}, 3, 1, 6, 6))}},
	{Type: "take_along_axis", Name: "first", Inputs: slots{"Input": One(Ints(dims{2, 2}, 1, 2, 3, 4)), "Index": One(Int32s(dims{1, 2}, 1, 0))},
		Want: slots{"Result": One(Ints(dims{1, 2}, 3, 2))}},
	put("assign", Floats(dims{2, 2}, 7, 8, 9, 6), Floats(dims{2, 3}, 8, 2, 7, 6, 5, 6)), put("add", Floats(dims{2, 2}, 7, 8, 9, 6), Floats(dims{2, 3}, 9, 2, 10, 19, 5, 6)),
	put("mul", Floats(dims{2, 2}, 7, 8, 9, 6), Floats(dims{2, 3}, 8, 2, 21, 216, 5, 6)), put("assign", Floats(dims{1}, 7), Floats(dims{2, 3}, 7, 2, 7, 7, 5, 6)),
	put("multiply", Floats(dims{1}, 2), Floats(dims{2, 3}, 2, 2, 6, 16, 5, 6)),
	put("mean", Floats(dims{2, 2}, 5, 3, 2, 6), Floats(dims{2, 3}, 2, 2, 4, 4, 5, 6)),
	put("amin", Floats(dims{2, 2}, 5, 0, 2, 6), Floats(dims{2, 3}, 0, 2, 3, 2, 5, 6)),
	put("amax", Floats(dims{2, 2}, 5, 0, 2, 6), Floats(dims{2, 3}, 1, 2, 5, 6, 5, 6)),
	alone(put("add", Floats(dims{2, 2}, 5, 3, 2, 6), Floats(dims{2, 3}, 3, 2, 5, 8, 5, 6))),
	alone(put("mul", Floats(dims{2, 2}, 5, 3, 2, 6), Floats(dims{2, 3}, 3, 2, 5, 12, 5, 6))),
	alone(put("multiply", Floats(dims{1}, 2), Floats(dims{2, 3}, 2, 2, 2, 4, 5, 6))),
	alone(put("mean", Floats(dims{2, 2}, 5, 3, 2, 6), Floats(dims{2, 3}, 3, 2, 5, 4, 5, 6))),
	alone(put("amin", Floats(dims{2, 2}, 5, 3, 9, 6), Floats(dims{2, 3}, 3, 2, 5, 6, 5, 6))),
	alone(put("amax", Floats(dims{2, 2}, 1, -3, 2, 1), Floats(dims{2, 3}, -3, 2, 1, 2, 5, 6))),
	{Type: "put_along_axis", Name: "mean of integers", Attrs: attrs{"Reduce": "mean"}, Inputs: slots{"Input": One(Ints(dims{2}, 4, 9)), "Index": One(Ints(dims{1}, 0)), "Value": One(Ints(dims{1}, 1))},
		Want: slots{"Result": One(Ints(dims{2}, 2, 9))}},

	{Type: "lerp", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{2}, 3, 8)), "Weight": One(Floats(dims{2, 1}, 0.5, 0.25))}, Constant: []string{"Weight"},
		Want: slots{"Out": One(Floats(dims{2, 2}, 2, 5, 3, 5))}},
	{Type: "lerp", Name: "alike", Inputs: slots{"X": One(Spread(1, 3)), "Y": One(Spread(2, 3)), "Weight": One(Floats(dims{1}, 0.5))}, Constant: []string{"Weight"}},
	pair("dist", "", Floats(dims{2, 2}, 1, 5, 3, 4), Floats(dims{1, 2}, 1, 2), Floats(dims{1}, math.Sqrt(17)), nil),
	pair("dist", "cubes", Floats(dims{2}, 1, 5), Floats(dims{2}, 2, 3), Floats(dims{1}, math.Cbrt(9)), attrs{"p": float32(3)}),
	pair("dist", "count", Floats(dims{2}, 1, 5), Floats(dims{2}, 1, 3), Floats(dims{1}, 1), attrs{"p": float32(0)}),
	pair("dist", "largest", Floats(dims{2}, 1, 5), Floats(dims{2}, 2, 3), Floats(dims{1}, 2), attrs{"p": float32(math.Inf(1))}),
	pair("dist", "smallest", Floats(dims{2}, 1, 5), Floats(dims{2}, 2, 3), Floats(dims{1}, 1), attrs{"p": float32(math.Inf(-1))}),
	pair("cross", "", Floats(dims{2, 3}, 1, 0, 0, 1, 2, 3), Floats(dims{2, 3}, 0, 1, 0, 4, 5, 6), Floats(dims{2, 3}, 0, 0, 1, -3, 6, -3), nil),
	pair("cross", "first", Ints(dims{3, 1}, 1, 2, 3), Ints(dims{3, 1}, 4, 5, 6), Ints(dims{3, 1}, -3, 6, -3), attrs{"dim": int32(0)}),
}

// put writes values to three places.
func put(kind string, value, want *tensor.Tensor) Case {
	c := Case{Type: "put_along_axis", Name: kind, Attrs: attrs{"Axis": int32(1), "Reduce": kind}, Inputs: slots{"Input": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)),
		"Index": One(Ints(dims{2, 2}, 2, 0, 0, 0)), "Value": One(value)}, Want: slots{"Result": One(want)}}
	if value.Len() == 1 {
		c.Name += " one number"
	}
	return c
}

// alone leaves out what Input has at the places.
func alone(c Case) Case {
	c.Name += " alone"
	c.Attrs["Include_self"] = false
	return c
}

// Of several equal ones that are the greatest, each has a share of the gradient.
func TestSharesOfTheGreatest(t *testing.T) {
	for self, want := range map[bool][2][]float64{true: {{2, 0}, {2, 2, 0}}, false: {{0, 0}, {3, 3, 0}}} {
		vars := map[string]*tensor.Tensor{"x": Floats(dims{2}, 4, 1), "i": Ints(dims{3}, 0, 0, 0), "v": Floats(dims{3}, 4, 4, 2), "dy": Floats(dims{2}, 6, 0)}
		op := &program.Op{Type: "put_along_axis_grad", Attrs: attrs{"Reduce": "amax", "Include_self": self}, Inputs: map[string][]string{"Input": {"x"}, "Index": {"i"}, "Value": {"v"}, "Result@GRAD": {"dy"}},
			Outputs: map[string][]string{"Input@GRAD": {"dx"}, "Value@GRAD": {"dv"}}}
		if err := NewInterpreter(vars, ops.Step{}).Run(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(vars["dx"].Float64s(), want[0]) || !slices.Equal(vars["dv"].Float64s(), want[1]) {
			t.Errorf("self %v: dInput %v and dValue %v, want %v", self, vars["dx"].Float64s(), vars["dv"].Float64s(), want)
		}
	}
}

func TestSpecialFunctionsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{known("trace", "", "Input", Floats(dims{2, 2}, 1, 2, 3, 4), attrs{"axis2": int32(0)}, "Out", nil), fault.InvalidArgument},
		{known("cholesky", "", "X", Floats(dims{2, 2}, 1, 2, 2, 1), nil, "Out", nil), fault.InvalidArgument},
		{known("matrix_power", "", "X", Floats(dims{2, 2}, 1, 2, 2, 4), attrs{"n": int32(-1)}, "Out", nil), fault.InvalidArgument},
		{known("kthvalue", "", "X", Floats(dims{2}, 1, 2), attrs{"k": int32(3)}, "Out", nil), fault.InvalidArgument},
		{known("fill_diagonal", "", "X", Floats(dims{1, 2, 1}, 1, 2), nil, "Out", nil), fault.ShapeMismatch},
		{diagonals("length", nil, Floats(dims{1, 2}, 1, 2), Floats(dims{2}, 1, 2), nil), fault.ShapeMismatch},
		{diagonals("axes", attrs{"dim2": int32(-2)}, Floats(dims{1, 2}, 1, 2), Floats(dims{1}, 1), nil), fault.InvalidArgument},
		{known("diag_embed", "", "Input", Floats(dims{2}, 1, 2), attrs{"offset": int64(1 << 40)}, "Out", nil), fault.InvalidArgument},
		{Case{Type: "take_along_axis", Inputs: slots{"Input": One(Floats(dims{2}, 1, 2)), "Index": One(Ints(dims{1}, 2))}}, fault.InvalidArgument},
		{pair("cross", "", Floats(dims{2}, 1, 2), Floats(dims{2}, 1, 2), nil, nil), fault.InvalidArgument},
		{pair("dist", "", Floats(dims{2}, 1, 2), Floats(dims{3}, 1, 2, 3), nil, nil), fault.ShapeMismatch},
	} {
		c.Want = nil
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}

// diagonals applies fill_diagonal_tensor.
func diagonals(name string, a attrs, x, y, want *tensor.Tensor) Case {
	c := Case{Type: "fill_diagonal_tensor", Name: name, Attrs: a, Inputs: slots{"X": One(x), "Y": One(y)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}
