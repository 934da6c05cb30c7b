package nn_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

func rowLossCases() []Case {
	x, y := Floats(dims{2, 3}, 1, 1, 1, 1, 1, 1), Floats(dims{2, 3}, 1.25, 0.75, 3, -3, 1.5, 0.9)
	inside, outside := Floats(dims{2, 3}, 2, 2, 0.5, 1, 0, 1), Floats(dims{2, 3}, 2, 1, 1, 0, 1, 3)
	cases := []Case{
		{Name: "by hand", Type: "smooth_l1_loss", Inputs: slots{"X": One(x), "Y": One(y)},
			Want: slots{"Out": column(1./32+1./32+1.5, 3.5+0.125+0.005), "Diff": One(Floats(dims{2, 3}, -0.25, 0.25, -2, 4, -0.5, 0.1))}},
		{Name: "weights", Type: "smooth_l1_loss", Inputs: slots{"X": One(x), "Y": One(y), "InsideWeight": One(inside), "OutsideWeight": One(outside)},
			Constant: []string{"InsideWeight", "OutsideWeight"}, Attrs: attrs{"sigma": float32(2)},
			// s = 4, so differences from 1/4 on are linear
			Want: slots{"Out": column(2*0.375+0.375+0.875, 3*0.02), "Diff": One(Floats(dims{2, 3}, -0.5, 0.5, -1, 4, 0, 0.1))}},
		{Name: "rank 3", Type: "smooth_l1_loss", Inputs: slots{"X": One(Spread(1, 2, 2, 2)), "Y": One(Spread(2, 2, 2, 2))}},
		{Name: "by hand", Type: "bpr_loss", Inputs: slots{"X": One(Floats(dims{3, 3}, 1, 2, 4, 0, 0, 0, -800, 0, 1)), "Label": One(Ints(dims{3, 1}, 1, 2, 0))},
			Want: slots{"Y": column((soft(-1)+soft(2))/2, ln2, 800.5)}},
		{Name: "by hand", Type: "sigmoid_focal_loss", // p is 1/2, or close to 1
			Inputs: slots{"X": One(Floats(dims{3, 2}, 0, 0, 1, 2, 40, 0)), "Label": One(Int32s(dims{3, 1}, 2, -1, 0)), "FgNum": One(Int32s(dims{1}, 2))},
			Want:   slots{"Out": One(Floats(dims{3, 2}, 0.75*ln2/8, 0.25*ln2/8, 0, 0, 15, 0.75*ln2/8))}},
		{Name: "no foreground", Type: "sigmoid_focal_loss", Attrs: attrs{"gamma": float32(0), "alpha": float32(0.5)},
			Inputs: slots{"X": One(Floats(dims{2, 1}, 0.5, -700)), "Label": One(Int32s(dims{2, 1}, 0, 1)), "FgNum": One(Int32s(dims{1}, 0))},
			Want:   slots{"Out": column(soft(0.5)/2, 350)}},
		{Name: "rank 3", Type: "bpr_loss", Inputs: slots{"X": One(Spread(1, 2, 2, 3)), "Label": One(Ints(dims{2, 2, 1}, 0, 2, 1, 1))}},
	}
	for reduction, want := range map[string][]float64{"sum": {ln2 + 0.5}, "mean": {(ln2 + 0.5) / 4}, "batchmean": {(ln2 + 0.5) / 2}, "none": {ln2, 0, 0.5, 0}} {
		shape := dims{int64(len(want))}
		if reduction == "none" {
			shape = dims{2, 2}
		}
		cases = append(cases, Case{Name: reduction, Type: "kldiv_loss", Attrs: attrs{"reduction": reduction}, Constant: []string{"Target"},
			Inputs: slots{"X": One(Floats(dims{2, 2}, -ln2, -3, -0.5, -4)), "Target": One(Floats(dims{2, 2}, 1, 0, 1, -1))},
			Want:   slots{"Loss": One(Floats(shape, want...))}})
	}
	return cases
}

func TestRowLossesOfWhatDoesNotFit(t *testing.T) {
	two := One(Spread(1, 2, 2))
	for _, c := range []struct {
		Case
		kind fault.Kind
		want string
	}{
		{Case{Type: "smooth_l1_loss", Inputs: slots{"X": two, "Y": One(Spread(1, 2, 3))}}, fault.ShapeMismatch, "Y"},
		{Case{Type: "smooth_l1_loss", Inputs: slots{"X": two, "Y": two, "InsideWeight": two}}, fault.ShapeMismatch, "both weights"},
		{Case{Type: "smooth_l1_loss", Inputs: slots{"X": two, "Y": two, "OutsideWeight": two}}, fault.ShapeMismatch, "both weights"},
		{Case{Type: "smooth_l1_loss", Inputs: slots{"X": two, "Y": two}, Attrs: attrs{"sigma": float32(math.NaN())}}, fault.InvalidArgument, "sigma"},
		{Case{Type: "bpr_loss", Inputs: slots{"X": two, "Label": One(Ints(dims{2, 1}, 0, 2))}}, fault.InvalidArgument, "id 2 in row 1"},
		{Case{Type: "bpr_loss", Inputs: slots{"X": two, "Label": One(Ints(dims{2, 1}, -1, 0))}}, fault.InvalidArgument, "id -1 in row 0"},
		{Case{Type: "bpr_loss", Inputs: slots{"X": One(Spread(1, 2, 1)), "Label": One(Ints(dims{2, 1}, 0, 0))}}, fault.ShapeMismatch, "two items"},
		{Case{Type: "sigmoid_focal_loss", Inputs: slots{"X": two, "Label": One(Int32s(dims{2, 1}, 0, 3)), "FgNum": One(Int32s(dims{1}, 1))}}, fault.InvalidArgument,
			"label 3 in row 1"},
		{Case{Type: "sigmoid_focal_loss", Inputs: slots{"X": two, "Label": One(Ints(dims{2, 1}, 0, 1)), "FgNum": One(Int32s(dims{1}, 1))}}, fault.TypeMismatch, "int32"},
		{Case{Type: "kldiv_loss", Inputs: slots{"X": two, "Target": One(Spread(1, 4))}}, fault.ShapeMismatch, "Target"},
		{Case{Type: "kldiv_loss", Inputs: slots{"X": two, "Target": two}, Attrs: attrs{"reduction": "max"}}, fault.InvalidArgument, "batchmean"},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %v with %q", c.Case, err, c.kind, c.want)
		}
	}
}
