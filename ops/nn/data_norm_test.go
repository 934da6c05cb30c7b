package nn_test

import (
	"maps"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
)

// dataSums are the sums of data_norm: means 1 and 2, scales 1/2 and 2.
func dataSums(more slots) slots {
	in := slots{"BatchSize": gradcheck.One(gradcheck.Floats(dims{2}, 4, 8)), "BatchSum": gradcheck.One(gradcheck.Floats(dims{2}, 4, 16)),
		"BatchSquareSum": gradcheck.One(gradcheck.Floats(dims{2}, 16, 2))}
	maps.Copy(in, more)
	return in
}

var (
	onlyX         = []string{"BatchSize", "BatchSum", "BatchSquareSum"}
	dataNormCases = []gradcheck.Case{
		{Name: "by hand", Type: "data_norm", Inputs: dataSums(slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 2}, 1, 3, 5, 2))}), Constant: onlyX,
			Want: slots{"Y": gradcheck.One(gradcheck.Floats(dims{2, 2}, 0, 2, 2, 0)), "Means": gradcheck.One(gradcheck.Floats(dims{2}, 1, 2)),
				"Scales": gradcheck.One(gradcheck.Floats(dims{2}, 0.5, 2))}},
		{Name: "channels last", Type: "data_norm", Inputs: dataSums(slots{"X": gradcheck.One(gradcheck.Spread(3, 5, 2))}), Constant: onlyX,
			Attrs: attrs{"data_layout": "NHWC"}},
		{Name: "sequences", Type: "data_norm", Inputs: dataSums(slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Spread(2, 3, 2), 2, 0, 1))}), Constant: onlyX},
		{Name: "by hand", Type: "data_norm_grad", Inputs: dataSums(slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 2}, 1, 3, 5, 2)),
			"Means": gradcheck.One(gradcheck.Floats(dims{2}, 1, 2)), "Scales": gradcheck.One(gradcheck.Floats(dims{2}, 0.5, 2)),
			"Y@GRAD": gradcheck.One(gradcheck.Floats(dims{2, 2}, 1, 2, 3, 4))}), Attrs: attrs{"epsilon": float32(0)},
			Want: slots{"X@GRAD": gradcheck.One(gradcheck.Floats(dims{2, 2}, 0.5, 4, 1.5, 8)), "BatchSize@GRAD": gradcheck.One(gradcheck.Floats(dims{2}, 2, 2)),
				"BatchSum@GRAD": gradcheck.One(gradcheck.Floats(dims{2}, 6, 5)), "BatchSquareSum@GRAD": gradcheck.One(gradcheck.Floats(dims{2}, 16, 1))}},
		{Name: "epsilon", Type: "data_norm_grad", Inputs: dataSums(slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 2}, 1, 3, 5, 2)),
			"Means": gradcheck.One(gradcheck.Floats(dims{2}, 1, 2)), "Scales": gradcheck.One(gradcheck.Floats(dims{2}, 0.5, 2)),
			"Y@GRAD": gradcheck.One(gradcheck.Spread(1, 2, 2))}), Attrs: attrs{"epsilon": float32(1) / 1024},
			Want: slots{"BatchSquareSum@GRAD": gradcheck.One(gradcheck.Floats(dims{2}, 16+1./512, 1+1./512))}},
	}
)

func TestDataNormThatDoesNotFit(t *testing.T) {
	x := slots{"X": gradcheck.One(gradcheck.Spread(1, 3, 2))}
	for _, c := range []struct {
		name   string
		inputs slots
		attrs  attrs
		want   fault.Kind
	}{
		{"images", slots{"X": gradcheck.One(gradcheck.Spread(1, 1, 2, 2, 2))}, nil, fault.ShapeMismatch},
		{"columns", slots{"X": gradcheck.One(gradcheck.Spread(1, 2, 3))}, nil, fault.ShapeMismatch},
		{"sums", slots{"X": x["X"], "BatchSum": gradcheck.One(gradcheck.Spread(1, 3))}, nil, fault.ShapeMismatch},
		{"whole numbers", slots{"X": x["X"], "BatchSize": gradcheck.One(gradcheck.Ints(dims{2}, 1, 2))}, nil, fault.TypeMismatch},
		{"large epsilon", x, attrs{"epsilon": float32(0.01)}, fault.InvalidArgument},
		{"negative epsilon", x, attrs{"epsilon": float32(-1)}, fault.InvalidArgument},
	} {
		err := gradcheck.Golden(gradcheck.Case{Name: c.name, Type: "data_norm", Inputs: dataSums(c.inputs), Attrs: c.attrs})
		if fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
