package sequence_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func tagged(values []int64, lengths ...int64) *tensor.Tensor {
	return gradcheck.Sequences(gradcheck.Ints(dims{int64(len(values)), 1}, values...), lengths...)
}

func filterCases() []gradcheck.Case {
	ins := gradcheck.Floats(dims{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	filter := gradcheck.One(gradcheck.Ints(dims{2}, 1, 9))
	return []gradcheck.Case{
		{Name: "rows", Type: "filter_by_instag", Attrs: attrs{"is_lod": false}, Loss: []string{"Out"},
			Inputs: slots{"Ins": gradcheck.One(ins), "Ins_tag": gradcheck.One(tagged([]int64{1, 2, 3, 4, 1, 1}, 2, 0, 1, 3)), "Filter_tag": filter},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{2, 2}, 1, 2, 7, 8)),
				"IndexMap": gradcheck.One(gradcheck.Ints(dims{2, 3}, 0, 0, 1, 1, 3, 1))}},
		{Name: "sequences", Type: "filter_by_instag", Loss: []string{"Out"},
			Inputs: slots{"Ins": gradcheck.One(gradcheck.Sequences(ins, 1, 3)), "Ins_tag": gradcheck.One(tagged([]int64{5, 6, 9}, 1, 2)), "Filter_tag": filter},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 2}, 3, 4, 5, 6, 7, 8)),
				"IndexMap": gradcheck.One(gradcheck.Ints(dims{1, 3}, 0, 1, 3))}},
		{Name: "none", Type: "filter_by_instag", Attrs: attrs{"is_lod": false, "out_val_if_empty": int64(7)}, Loss: []string{"Out"},
			Inputs: slots{"Ins": gradcheck.One(ins), "Ins_tag": gradcheck.One(tagged([]int64{5, 6, 7}, 1, 2, 0, 0)), "Filter_tag": filter},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{1, 2}, 7, 7)),
				"IndexMap": gradcheck.One(gradcheck.Ints(dims{1, 3}, 0, 1, 1))}},
	}
}

func TestFilterWantsTagsOfEachInstance(t *testing.T) {
	c := filterCases()[0]
	c.Inputs["Ins_tag"] = gradcheck.One(tagged([]int64{1, 2}, 1, 1))
	if err := gradcheck.Golden(c); fault.KindOf(err) != fault.ShapeMismatch {
		t.Error(err)
	}
}
