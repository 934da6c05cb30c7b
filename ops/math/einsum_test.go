package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// summed applies an equation.
func summed(equation string, want *tensor.Tensor, operands ...*tensor.Tensor) Case {
	c := Case{Type: "einsum", Name: equation, Inputs: slots{"Operands": One(operands...)}, Attrs: attrs{"equation": equation}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var einsumCases = []Case{
	summed("ij,jk->ik", Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2, 2}, 1, 0, 0, 1)),
	summed("ij,kj->ki", Floats(dims{1, 2}, 5, 11), Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{1, 2}, 1, 2)),
	summed("bij,bjk->bki", Floats(dims{2, 1, 2}, 1, 2, 6, 8), Floats(dims{2, 2, 1}, 1, 2, 3, 4), Floats(dims{2, 1, 1}, 1, 2)),
	summed("i,i->", Floats(dims{1}, 11), Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4)),
	summed("i,j->ji", Floats(dims{2, 2}, 3, 6, 4, 8), Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4)),
	summed("ijk->ki", Floats(dims{2, 1}, 4, 6), Floats(dims{1, 2, 2}, 1, 2, 3, 4)),
	summed("ij->", Floats(dims{1}, 10), Floats(dims{2, 2}, 1, 2, 3, 4)),
	summed("ija,jb->jb", nil, Floats(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)),
	summed("...ij,...jk->...ik", Floats(dims{2, 1, 1}, 5, 25), Floats(dims{2, 1, 2}, 1, 2, 3, 4), Floats(dims{2, 2, 1}, 1, 2, 3, 4)),
	summed("ba,bc", Floats(dims{1, 2}, 11, 16), Floats(dims{2, 1}, 1, 2), Floats(dims{2, 2}, 3, 4, 4, 6)),
	summed("bhwc,hkc->bhwk", nil, Floats(dims{1, 2, 1, 2}, 1, 2, 3, 4), Floats(dims{2, 3, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
}

func TestEinsumRefusesWhatIsNoEquation(t *testing.T) {
	x := Floats(dims{2, 2}, 1, 2, 3, 4)
	for _, c := range []Case{
		summed("ii->i", nil, x), summed("ij->ik", nil, x), summed("ij,jk,kl->il", nil, x, x, x), summed("ijk->i", nil, x), summed("i1->i", nil, x), summed("ij->jj", nil, x),
		summed("ij,jk->ik", nil, x, Floats(dims{3, 1}, 1, 2, 3)),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%v: %v", c, err)
		}
	}
}
