package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func vector[T tensor.Element](t *testing.T, values ...T) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(values, int64(len(values)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// runScaling runs an op of scaled losses on workers. Out is X, and each other output a tensor of its own unless out has it.
func runScaling(t *testing.T, opType string, attrs map[string]program.Attr, in, out map[string][]*tensor.Tensor) error {
	t.Helper()
	def, _ := ops.Lookup(opType)
	op := &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: attrs}
	metas := map[string]ops.Meta{}
	for slot, ts := range in {
		for i, x := range ts {
			name := slot + string(rune('0'+i))
			op.Inputs[slot], metas[name] = append(op.Inputs[slot], name), ops.MetaOfValue(x)
		}
	}
	for slot, ts := range out {
		for i := range ts {
			name := slot + string(rune('0'+i))
			if slot == "Out" {
				name = "X" + string(rune('0'+i))
			}
			op.Outputs[slot] = append(op.Outputs[slot], name)
		}
	}
	if f := def.Check(op); len(f) > 0 {
		return f.Err()
	}
	if _, err := ops.Infer(op, func(name string) (ops.Meta, bool) { m, ok := metas[name]; return m, ok }); err != nil {
		return err
	}
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor {
		x, err := tensor.New(dtype, int64(n))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	run, err := def.Bind(ops.NewBinding(op, def, &ops.Env{Step: &ops.Step{}, Workers: 2}, in, out, scratch))
	if err != nil {
		return err
	}
	return run(t.Context())
}

func TestCheckFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	long := slices.Repeat([]float32{2}, 2*scalingChunk+1)
	broken := slices.Clone(long)
	broken[2*scalingChunk] = inf
	for name, c := range map[string]struct {
		x, want [][]float32
		found   bool
		old     bool // the op of 1.8
	}{
		"finite":          {x: [][]float32{{4, -8}, {2}}, want: [][]float32{{1, -2}, {0.5}}},
		"nothing":         {x: [][]float32{}},
		"long":            {x: [][]float32{long}, want: [][]float32{slices.Repeat([]float32{0.5}, len(long))}},
		"the second is":   {x: [][]float32{{4}, {2, inf, 1}, {8}}, want: [][]float32{{1}, {0, float32(math.NaN()), 0}, {0}}, found: true},
		"the last of all": {x: [][]float32{{4}, broken}, want: [][]float32{{1}, nil}, found: true},
		"of 1.8":          {x: [][]float32{{4}, {8}}, want: [][]float32{{16}, {32}}, old: true},
		"of 1.8, broken":  {x: [][]float32{{4}, {inf}, {8}}, want: [][]float32{{16}, {inf}, {8}}, found: true, old: true},
	} {
		var xs []*tensor.Tensor
		for _, x := range c.x {
			xs = append(xs, vector(t, slices.Clone(x)...))
		}
		opType, found := "check_finite_and_unscale", vector(t, !c.found)
		if c.old {
			opType = "amp_check_finite_and_scale"
		}
		in, out := map[string][]*tensor.Tensor{"Scale": {vector[float32](t, 4)}}, map[string][]*tensor.Tensor{"FoundInfinite": {found}}
		if len(xs) > 0 {
			in["X"], out["Out"] = xs, xs
		}
		if err := runScaling(t, opType, nil, in, out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found.Bools()[0] != c.found {
			t.Errorf("%s: FoundInfinite %v", name, found)
		}
		for i, want := range c.want {
			got := xs[i].Float32s()
			if want != nil && !slices.EqualFunc(got, want, func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Errorf("%s: gradient %d is %v, want %v", name, i, got[:min(4, len(got))], want[:min(4, len(want))])
			}
		}
	}
}

// Rows of a sparse gradient that are not in use count as little as others of the table.
func TestCheckFiniteOfRows(t *testing.T) {
	x := vector(t, []float32{4, 8, float32(math.NaN())}...)
	x, err := x.Reshape(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	x, err = tensor.Select(x, vector[int64](t, 1, 5, 9), 9)
	if err != nil {
		t.Fatal(err)
	}
	found := vector(t, true)
	if err := runScaling(t, "check_finite_and_unscale", nil, map[string][]*tensor.Tensor{"X": {x}, "Scale": {vector[float32](t, 4)}},
		map[string][]*tensor.Tensor{"Out": {x}, "FoundInfinite": {found}}); err != nil {
		t.Fatal(err)
	}
	if found.Bools()[0] || !slices.Equal(x.Float32s()[:2], []float32{1, 2}) {
		t.Errorf("found %v, values %v", found.Bools()[0], x.Float32s())
	}
}

func TestUpdateLossScaling(t *testing.T) {
	for name, c := range map[string]struct {
		found, stop bool
		scale       float32
		good, bad   int32
		wantScale   float32
		wantGood    int32
		wantBad     int32
	}{
		"finite":                         {scale: 8, good: 0, bad: 1, wantScale: 8, wantGood: 1},
		"finite for long":                {scale: 8, good: 2, wantScale: 16},
		"too large to grow":              {scale: math.MaxFloat32, good: 2, wantScale: math.MaxFloat32},
		"not finite":                     {found: true, scale: 8, good: 2, wantScale: 8, wantBad: 1},
		"not finite again":               {found: true, scale: 8, bad: 1, wantScale: 2},
		"not below 1":                    {found: true, scale: 2, bad: 1, wantScale: 1},
		"only gradients, not the scale":  {found: true, stop: true, scale: 8, good: 2, bad: 1, wantScale: 8, wantGood: 2, wantBad: 1},
		"another op has the scale to do": {stop: true, scale: 8, good: 2, wantScale: 8, wantGood: 2},
	} {
		for _, byTensor := range []bool{false, true} {
			attrs := map[string]program.Attr{"incr_every_n_steps": int32(3), "decr_every_n_nan_or_inf": int32(2), "incr_ratio": float32(2), "decr_ratio": float32(0.25), "stop_update": c.stop && !byTensor}
			x, scale, good, bad := vector[float32](t, 3, 4), vector(t, c.scale), vector(t, c.good), vector(t, c.bad)
			in := map[string][]*tensor.Tensor{"X": {x}, "FoundInfinite": {vector(t, c.found)}, "PrevLossScaling": {scale}, "InGoodSteps": {good}, "InBadSteps": {bad}}
			if byTensor {
				in["StopUpdate"] = []*tensor.Tensor{vector(t, c.stop)}
			}
			if err := runScaling(t, "update_loss_scaling", attrs, in, map[string][]*tensor.Tensor{"Out": {x}, "LossScaling": {scale}, "OutGoodSteps": {good}, "OutBadSteps": {bad}}); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			want := []float32{3, 4}
			if c.found {
				want = []float32{0, 0}
			}
			if s, g, b := scale.Float32s()[0], good.Int32s()[0], bad.Int32s()[0]; s != c.wantScale || g != c.wantGood || b != c.wantBad || !slices.Equal(x.Float32s(), want) {
				t.Errorf("%s: scale %v, good %d, bad %d, gradients %v", name, s, g, b, x.Float32s())
			}
		}
	}
}

// Wrong operands are errors.
func TestLossScalingFaults(t *testing.T) {
	one, found := []*tensor.Tensor{vector[float32](t, 1)}, []*tensor.Tensor{vector(t, false)}
	count := []*tensor.Tensor{vector[int32](t, 1)}
	attrs := func(grow, drop float32) map[string]program.Attr {
		return map[string]program.Attr{"incr_every_n_steps": int32(3), "decr_every_n_nan_or_inf": int32(2), "incr_ratio": grow, "decr_ratio": drop}
	}
	type slots = map[string][]*tensor.Tensor
	scaling := slots{"X": one, "FoundInfinite": found, "PrevLossScaling": one, "InGoodSteps": count, "InBadSteps": count}
	results := slots{"Out": one, "LossScaling": one, "OutGoodSteps": count, "OutBadSteps": count}
	for name, c := range map[string]struct {
		op      string
		attrs   map[string]program.Attr
		in, out slots
	}{
		"a ratio that shrinks":   {"update_loss_scaling", attrs(0.5, 0.5), scaling, results},
		"a drop that grows":      {"update_loss_scaling", attrs(2, 2), scaling, results},
		"too few results":        {"check_finite_and_unscale", nil, slots{"X": {one[0], one[0]}, "Scale": one}, slots{"Out": one, "FoundInfinite": found}},
		"a scale of integers":    {"check_finite_and_unscale", nil, slots{"X": one, "Scale": count}, slots{"Out": one, "FoundInfinite": found}},
		"a scale of another":     {"check_finite_and_unscale", nil, slots{"X": one, "Scale": {vector[float64](t, 1)}}, slots{"Out": one, "FoundInfinite": found}},
		"a scale of two numbers": {"check_finite_and_unscale", nil, slots{"X": one, "Scale": {vector[float32](t, 1, 2)}}, slots{"Out": one, "FoundInfinite": found}},
		"counters of floats": {"update_loss_scaling", attrs(2, 0.5), slots{"X": one, "FoundInfinite": found, "PrevLossScaling": one, "InGoodSteps": one, "InBadSteps": count},
			slots{"Out": one, "LossScaling": one, "OutGoodSteps": one, "OutBadSteps": count}},
	} {
		if err := runScaling(t, c.op, c.attrs, c.in, c.out); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
