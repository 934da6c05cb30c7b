package comm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func sendOp(a attrs) *program.Op {
	return &program.Op{Type: "send", Inputs: args{"X": {"w@GRAD.block0", "b:x@GRAD"}}, Outputs: args{"Out": {"__control_var@0"}}, Attrs: a}
}

func recvOp(a attrs) *program.Op {
	return &program.Op{Type: "recv", Inputs: args{"X": {"__control_var@1"}}, Outputs: args{"Out": {"w.block0", "b:x"}}, Attrs: a}
}

func TestStepOnTheWire(t *testing.T) {
	r := &recorder{}
	env := &ops.Env{Comm: r}
	w, b := vector(t, 1, 2, 3), vector(t, 4)
	both := []*tensor.Tensor{w, b}
	epmap := []string{"pserver:1", "pserver:0"}
	for _, step := range []struct {
		op      *program.Op
		in, out map[string][]*tensor.Tensor
	}{
		{op: sendOp(attrs{"epmap": epmap, "merge": int32(ops.MergeSum), "send_varnames": []string{"g0", "g1"}}),
			in: map[string][]*tensor.Tensor{"X": both}},
		{op: sendOp(attrs{"epmap": epmap}), in: map[string][]*tensor.Tensor{"X": both}},
		{op: &program.Op{Type: "send_barrier"}},
		{op: recvOp(attrs{"epmap": epmap, "recv_varnames": []string{"p0", "p1"}}), out: map[string][]*tensor.Tensor{"Out": both}},
		{op: recvOp(attrs{"epmap": epmap}), out: map[string][]*tensor.Tensor{"Out": both}},
		{op: &program.Op{Type: "fetch_barrier"}},
	} {
		if _, err := infer(step.op, 3); err != nil {
			t.Fatal(err)
		}
		kernel, err := bind(step.op, env, step.in, step.out)
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"send g0 1 2 float32[3]", "send g1 0 2 float32[1]",
		"send w@GRAD.block0 1 1 float32[3]", "send b:x@GRAD 0 1 float32[1]",
		"send barrier",
		"recv p0 1 0 float32[3]", "recv p1 0 0 float32[1]",
		"recv w.block0 1 0 float32[3]", "recv b:x 0 0 float32[1]",
		"fetch barrier",
	}
	if !slices.Equal(r.calls, want) {
		t.Errorf("the wire saw\n%s\nwant\n%s", strings.Join(r.calls, "\n"), strings.Join(want, "\n"))
	}
	for i, m := range r.messages {
		if m.Value != both[i%2] {
			t.Errorf("message %d does not carry the tensor of its variable", i)
		}
	}
}

func TestErrorsOfTheWireEndTheOp(t *testing.T) {
	epmap := attrs{"epmap": []string{"pserver:1", "pserver:0"}}
	both := []*tensor.Tensor{vector(t, 1), vector(t, 2)}
	for _, c := range []struct {
		op    *program.Op
		calls int
	}{{sendOp(epmap), 1}, {recvOp(epmap), 1}, {&program.Op{Type: "send_barrier"}, 1}, {&program.Op{Type: "fetch_barrier"}, 1}} {
		r := &recorder{failAt: 1}
		kernel, err := bind(c.op, &ops.Env{Comm: r}, map[string][]*tensor.Tensor{"X": both}, map[string][]*tensor.Tensor{"Out": both})
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); !errors.Is(err, errWire) || len(r.calls) != c.calls {
			t.Errorf("%s: %v after %d calls", c.op.Type, err, len(r.calls))
		}
	}
}

func TestControlVariablesHaveNoElements(t *testing.T) {
	send := sendOp(attrs{"epmap": []string{"pserver:0", "pserver:0"}})
	barrier := &program.Op{Type: "send_barrier", Inputs: args{"X": {"__control_var@0"}}, Outputs: args{"Out": {"__control_var@1"}}}
	for _, op := range []*program.Op{send, barrier} {
		s, err := infer(op, 3)
		if err != nil {
			t.Fatal(err)
		}
		if m := s.Outs("Out")[0]; m.String() != "float32[0]" {
			t.Errorf("%s yields the control variable %v", op.Type, m)
		}
	}
	s, err := infer(recvOp(attrs{"epmap": []string{"pserver:0", "pserver:0"}}), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Outs("Out") {
		if m.Kind != 0 {
			t.Errorf("recv infers %v, want the declaration to stand", m)
		}
	}
}

func TestKernelsAllocateNothing(t *testing.T) {
	env := &ops.Env{Comm: quiet{}, Server: &fakeServer{}}
	words := func() *tensor.Tensor { w, _ := tensor.New(tensor.Int64, 4); return w }
	epmap := attrs{"epmap": []string{"pserver:1", "pserver:0"}}
	both := []*tensor.Tensor{vector(t, 1), vector(t, 2)}
	for _, c := range []struct {
		op      *program.Op
		in, out []*tensor.Tensor
	}{
		{sendOp(epmap), both, nil},
		{recvOp(epmap), nil, both},
		{&program.Op{Type: "send_barrier"}, nil, nil},
		{splitOp([]int32{1, 2}, "a", "b"), []*tensor.Tensor{vector(t, 1, 2, 3)}, []*tensor.Tensor{vector(t, 0), vector(t, 0, 0)}},
		{exchangeOp("a", "b"), []*tensor.Tensor{words()}, []*tensor.Tensor{words(), words()}},
	} {
		kernel, err := bind(c.op, env, map[string][]*tensor.Tensor{"X": c.in}, map[string][]*tensor.Tensor{"Out": c.out})
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { _ = kernel(t.Context()) }); n != 0 {
			t.Errorf("%s allocates %v times a run", c.op.Type, n)
		}
	}
}
