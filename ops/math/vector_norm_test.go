package math_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var vectorNormCases = []Case{
	along("reduce_prod", "", attrs{"dim": []int32{1}}, six, slots{"Out": One(Floats(dims{3}, 2, 12, 30))}),
	along("reduce_prod", "int64", attrs{"reduce_all": true}, Ints(dims{2, 2}, 1, 2, 3, 4), slots{"Out": One(Ints(dims{1}, 24))}),
	along("reduce_sum", "int64", attrs{"dim": []int32{0}}, Ints(dims{2, 2}, 1, 2, 3, 4), slots{"Out": One(Ints(dims{2}, 4, 6))}),
	along("reduce_max", "int32", attrs{"dim": []int32{1}}, Int32s(dims{2, 2}, -1, -2, 3, 4), slots{"Out": One(Int32s(dims{2}, -1, 4))}),
	along("reduce_min", "int64", attrs{"dim": []int32{1}}, Ints(dims{2, 2}, 1, 2, 3, 4), slots{"Out": One(Ints(dims{2}, 1, 3))}),
	along("reduce_all", "", attrs{"dim": []int32{1}}, Bools(dims{2, 2}, true, false, true, true), slots{"Out": One(Bools(dims{2}, false, true))}),
	along("reduce_any", "", attrs{"dim": []int32{0}, "keep_dim": true}, Bools(dims{2, 2}, true, false, true, false), slots{"Out": One(Bools(dims{1, 2}, true, false))}),
	along("frobenius_norm", "", attrs{"dim": []int32{0, 1}, "keep_dim": true}, Floats(dims{2, 2}, 1, 2, 4, 2), slots{"Out": One(Floats(dims{1, 1}, 5))}),
	along("frobenius_norm", "columns", attrs{"dim": []int32{0}}, Floats(dims{2, 2}, 3, 5, 4, 12), slots{"Out": One(Floats(dims{2}, 5, 13))}),
	along("frobenius_norm", "outer axes", attrs{"dim": []int32{0, 2}}, Spread(1, 2, 3, 2), nil),
	along("logsumexp", "", attrs{"dim": []int32{1}}, Floats(dims{2, 2}, 0, math.Log(3), 700, 700), slots{"Out": One(Floats(dims{2}, math.Log(4), 700+math.Ln2))}),
	along("logsumexp", "later attributes", attrs{"axis": []int32{0}, "keepdim": true}, Floats(dims{2, 1}, 0, math.Log(3)), slots{"Out": One(Floats(dims{1, 1}, math.Log(4)))}),
	along("l1_norm", "", nil, Floats(dims{2, 2}, 1, -2, 3, -4), slots{"Out": One(Floats(dims{1}, 10))}),
	along("p_norm", "", nil, Floats(dims{2, 2}, 3, -4, 5, 12), slots{"Out": One(Floats(dims{2}, 5, 13))}),
	along("p_norm", "order 3", attrs{"porder": float32(3), "axis": int32(0), "keepdim": true}, Floats(dims{2, 1}, 1, -2), slots{"Out": One(Floats(dims{1, 1}, math.Cbrt(9)))}),
	along("p_norm", "order 1", attrs{"porder": float32(1), "asvector": true}, Floats(dims{2, 2}, 1, -2, 3, -4), slots{"Out": One(Floats(dims{1}, 10))}),
	along("p_norm", "infinite", attrs{"porder": float32(math.Inf(1))}, Floats(dims{1, 3}, 1, -4, 2), slots{"Out": One(Floats(dims{1}, 4))}),
	along("p_norm", "minus infinite", attrs{"porder": float32(math.Inf(-1))}, Floats(dims{1, 3}, 1, -4, 2), slots{"Out": One(Floats(dims{1}, 1))}),
	along("p_norm", "order 0", attrs{"porder": float32(0)}, Floats(dims{1, 2}, 7, -7), slots{"Out": One(Floats(dims{1}, 2))}),
	along("norm", "", attrs{"axis": int32(1), "epsilon": float32(0)}, Floats(dims{2, 2}, 3, 4, 5, 12),
		slots{"Out": One(Floats(dims{2, 2}, 0.6, 0.8, 5.0/13, 12.0/13)), "Norm": One(Floats(dims{2, 1}, 5, 13))}),
	along("norm", "channels", attrs{"axis": int32(1)}, Spread(1, 2, 3, 2), nil),
}

func TestNormsRefuseWhatDoesNotFit(t *testing.T) {
	for _, c := range []Case{
		along("p_norm", "order", attrs{"porder": float32(math.NaN())}, six, nil),
		along("norm", "axis", attrs{"axis": int32(2)}, six, nil),
		along("logsumexp", "axis", attrs{"dim": []int32{2}}, six, nil),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
