package gradcheck

import (
	"context"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file break one law each, to show that the kit notices.
func init() {
	bad := func(name string, run func(b *ops.Binding, x, out []float64)) ops.Def {
		return ops.Def{
			Type: name, Doc: "Breaks a law.",
			Inputs: []ops.Slot{{Name: "X"}}, Outputs: []ops.Slot{{Name: "Out"}},
			Infer: func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
			Bind: func(b *ops.Binding) (ops.Kernel, error) {
				x, out := b.In("X"), b.Out("Out")
				return func(context.Context) error { run(b, x.Float64s(), out.Float64s()); return nil }, nil
			},
			RowSliced: true, InPlace: map[string]string{"Out": "X"},
		}
	}
	twice := func(_ *ops.Binding, x, out []float64) {
		for i := range out {
			out[i] = 2 * x[i]
		}
	}
	wrong := bad("bad_gradient", twice)
	wrong.Gradient = func(g *ops.Grad) ([]*program.Op, error) {
		op := g.GradOp("scale")
		op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
		op.SetAttr("scale", float32(3))
		return []*program.Op{op}, nil
	}
	ops.Register(wrong)
	none := bad("bad_no_gradient", twice)
	none.Gradient = func(*ops.Grad) ([]*program.Op, error) { return nil, nil }
	ops.Register(none)
	ops.Register(bad("bad_in_place", func(_ *ops.Binding, x, out []float64) {
		for i := range out {
			out[i] = x[len(x)-1-i]
		}
	}))
	ops.Register(bad("bad_allocation", func(_ *ops.Binding, x, out []float64) { copy(out, append([]float64(nil), x...)) }))
	open := bad("bad_open_extents", twice)
	open.Infer = func(s *ops.Shapes) error {
		if s.In("X").Dims[0] < 0 {
			return s.Errorf("X", "known dims")
		}
		s.Like("Out", "X")
		return nil
	}
	ops.Register(open)
	panics := bad("bad_panic", twice)
	panics.Infer = func(s *ops.Shapes) error { s.Set("Out", tensor.Float64, s.In("X").Dims[1]); return nil }
	ops.Register(panics)
}

func badCase(name string) Case {
	return Case{Type: name, Inputs: map[string][]*tensor.Tensor{"X": {Spread(1, 3, 2)}}}
}

func TestTheKitNoticesBrokenLaws(t *testing.T) {
	ofOp := func(law func(*trace, *program.Op) error) func(*trace) error {
		return func(t *trace) error { return law(t, t.forward) }
	}
	for _, c := range []struct {
		op   string
		law  func(*trace) error
		want string
	}{
		{"bad_gradient", differences, "finite differences give"},
		{"bad_no_gradient", differences, "no op of the gradient writes"},
		{"bad_in_place", ofOp(inPlace), "in the buffer of X"},
		{"bad_in_place", ofOp(rowSliced), "element 0"},
		{"bad_allocation", ofOp(allocates), "a run"},
		{"bad_open_extents", ofOp(openExtents), "known dims"},
	} {
		trace, err := run(badCase(c.op), tensor.Float64)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.law(trace); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.op, err, c.want)
		}
	}
}

func TestTheKitNoticesPanicsAndWrongOutputs(t *testing.T) {
	metas := map[string]ops.Meta{"X.0": {Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{3}}}
	if err := survives(badCase("bad_panic").op(), metas, mutator{}); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("a panic of Infer is reported as %v", err)
	}
	c := badCase("bad_in_place")
	c.Want = map[string][]*tensor.Tensor{"Out": {Spread(1, 3, 2)}}
	if err := Golden(c); err == nil || !strings.Contains(err.Error(), "want") {
		t.Errorf("a wrong output is reported as %v", err)
	}
}

func TestSpreadKeepsItsDistances(t *testing.T) {
	for seed := range 20 {
		for _, n := range []int64{1, 2, 5, 12, 60} {
			values := Spread(seed, n).Float64s()
			for i, v := range values {
				if v*v < 1/float64(16*n*n) || v < -1 || v > 1 {
					t.Fatalf("seed %d of %d: element %d is %v", seed, n, i, v)
				}
				for _, other := range values[:i] {
					if near(other, v, 1/float64(2*n)) {
						t.Fatalf("seed %d of %d: %v and %v are too close", seed, n, other, v)
					}
				}
			}
		}
	}
}
