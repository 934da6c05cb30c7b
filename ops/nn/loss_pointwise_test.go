package nn_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func column(values ...float64) []*tensor.Tensor {
	return One(Floats(dims{int64(len(values)), 1}, values...))
}

// soft is log(1 + e**x).
func soft(x float64) float64 { return math.Log(1 + math.Exp(x)) }

var pointLossCases = []Case{
	{Type: "huber_loss", Attrs: attrs{"delta": float32(0.5)},
		Inputs: slots{"X": column(1, 1, 1, 1), "Y": column(1.25, 0.75, 3, -3)},
		Want:   slots{"Out": column(1./32, 1./32, 0.875, 1.875), "Residual": column(0.25, -0.25, 2, -4)}},
	{Type: "modified_huber_loss", Constant: []string{"Y"},
		Inputs: slots{"X": column(0.5, 0.5, 3, -3), "Y": column(1, 0, 1, 1)},
		Want:   slots{"Out": column(0.25, 2.25, 0, 12), "IntermediateVal": column(0.5, -0.5, 3, -3)}},
	{Type: "hinge_loss", Constant: []string{"Labels"},
		Inputs: slots{"Logits": column(0.5, 0.5, 3, -3), "Labels": column(1, 0, 1, 1)},
		Want:   slots{"Loss": column(0.5, 1.5, 0, 4)}},
	{Type: "rank_loss",
		Inputs: slots{"Label": column(1, 0, 0.5), "Left": column(2, 2, -1), "Right": column(1, 1, 700)},
		Want:   slots{"Out": column(soft(1)-1, soft(1), 350.5)}},
	{Type: "margin_rank_loss", Attrs: attrs{"margin": float32(0.5)}, Constant: []string{"Label"},
		Inputs: slots{"Label": column(1, -1, 1, -1), "X1": column(2, 2, 1, 1), "X2": column(1, 1, 1.25, 1.25)},
		Want:   slots{"Out": column(0, 1.5, 0.75, 0.25), "Activated": column(0, 1, 1, 1)}},
	{Type: "teacher_student_sigmoid_loss", Constant: []string{"Label"},
		Inputs: slots{"X": column(1, 1, 1, 1, -2), "Label": column(-2, -1, 0.25, 1.25, 1)},
		Want:   slots{"Y": column(soft(1), soft(1)-1, 2*soft(1)-0.25, 2*soft(1)-1.25, 2*soft(-2)+2)}},
	{Type: "bce_loss", Constant: []string{"Label"},
		Inputs: slots{"X": column(0.5, 0.25, 0.25), "Label": column(1, 1, 0.5)},
		Want:   slots{"Out": column(ln2, 2*ln2, ln2-math.Log(0.75)/2)}},
}

func TestLossesOfPointsAtTheirLimits(t *testing.T) {
	for _, c := range []Case{
		{Type: "bce_loss", Inputs: slots{"X": column(0, 1, 1), "Label": column(1, 0, 1)}, Want: slots{"Out": column(100, 100, 0)}},
		{Type: "huber_loss", Attrs: attrs{"delta": float32(0)}, Inputs: slots{"X": column(1), "Y": column(3)}, Want: slots{"Out": column(0)}},
		{Type: "margin_rank_loss", Inputs: slots{"Label": column(1), "X1": column(0), "X2": column(0)}, Want: slots{"Out": column(0), "Activated": column(0)}},
	} {
		if err := Golden(c); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestAPointWithTwoShapes(t *testing.T) {
	err := Golden(Case{Type: "rank_loss", Inputs: slots{"Label": column(1, 0), "Left": column(1, 0), "Right": column(1)}})
	if fault.KindOf(err) != fault.ShapeMismatch || !strings.Contains(err.Error(), "Right") {
		t.Errorf("two labels and one right score: %v", err)
	}
	err = Golden(Case{Type: "huber_loss", Attrs: attrs{"delta": float32(math.Inf(1))}, Inputs: slots{"X": column(1), "Y": column(1)}})
	if fault.KindOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "delta") {
		t.Errorf("an infinite delta: %v", err)
	}
}
