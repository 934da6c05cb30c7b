package optim

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A choice is the op dgc with its tensors, in place.
type choice struct {
	u, v, grad, param []float32
	step, k, unused   []float32
	kernel            ops.Kernel
}

func newChoice(t *testing.T, n int, attrs map[string]program.Attr) *choice {
	t.Helper()
	c := &choice{}
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	op := &program.Op{Type: "dgc", Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: attrs}
	in, out := map[string][]*tensor.Tensor{}, map[string][]*tensor.Tensor{}
	made := func(n int) *tensor.Tensor { return filled(t, tensor.Float32, rng.NormFloat64, int64(n)) }
	for slot, to := range map[string]*[]float32{"U": &c.u, "V": &c.v, "Grad": &c.grad, "Param": &c.param} {
		v := made(n)
		op.Inputs[slot], in[slot], *to = []string{slot}, []*tensor.Tensor{v}, v.Float32s()
	}
	for slot, to := range map[string]*[]float32{"k": &c.k, "EncodeGrad": &c.unused} {
		v := made(1)
		op.Outputs[slot], out[slot], *to = []string{slot}, []*tensor.Tensor{v}, v.Float32s()
	}
	step := made(1)
	op.Inputs["current_step"], in["current_step"], c.step = []string{"step"}, []*tensor.Tensor{step}, step.Float32s()
	for slot, from := range map[string]string{"U_out": "U", "V_out": "V", "Grad_out": "Grad"} {
		op.Outputs[slot], out[slot] = []string{from}, in[from]
	}
	def, _ := ops.Lookup("dgc")
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, in, out, func(dtype tensor.DType, n int) *tensor.Tensor {
		v, err := tensor.New(dtype, int64(n))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}))
	if err != nil {
		t.Fatal(err)
	}
	c.kernel = kernel
	return c
}

// run runs a step and compares it with the formula, of which k elements count.
func (c *choice) run(t *testing.T, step float32, k int, m float64, nesterov bool, penalty func(p float64) float64) {
	t.Helper()
	c.step[0] = step
	u, v, g := slices.Clone(c.u), slices.Clone(c.v), slices.Clone(c.grad)
	if err := c.kernel(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c.k[0] != float32(k) || c.unused[0] != 0 {
		t.Errorf("step %v: k %v and %v, want %d and 0", step, c.k[0], c.unused[0], k)
	}
	type element struct {
		at   int
		u, v float64
	}
	all := make([]element, len(u))
	for i := range all {
		with := float64(g[i]) + penalty(float64(c.param[i]))
		e := element{at: i, u: m*float64(u[i]) + with, v: float64(v[i])}
		if nesterov {
			e.u = m * (float64(u[i]) + with)
			e.v += float64(g[i])
		}
		e.v += e.u
		if k == 0 { // not yet
			e = element{i, float64(u[i]), float64(v[i])}
			if near := math.Abs(float64(c.grad[i]) - with); near > 1e-6 {
				t.Fatalf("step %v: element %d of Grad_out is %v, want %v", step, i, c.grad[i], with)
			}
		}
		all[i] = e
	}
	slices.SortStableFunc(all, func(a, b element) int { return cmp.Compare(math.Abs(b.v), math.Abs(a.v)) })
	for rank, e := range all {
		want := [3]float64{e.u, e.v, 0}
		if rank < k {
			want = [3]float64{0, 0, e.v}
		}
		got := [3]float64{float64(c.u[e.at]), float64(c.v[e.at]), float64(c.grad[e.at])}
		if k == 0 {
			got[2] = 0
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-5 {
				t.Fatalf("step %v: element %d, the %d-th: %v, want %v", step, e.at, rank, got, want)
			}
		}
	}
	copy(c.grad, g)
}

func TestDGCFollowsItsFormula(t *testing.T) {
	none := func(float64) float64 { return 0 }
	for _, n := range []int{1, 40, 5000} {
		c := newChoice(t, n, map[string]program.Attr{"m": float32(0.5), "use_nesterov": false, "rampup_begin_step": float32(2), "rampup_step": float32(4),
			"sparsity": []float32{0.5, 0.75}})
		c.run(t, 0, 0, 0.5, false, none)
		c.run(t, 1.5, 0, 0.5, false, none)
		for step, share := range map[float32]int{2: 2, 3: 2, 4: 4, 5: 4, 90: 4} {
			c.run(t, step, max(1, n/share), 0.5, false, none)
		}
		c = newChoice(t, n, map[string]program.Attr{"m": float32(0.5), "regular_type": int32(2), "regular_coeff": float32(0.25), "sparsity": []float32{0.9}})
		c.run(t, 0, max(1, n/10), 0.5, true, func(p float64) float64 { return 0.25 * p })
		c = newChoice(t, n, map[string]program.Attr{"m": float32(0.5), "regular_type": int32(1), "regular_coeff": float32(0.25), "sparsity": []float32{0.9}, "use_nesterov": false})
		c.run(t, 0, max(1, n/10), 0.5, false, func(p float64) float64 { return math.Copysign(0.25, p) })
	}
}

func TestDGCAllocatesNothing(t *testing.T) {
	c := newChoice(t, 20000, map[string]program.Attr{"rampup_step": float32(2), "sparsity": []float32{0.75, 0.99}})
	step := float32(0)
	if n := testing.AllocsPerRun(5, func() { c.step[0] = step; step++; _ = c.kernel(context.Background()) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func TestDGCRefuses(t *testing.T) {
	def, _ := ops.Lookup("dgc")
	for name, change := range map[string]func(op *program.Op, metas map[string]ops.Meta){
		"a sparsity of 1": func(op *program.Op, _ map[string]ops.Meta) { op.SetAttr("sparsity", []float32{1}) },
		"many levels":     func(op *program.Op, _ map[string]ops.Meta) { op.SetAttr("sparsity", make([]float32, 65)) },
		"a penalty":       func(op *program.Op, _ map[string]ops.Meta) { op.SetAttr("regular_type", int32(3)) },
		"NaN":             func(op *program.Op, _ map[string]ops.Meta) { op.SetAttr("rampup_step", float32(math.NaN())) },
		"float64": func(_ *program.Op, metas map[string]ops.Meta) {
			m := metas["V"]
			m.DType = tensor.Float64
			metas["V"] = m
		},
		"other dims": func(_ *program.Op, metas map[string]ops.Meta) { m := metas["U"]; m.Dims = []int64{4}; metas["U"] = m },
		"too many": func(_ *program.Op, metas map[string]ops.Meta) {
			for slot, m := range metas {
				m.Dims = []int64{1 << 31}
				metas[slot] = m
			}
		},
	} {
		op := &program.Op{Type: "dgc", Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}
		metas := map[string]ops.Meta{}
		for _, slot := range def.Inputs {
			metas[slot.Name] = ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{3}}
			op.Inputs[slot.Name] = []string{slot.Name}
		}
		metas["current_step"] = ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}}
		for _, slot := range def.Outputs {
			op.Outputs[slot.Name] = []string{"out " + slot.Name}
		}
		if _, err := ops.Infer(op, func(n string) (ops.Meta, bool) { m, ok := metas[n]; return m, ok }); err != nil {
			t.Fatal(err)
		}
		change(op, metas)
		if _, err := ops.Infer(op, func(n string) (ops.Meta, bool) { m, ok := metas[n]; return m, ok }); err == nil || fault.KindOf(err) == fault.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Grad_out is Grad, wherever it is.
func TestDGCMomentumRepeatsTheGradient(t *testing.T) {
	u := newUpdate(t, "dgc_momentum", nil, tensor.Float32, 3, 4, 2)
	u.out["Grad_out"] = filled(t, tensor.Float32, func() float64 { return 9 }, 4, 2)
	u.op.Outputs["Grad_out"] = []string{"Grad_out"}
	u.run(t, 1)
	if !slices.Equal(u.out["Grad_out"].Float32s(), u.in[gradSlot].Float32s()) {
		t.Errorf("%v, want %v", u.out["Grad_out"].Float32s(), u.in[gradSlot].Float32s())
	}
}
