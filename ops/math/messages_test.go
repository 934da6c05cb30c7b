package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// edges are two tensors with four edges between their rows.
func edges(kind string, x, y *tensor.Tensor) (slots, attrs) {
	return slots{"x": One(x), "y": One(y), "src_index": One(Ints(dims{4}, 2, 1, 0, 2)), "dst_index": One(Ints(dims{4}, 0, 1, 1, 1))}, attrs{"message_op": kind}
}

func between(name, kind string, x, y, want *tensor.Tensor) Case {
	in, a := edges(kind, x, y)
	c := Case{Type: "graph_send_uv", Name: name, Inputs: in, Attrs: a}
	if want != nil {
		c.Want = slots{"out": One(want)}
	}
	return c
}

// messages sends along four edges, two of them to row 1.
func messages(name, kind, reduce string, x, y, want *tensor.Tensor, counts ...int32) Case {
	c := Case{Type: "graph_send_ue_recv", Name: name, Attrs: attrs{"message_op": kind, "reduce_op": reduce},
		Inputs: slots{"X": One(x), "Y": One(y), "Src_index": One(Ints(dims{4}, 2, 1, 0, 2)), "Dst_index": One(Ints(dims{4}, 0, 1, 2, 1))}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	if counts != nil {
		c.Want["Dst_count"] = One(Int32s(dims{int64(len(counts))}, counts...))
	}
	return c
}

// ofEdge has two numbers for each of four edges.
var ofEdge = Floats(dims{4, 2}, 1, -2, 3, 0.5, -1, 4, 2, -3)

var messageCases = []Case{
	between("", "ADD", Floats(dims{3, 2}, 1, 8, 2, 12, 7, -9), Floats(dims{2, 2}, 10, 20, 30, 40), Floats(dims{4, 2}, 17, 11, 32, 52, 31, 48, 37, 31)),
	between("products", "MUL", Floats(dims{3, 2}, 1, 8, 2, 12, 7, -9), Floats(dims{2, 1}, 2, 3), Floats(dims{4, 2}, 14, -18, 6, 36, 3, 24, 21, -27)),
	between("whole numbers", "MUL", Ints(dims{3}, 1, 2, 7), Ints(dims{2}, 2, 3), Ints(dims{4}, 14, 6, 3, 21)),
	between("heads", "MUL", Spread(1, 3, 2, 1), Spread(2, 2, 3), nil),
	between("rank", "ADD", Spread(1, 3, 2), Spread(2, 2, 3, 1), nil),
	messages("sums", "ADD", "SUM", sent()["X"][0], ofEdge, Floats(dims{3, 2}, 8, -11, 14, 0.5, 0, 12), 1, 2, 1),
	messages("weighted", "MUL", "SUM", sent()["X"][0], Floats(dims{4, 1}, 2, 3, -1, 0.5), Floats(dims{3, 2}, 14, -18, 9.5, 31.5, -1, -8), 1, 2, 1),
	messages("means", "MUL", "MEAN", sent()["X"][0], Floats(dims{4}, 2, 3, -1, 0.5), nil),
	messages("means of rank 1", "ADD", "MEAN", Floats(dims{3}, 1, 2, 7), Floats(dims{4}, 2, 3, -1, 0.5), Floats(dims{3}, 9, 6.25, 0), 1, 2, 1),
	messages("the largest", "ADD", "MAX", sent()["X"][0], ofEdge, Floats(dims{3, 2}, 8, -11, 9, 12.5, 0, 12), 1, 2, 1),
	messages("the smallest", "MUL", "MIN", sent()["X"][0], ofEdge, Floats(dims{3, 2}, 7, 18, 6, 6, -1, 32), 1, 2, 1),
	messages("heads", "MUL", "MEAN", Spread(1, 3, 2, 2), Spread(2, 4, 2, 1), nil),
	{Type: "graph_send_ue_recv", Name: "other rows", Attrs: attrs{"message_op": "ADD", "out_size": []int64{4}}, Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2)), "Y": One(Floats(dims{1, 1}, 5)),
		"Src_index": One(Int32s(dims{1}, 1)), "Dst_index": One(Int32s(dims{1}, 3))}, Want: slots{"Out": One(Floats(dims{4, 1}, 0, 0, 0, 7))}},
}

// Edges come from outside: none may lead out of a tensor.
func TestMessagesThatDoNotFit(t *testing.T) {
	x, y := Floats(dims{3, 2}, 1, 8, 2, 12, 7, -9), Floats(dims{2, 2}, 10, 20, 30, 40)
	changed := func(c Case, slot string, value *tensor.Tensor) Case {
		c.Inputs[slot] = One(value)
		return c
	}
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{changed(between("source", "ADD", x, y, nil), "src_index", Ints(dims{4}, 0, 1, 2, 3)), fault.InvalidArgument},
		{changed(between("target", "MUL", x, y, nil), "dst_index", Ints(dims{4}, 0, 1, 1<<40, 1)), fault.InvalidArgument},
		{changed(between("edges", "MUL", x, y, nil), "dst_index", Ints(dims{3}, 0, 1, 1)), fault.ShapeMismatch},
		{between("kind", "SUB", x, y, nil), fault.InvalidArgument},
		{between("rows", "ADD", x, Floats(dims{1, 3}, 1, 2, 3), nil), fault.ShapeMismatch},
		{between("type", "ADD", x, Ints(dims{2, 2}, 1, 2, 3, 4), nil), fault.TypeMismatch},
		{messages("too few", "ADD", "SUM", x, Floats(dims{3, 1}, 1, 2, 3), nil), fault.ShapeMismatch},
		{messages("number", "ADD", "SUM", x, Floats(nil, 1), nil), fault.ShapeMismatch},
		{changed(messages("source", "ADD", "MAX", x, ofEdge, nil), "Src_index", Ints(dims{4}, 0, -1, 2, 2)), fault.InvalidArgument},
		{messages("reduce", "ADD", "PROD", x, ofEdge, nil), fault.InvalidArgument},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.c, err, c.kind)
		}
	}
}
