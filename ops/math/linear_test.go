package math_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var linearCases = []Case{
	{Name: "matrices", Type: "kron", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{1, 2}, 10, 100))},
		Want: slots{"Out": One(Floats(dims{2, 4}, 10, 100, 20, 200, 30, 300, 40, 400))}},
	{Name: "another rank", Type: "kron", Inputs: slots{"X": One(Floats(dims{2}, 1, 2)), "Y": One(Floats(dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"Out": One(Floats(dims{2, 4}, 1, 2, 2, 4, 3, 4, 6, 8))}},
	{Type: "addmm", Attrs: attrs{"Alpha": float32(2), "Beta": float32(0.5)},
		Inputs: slots{"Input": One(Floats(dims{2, 1}, 2, 4)), "X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{2, 1}, 1, 10))},
		Want:   slots{"Out": One(Floats(dims{2, 1}, 43, 88))}},
	{Type: "inverse", Inputs: slots{"Input": One(Floats(dims{2, 2, 2}, 0, 2, 4, 0, 1, 2, 3, 5))},
		Want: slots{"Output": One(Floats(dims{2, 2, 2}, 0, 0.25, 0.5, 0, -5, 2, 3, -1))}},
	{Name: "matrices", Type: "solve", Inputs: slots{"X": One(Floats(dims{2, 2, 2}, 0, 2, 4, 1, 1, 2, 3, 5)), "Y": One(Floats(dims{2, 2, 1}, 2, 9, 8, 21))},
		Want: slots{"Out": One(Floats(dims{2, 2, 1}, 2, 1, 2, 3))}},
	{Name: "a vector for each matrix", Type: "solve", Inputs: slots{"X": One(Floats(dims{2, 2, 2}, 0, 2, 4, 1, 1, 2, 3, 5)), "Y": One(Floats(dims{2, 2}, 2, 9, 8, 21))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 2, 1, 2, 3))}},
	{Name: "one matrix", Type: "solve", Inputs: slots{"X": One(Floats(dims{3, 3}, 1, 2, 0, 0, 0, 4, 2, -1, 1)), "Y": One(Floats(dims{3, 2}, 5, -1, 12, 8, 3, 5))},
		Want: slots{"Out": One(Floats(dims{3, 2}, 1, 1, 2, -1, 3, 2))}},
	{Name: "one matrix for all", Type: "solve", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 5)), "Y": One(Floats(dims{3, 2, 1}, 8, 21, 3, 8, 0, 1))},
		Want: slots{"Out": One(Floats(dims{3, 2, 1}, 2, 3, 1, 1, 2, -1))}},
	{Name: "one side for all", Type: "solve", Inputs: slots{"X": One(Floats(dims{2, 2, 2}, 0, 2, 4, 1, 1, 2, 3, 5)), "Y": One(Floats(dims{2}, 8, 21))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 4.25, 4, 2, 3))}},
	{Type: "atan2", Inputs: slots{"X1": One(Floats(dims{4}, 1, -1, 1, -1)), "X2": One(Floats(dims{4}, 1, 1, -1, -1))},
		Want: slots{"Out": One(Floats(dims{4}, math.Pi/4, -math.Pi/4, 3*math.Pi/4, -3*math.Pi/4))}},
	{Name: "given ends", Type: "histogram", Attrs: attrs{"bins": int64(4), "max": int32(3)}, Inputs: slots{"X": One(Floats(dims{3}, 1, 2, 1))},
		Want: slots{"Out": One(Ints(dims{4}, 0, 2, 1, 0))}},
	{Name: "ends of the data", Type: "histogram", Attrs: attrs{"bins": int64(2)}, Inputs: slots{"X": One(Ints(dims{4}, 5, 7, 9, 6))}, Want: slots{"Out": One(Ints(dims{2}, 2, 2))}},
}

func TestLinearAlgebraOfWhatDoesNotFit(t *testing.T) {
	square := One(Floats(dims{2, 2}, 1, 2, 2, 4))
	for _, c := range []struct {
		Case
		kind fault.Kind
		want string
	}{
		{Case{Type: "inverse", Inputs: slots{"Input": square}}, fault.InvalidArgument, "no inverse"},
		{Case{Type: "inverse", Inputs: slots{"Input": One(Floats(dims{1, 2}, 1, 2))}}, fault.ShapeMismatch, "square"},
		{Case{Type: "solve", Inputs: slots{"X": square, "Y": square}}, fault.InvalidArgument, "no inverse"},
		{Case{Type: "solve", Inputs: slots{"X": square, "Y": One(Floats(dims{3}, 1, 2, 3))}}, fault.ShapeMismatch, "2 rows"},
		{Case{Type: "solve", Inputs: slots{"X": One(Spread(2, 2, 2, 2)), "Y": One(Spread(3, 3, 2, 1))}}, fault.Unsupported, "as many systems"},
		{Case{Type: "addmm", Inputs: slots{"Input": square, "X": square, "Y": One(Floats(dims{1, 2}, 1, 2))}}, fault.ShapeMismatch, "2 rows"},
		{Case{Type: "addmm", Inputs: slots{"Input": One(Floats(dims{1, 2}, 1, 2)), "X": square, "Y": square}}, fault.Unsupported, "Input"},
		{Case{Type: "histogram", Inputs: slots{"X": square}, Attrs: attrs{"bins": int64(0)}}, fault.InvalidArgument, "bins"},
		{Case{Type: "histogram", Inputs: slots{"X": One(Floats(dims{1}, math.NaN()))}}, fault.NotFinite, "finite"},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %v with %q", c.Case, err, c.kind, c.want)
		}
	}
}
