package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func lu(name string, x, want, pivots *tensor.Tensor) Case {
	return Case{Type: "lu", Name: name, Inputs: slots{"X": One(x)}, Want: slots{"Out": One(want), "Pivots": One(pivots)}}
}

func unpacked(name string, a attrs, x, pivots *tensor.Tensor, want slots) Case {
	return Case{Type: "lu_unpack", Name: name, Attrs: a, Inputs: slots{"X": One(x), "Pivots": One(pivots)}, Want: want}
}

// The numbers are those of PyTorch.
var luCases = []Case{
	lu("", Floats(dims{3, 3}, 0, 2, 1, 4, 1, 3, 2, 5, 6), Floats(dims{3, 3}, 4, 1, 3, 0.5, 4.5, 4.5, 0, 4./9, -1), Int32s(dims{3}, 2, 3, 3)),
	lu("high", Floats(dims{1, 3, 2}, 1, 2, 4, 1, 2, 5), Floats(dims{1, 3, 2}, 4, 1, 0.5, 4.5, 0.25, 0.3888888888888889), Int32s(dims{1, 2}, 2, 3)),
	lu("wide", Floats(dims{2, 3}, 1, 2, 3, 4, 1, 2), Floats(dims{2, 3}, 4, 1, 2, 0.25, 1.75, 2.5), Int32s(dims{2}, 2, 2)),
	{Type: "lu", Name: "several", Inputs: slots{"X": One(Spread(3, 2, 3, 3))}, Want: slots{"Infos": One(Int32s(dims{2}, 0, 0))}},
	{Type: "lu", Name: "without an inverse", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 2, 4))}, Constant: []string{"X"},
		Want: slots{"Out": One(Floats(dims{2, 2}, 2, 4, 0.5, 0)), "Infos": One(Int32s(dims{1}, 2))}},
	unpacked("", nil, Floats(dims{3, 3}, 4, 1, 3, 0.5, 4.5, 4.5, 0, 0.25, -1), Int32s(dims{3}, 2, 3, 3), slots{"Pmat": One(Floats(dims{3, 3}, 0, 0, 1, 1, 0, 0, 0, 1, 0)),
		"L": One(Floats(dims{3, 3}, 1, 0, 0, 0.5, 1, 0, 0, 0.25, 1)), "U": One(Floats(dims{3, 3}, 4, 1, 3, 0, 4.5, 4.5, 0, 0, -1))}),
	unpacked("high", nil, Floats(dims{1, 3, 2}, 4, 1, 0.5, 4.5, 0.25, 0.75), Int32s(dims{1, 2}, 2, 3), slots{"Pmat": One(Floats(dims{1, 3, 3}, 0, 0, 1, 1, 0, 0, 0, 1, 0)),
		"L": One(Floats(dims{1, 3, 2}, 1, 0, 0.5, 1, 0.25, 0.75)), "U": One(Floats(dims{1, 2, 2}, 4, 1, 0, 4.5))}),
	unpacked("factors alone", attrs{"unpack_pivots": false}, Floats(dims{2, 3}, 4, 1, 2, 0.25, 1.75, 2.5), Int32s(dims{2}, 2, 2), slots{"L": One(Floats(dims{2, 2}, 1, 0, 0.25, 1)),
		"U": One(Floats(dims{2, 3}, 4, 1, 2, 0, 1.75, 2.5))}),
	unpacked("exchanges alone", attrs{"unpack_ludata": false}, Floats(dims{2, 1}, 4, 1), Int32s(dims{1}, 2), slots{"Pmat": One(Floats(dims{2, 2}, 0, 1, 1, 0))}),
}

func TestFactorsThatDoNotFit(t *testing.T) {
	x := Floats(dims{2, 2}, 1, 2, 2, 4)
	grad := Case{Type: "lu_grad", Inputs: slots{"X": One(x), "Out": One(Floats(dims{2, 2}, 2, 4, 0.5, 0)), "Pivots": One(Int32s(dims{2}, 2, 2)), "Out@GRAD": One(x)}}
	outside := grad
	outside.Inputs = slots{"X": One(x), "Out": One(x), "Pivots": One(Int32s(dims{2}, 3, 2)), "Out@GRAD": One(x)}
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{Case{Type: "lu", Inputs: slots{"X": One(Floats(dims{2}, 1, 2))}}, fault.ShapeMismatch},
		{Case{Type: "lu", Attrs: attrs{"pivots": false}, Inputs: slots{"X": One(x)}}, fault.Unsupported},
		{grad, fault.InvalidArgument},
		{outside, fault.InvalidArgument},
		{unpacked("pivots", nil, x, Int32s(dims{2}, 0, 2), nil), fault.InvalidArgument},
		{unpacked("number of pivots", nil, x, Int32s(dims{3}, 1, 2, 3), nil), fault.ShapeMismatch},
		{unpacked("type of pivots", nil, x, Ints(dims{2}, 1, 2), nil), fault.TypeMismatch},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.c, err, c.kind)
		}
	}
}

func least(name, driver string, rcond float32, x, y *tensor.Tensor, want slots) Case {
	return Case{Type: "lstsq", Name: name, Attrs: attrs{"driver": driver, "rcond": rcond}, Inputs: slots{"X": One(x), "Y": One(y)}, Want: want}
}

// The numbers are those of PyTorch; without full rank it has no residuals.
var leastCases = []Case{
	least("high", "gelsd", 0, Floats(dims{3, 2}, 1, 2, 3, 4, 5, 7), Floats(dims{3, 2}, 1, 0, 2, 1, 4, 2), slots{"Solution": One(Floats(dims{2, 2}, 1./14, 15./14, 0.5, -0.5)),
		"Residuals": One(Floats(dims{2}, 1./14, 1./14)), "Rank": One(Int32s(dims{1}, 2)), "SingularValues": One(Floats(dims{2}, 10.191428257097224, 0.36713768594389934))}),
	least("of dependent columns", "gelss", 1e-6, Floats(dims{3, 2}, 1, 2, 2, 4, 3, 6), Floats(dims{3, 1}, 1, 2, 4), slots{"Solution": One(Floats(dims{2, 1}, 0.24285714285714285, 0.4857142857142857)),
		"Rank": One(Int32s(dims{1}, 1)), "Residuals": One(Floats(dims{1}, 5./14))}),
	least("wide", "gelsy", 0, Floats(dims{1, 2, 3}, 1, 2, 3, 2, 1, 4), Floats(dims{1, 2, 1}, 1, 2), slots{"Solution": One(Floats(dims{1, 3, 1}, 0.34210526315789475, -0.2631578947368421, 0.39473684210526316)),
		"Rank": One(Int32s(dims{1}, 2)), "Residuals": One(Floats(dims{1, 0}))}),
	least("several", "gels", 0, Spread(3, 2, 3, 2), Spread(2, 2, 3, 1), slots{"Rank": One(Int32s(dims{0}))}),
}

func TestLeastSquaresRefuseWhatDoesNotFit(t *testing.T) {
	x := Floats(dims{2, 2}, 1, 2, 2, 5)
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{least("driver", "new", 0, x, x, nil), fault.InvalidArgument},
		{least("rows", "gels", 0, x, Floats(dims{3, 1}, 1, 2, 3), nil), fault.ShapeMismatch},
		{least("rank", "gels", 0, x, Floats(dims{2}, 1, 2), nil), fault.ShapeMismatch},
		{least("type", "gels", 0, x, Ints(dims{2, 1}, 1, 2), nil), fault.TypeMismatch},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.c, err, c.kind)
		}
	}
}
