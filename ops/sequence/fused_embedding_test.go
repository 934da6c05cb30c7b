package sequence_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func fused(name string, a attrs, ids *tensor.Tensor, want ...float64) gradcheck.Case {
	c := gradcheck.Case{Type: "fused_embedding_seq_pool", Name: name, Attrs: a, Inputs: slots{"Ids": gradcheck.One(ids),
		"W": gradcheck.One(gradcheck.Floats(dims{3, 2}, 0, 1, 10, 11, 20, 21))}}
	if want != nil {
		c.Want = slots{"Out": gradcheck.One(gradcheck.Floats(dims{int64(len(want)) / 2, 2}, want...))}
	}
	return c
}

func fusedCases() []gradcheck.Case {
	ids := func() *tensor.Tensor {
		return gradcheck.Sequences(gradcheck.Ints(dims{6, 1}, 2, 0, 2, 1, 0, 0), 3, 0, 1, 2)
	}
	return []gradcheck.Case{
		fused("", nil, ids(), 40, 43, 0, 0, 10, 11, 0, 2),
		fused("sparse", attrs{"is_sparse": true}, ids(), 40, 43, 0, 0, 10, 11, 0, 2),
		fused("padding", attrs{"padding_idx": int64(2)}, ids(), 0, 1, 0, 0, 10, 11, 0, 2),
		fused("sparse padding", attrs{"is_sparse": true, "padding_idx": int64(0)}, ids(), 40, 42, 0, 0, 10, 11, 0, 0),
		fused("mean", attrs{"combiner": "mean"}, ids(), 40./3, 43./3, 0, 0, 10, 11, 0, 1),
		fused("sparse mean", attrs{"combiner": "mean", "is_sparse": true}, ids(), 40./3, 43./3, 0, 0, 10, 11, 0, 1),
		fused("sqrt", attrs{"combiner": "sqrt", "padding_idx": int64(2)}, ids(), 0, 1/math.Sqrt(3), 0, 0, 10, 11, 0, math.Sqrt2),
		fused("no ids", nil, gradcheck.Sequences(gradcheck.Ints(dims{0, 1}), 0, 0), 0, 0, 0, 0),
		fused("two levels", nil, func() *tensor.Tensor {
			t := gradcheck.Ints(dims{6, 1}, 2, 0, 2, 1, 0, 0)
			t.SetLoD([][]int64{{0, 2, 3}, {0, 1, 4, 6}})
			return t
		}(), 20, 21, 30, 33, 0, 2),
	}
}

func TestFusedEmbeddingRefuses(t *testing.T) {
	ids := gradcheck.Sequences(gradcheck.Ints(dims{2, 1}, 2, 0), 2)
	for name, c := range map[string]gradcheck.Case{
		"an id outside":      fused("", nil, gradcheck.Sequences(gradcheck.Ints(dims{2, 1}, 0, 3), 2)),
		"a negative id":      fused("", nil, gradcheck.Sequences(gradcheck.Ints(dims{2, 1}, -1, 0), 2)),
		"a maximum":          fused("", attrs{"combiner": "max"}, ids),
		"no combiner":        fused("", attrs{"combiner": "none"}, ids),
		"ids of other ranks": fused("", nil, gradcheck.Sequences(gradcheck.Ints(dims{2, 1, 1}, 2, 0), 2)),
		"two ids a row":      fused("", nil, gradcheck.Sequences(gradcheck.Ints(dims{1, 2}, 2, 0), 1)),
		"no sequences":       fused("", nil, gradcheck.Ints(dims{2, 1}, 2, 0)),
		"floats":             fused("", nil, gradcheck.Sequences(gradcheck.Floats(dims{2, 1}, 2, 0), 2)),
	} {
		if err := gradcheck.Golden(c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
