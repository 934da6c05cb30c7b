package math_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestSegments(t *testing.T) {
	x := gradcheck.Floats(dims{4, 2}, 1, 8, 3, 4, -5, 6, 7, -9)
	ids := gradcheck.Ints(dims{4}, 0, 0, 2, 2)
	for kind, want := range map[string][]float64{
		"SUM": {4, 12, 0, 0, 2, -3}, "MEAN": {2, 6, 0, 0, 1, -1.5}, "MAX": {3, 8, 0, 0, 7, 6}, "MIN": {1, 4, 0, 0, -5, -9},
	} {
		in := slots{"X": gradcheck.One(x), "SegmentIds": gradcheck.One(ids)}
		got := atRun(t, "segment_pool", attrs{"pooltype": kind}, in, "Out", "SummedIds")
		if !slices.Equal(got["Out"].Float64s(), want) || !slices.Equal(got["Out"].Dims(), dims{3, 2}) || !slices.Equal(got["SummedIds"].Float64s(), []float64{2, 0, 2}) {
			t.Errorf("%s: %v %v, want %v", kind, got["Out"].Dims(), got["Out"].Float64s(), want)
		}
		// The gradient is that of differences.
		dout := gradcheck.Floats(dims{3, 2}, 1, -2, 3, 5, 0.5, 4)
		in["Out"], in["Out@GRAD"] = gradcheck.One(got["Out"]), gradcheck.One(dout)
		dx := atRun(t, "segment_pool_grad", attrs{"pooltype": kind}, in, "X@GRAD")["X@GRAD"].Float64s()
		for i := range x.Len() {
			loss := func(step float64) (sum float64) {
				moved := x.Clone()
				moved.Float64s()[i] += step
				of := atRun(t, "segment_pool", attrs{"pooltype": kind}, slots{"X": gradcheck.One(moved), "SegmentIds": gradcheck.One(ids)}, "Out")["Out"]
				for k, v := range of.Float64s() {
					sum += v * dout.Float64s()[k]
				}
				return sum
			}
			if slope := (loss(1e-3) - loss(-1e-3)) / 2e-3; math.Abs(slope-dx[i]) > 1e-9 {
				t.Errorf("%s: gradient %v of element %d, differences give %v", kind, dx[i], i, slope)
			}
		}
	}
	whole := atRun(t, "segment_pool", nil, slots{"X": gradcheck.One(gradcheck.Ints(dims{3}, 5, 6, 7)), "SegmentIds": gradcheck.One(gradcheck.Int32s(dims{3}, 1, 1, 1))}, "Out")["Out"]
	if !slices.Equal(whole.Int64s(), []int64{0, 18}) {
		t.Errorf("%v", whole)
	}
}

// A number may ask for no more rows than fit, and is looked at before there are any.
func TestSegmentsRefuseNumbersThatDoNotFit(t *testing.T) {
	def, _ := ops.Lookup("segment_pool")
	op := &program.Op{Type: "segment_pool", Inputs: map[string][]string{"X": {"x"}, "SegmentIds": {"ids"}}, Outputs: map[string][]string{"Out": {"y"}}}
	for _, ids := range []*tensor.Tensor{gradcheck.Ints(dims{2}, 1, 0), gradcheck.Ints(dims{2}, -1, 0), gradcheck.Ints(dims{2}, 0, 1<<50)} {
		in := slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 1}, 1, 2)), "SegmentIds": gradcheck.One(ids)}
		kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, in, slots{"Out": gradcheck.One(gradcheck.Floats(dims{0}))}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", ids, err)
		}
	}
}

var sendCases = []gradcheck.Case{
	{Name: "sums", Type: "graph_send_recv", Inputs: sent(), Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 2}, 7, -9, 9, 3, 1, 8)), "Dst_count": gradcheck.One(gradcheck.Int32s(dims{3}, 1, 2, 1))}},
	{Name: "means of fewer rows", Type: "graph_send_recv", Attrs: attrs{"reduce_op": "MEAN", "out_size": []int64{2}},
		Inputs: slots{"X": sent()["X"], "Src_index": gradcheck.One(gradcheck.Int32s(dims{3}, 1, 0, 2)), "Dst_index": gradcheck.One(gradcheck.Int32s(dims{3}, 1, 1, 1))},
		Want:   slots{"Out": gradcheck.One(gradcheck.Floats(dims{2, 2}, 0, 0, 10.0/3, 11.0/3))}},
	{Name: "the largest", Type: "graph_send_recv", Attrs: attrs{"reduce_op": "MAX", "out_size": []int64{4}}, Inputs: sent(),
		Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{4, 2}, 7, -9, 7, 12, 1, 8, 0, 0))}},
	{Name: "the smallest", Type: "graph_send_recv", Attrs: attrs{"reduce_op": "MIN"}, Inputs: sent(),
		Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 2}, 7, -9, 2, -9, 1, 8))}},
}

// sent are a tensor and four edges between its rows, two of them to row 1.
func sent() slots {
	return slots{"X": gradcheck.One(gradcheck.Floats(dims{3, 2}, 1, 8, 2, 12, 7, -9)), "Src_index": gradcheck.One(gradcheck.Ints(dims{4}, 2, 1, 0, 2)),
		"Dst_index": gradcheck.One(gradcheck.Ints(dims{4}, 0, 1, 2, 1))}
}

// Edges come from outside: none may lead out of a tensor.
func TestEdgesThatLeadNowhere(t *testing.T) {
	for _, c := range []struct {
		change func(in slots) attrs
		kind   fault.Kind
	}{
		{func(in slots) attrs { in["Src_index"] = gradcheck.One(gradcheck.Ints(dims{4}, 2, 1, 0, 3)); return nil }, fault.InvalidArgument},
		{func(in slots) attrs {
			in["Src_index"] = gradcheck.One(gradcheck.Ints(dims{4}, 2, 1, -1, 2))
			return nil
		}, fault.InvalidArgument},
		{func(in slots) attrs {
			in["Dst_index"] = gradcheck.One(gradcheck.Ints(dims{4}, 2, 1<<40, 0, 2))
			return nil
		}, fault.InvalidArgument},
		{func(in slots) attrs { return attrs{"out_size": []int64{2}} }, fault.InvalidArgument},
		{func(in slots) attrs { return attrs{"out_size": []int64{1 << 62}} }, fault.InvalidArgument},
		{func(in slots) attrs { return attrs{"reduce_op": "mean"} }, fault.InvalidArgument},
		{func(in slots) attrs { in["Dst_index"] = gradcheck.One(gradcheck.Ints(dims{3}, 0, 1, 2)); return nil }, fault.ShapeMismatch},
	} {
		in := sent()
		a := c.change(in)
		if err := gradcheck.Golden(gradcheck.Case{Type: "graph_send_recv", Inputs: in, Attrs: a}); fault.KindOf(err) != c.kind {
			t.Errorf("%v %v: %v, want %v", in, a, err, c.kind)
		}
	}
}
