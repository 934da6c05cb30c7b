package optim

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// all lists the op types of the package.
var all = []string{"sgd", "momentum", "adagrad", "decayed_adagrad", "adadelta", "adam", "adamw", "adamax", "rmsprop", "ftrl", "proximal_gd",
	"proximal_adagrad", "lars_momentum", "lamb", "dpsgd"}

// wholes are those that need norms of the whole parameter.
var wholes = []string{"lars_momentum", "lamb", "dpsgd"}

// An update is an op with the tensors of its input slots. Outputs are the inputs unless apart is set.
type update struct {
	op      *program.Op
	def     *ops.Def
	in, out map[string]*tensor.Tensor
}

// newUpdate makes an op in place over tensors of the given dims, filled as an optimizer in mid-training would hold them.
func newUpdate(t testing.TB, opType string, attrs map[string]program.Attr, dtype tensor.DType, seed uint64, dims ...int64) *update {
	t.Helper()
	def, ok := ops.Lookup(opType)
	if !ok {
		t.Fatalf("%s is not registered", opType)
	}
	u := &update{def: def, in: map[string]*tensor.Tensor{}, out: map[string]*tensor.Tensor{},
		op: &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}}
	maps.Copy(u.op.Attrs, attrs)
	if _, ok := u.op.Attrs["mu"]; !ok && strings.HasSuffix(opType, "momentum") {
		u.op.Attrs["mu"] = float32(0.9)
	}
	if _, ok := u.op.Attrs["rampup_begin_step"]; !ok && opType == "dgc_momentum" {
		u.op.Attrs["rampup_begin_step"] = float32(4) // the step after this one
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, slot := range def.Inputs {
		value := func() float64 { return rng.Float64() + 0.01 } // accumulators of squares are positive
		slotDims := dims
		switch slot.Name {
		case paramSlot, gradSlot, "Velocity", "LinearAccumulator":
			value = rng.NormFloat64
		case currentStep.Name, ranks.Name:
			slotDims = []int64{1}
			value = func() float64 { return 3 }
		case rateSlot, "Beta1Pow", "Beta2Pow":
			slotDims = []int64{1}
			value = func() float64 { return 0.05 + rng.Float64()*0.9 }
		}
		if opType == "rmsprop" && slot.Name == "MeanGrad" {
			value = func() float64 { return rng.Float64() * 0.1 } // its square stays below MeanSquare
		}
		u.in[slot.Name] = filled(t, dtype, value, slotDims...)
		u.op.Inputs[slot.Name] = []string{slot.Name}
	}
	for out, in := range def.InPlace {
		u.out[out] = u.in[in]
		u.op.Outputs[out] = []string{in}
	}
	return u
}

func filled(t testing.TB, dtype tensor.DType, value func() float64, dims ...int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Float32s() {
		x.Float32s()[i] = float32(value())
	}
	for i := range x.Float64s() {
		x.Float64s()[i] = value()
	}
	return x
}

// rows is the same update of rows [from, to) of a copy.
func (u *update) rows(t testing.TB, from, to int64) *update {
	t.Helper()
	s := &update{op: u.op, def: u.def, in: map[string]*tensor.Tensor{}, out: map[string]*tensor.Tensor{}}
	for slot, x := range u.in {
		s.in[slot] = x.Clone()
		if slices.Equal(x.Dims(), u.in[paramSlot].Dims()) {
			part, err := s.in[slot].Rows(from, to)
			if err != nil {
				t.Fatal(err)
			}
			s.in[slot] = part
		}
	}
	for out, in := range u.def.InPlace {
		s.out[out] = s.in[in]
	}
	return s
}

func (u *update) bind(env *ops.Env) (ops.Kernel, error) {
	if env == nil {
		env = &ops.Env{Step: &ops.Step{}}
	}
	return u.def.Bind(u.binding(env, func(dtype tensor.DType, n int) *tensor.Tensor {
		x, err := tensor.New(dtype, int64(n))
		if err != nil {
			panic(err)
		}
		return x
	}))
}

// binding is what u is bound with, where scratch makes the memory that it asks for.
func (u *update) binding(env *ops.Env, scratch func(tensor.DType, int) *tensor.Tensor) *ops.Binding {
	list := func(ts map[string]*tensor.Tensor) map[string][]*tensor.Tensor {
		l := map[string][]*tensor.Tensor{}
		for slot, x := range ts {
			l[slot] = []*tensor.Tensor{x}
		}
		return l
	}
	return ops.NewBinding(u.op, u.def, env, list(u.in), list(u.out), scratch)
}

func (u *update) run(t testing.TB, times int) {
	t.Helper()
	run, err := u.bind(&ops.Env{Step: &ops.Step{}})
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		if err := run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// infer runs the shape inference with metas of the update's own inputs, changed by change.
func (u *update) infer(change func(map[string]ops.Meta)) (*ops.Shapes, error) {
	metas := map[string]ops.Meta{}
	for slot, x := range u.in {
		metas[slot] = ops.Meta{Kind: program.LoDTensor, DType: x.DType(), Dims: x.Dims()}
	}
	if change != nil {
		change(metas)
	}
	return ops.Infer(u.op, func(name string) (ops.Meta, bool) {
		m, ok := metas[name]
		return m, ok
	})
}

// float64sOf copies the elements as float64.
func float64sOf(x *tensor.Tensor) []float64 {
	out := slices.Clone(x.Float64s())
	for _, v := range x.Float32s() {
		out = append(out, float64(v))
	}
	return out
}

// sparse replaces the gradient of u by rows of random values. It returns u with the dense gradient.
func (u *update) sparse(t testing.TB, rows []int64, seed uint64) (dense *update) {
	t.Helper()
	param := u.in[paramSlot]
	height, width := param.Dims()[0], param.Dims()[1]
	rng := rand.New(rand.NewPCG(seed, 7))
	value := filled(t, param.DType(), rng.NormFloat64, int64(len(rows)), width)
	dense = u.rows(t, 0, height)
	whole, err := tensor.New(param.DType(), height, width)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		for j := range width {
			from, to := i*int(width)+int(j), int(row*width+j)
			if param.DType() == tensor.Float32 {
				whole.Float32s()[to] += value.Float32s()[from]
			} else {
				whole.Float64s()[to] += value.Float64s()[from]
			}
		}
	}
	dense.in[gradSlot] = whole
	grad, err := (&tensor.SelectedRows{Rows: rows, Height: height, Value: value}).Tensor()
	if err != nil {
		t.Fatal(err)
	}
	u.in[gradSlot] = grad
	return dense
}

// bindParts binds with garbage in scratch memory, for workers goroutines.
func (u *update) bindParts(t testing.TB, workers int) (*ops.Binding, ops.Kernel) {
	t.Helper()
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor {
		x := filled(t, dtype, func() float64 { return 1e30 }, int64(n))
		for i := range x.Int64s() {
			x.Int64s()[i] = -1 << 50
		}
		return x
	}
	b := u.binding(&ops.Env{Step: &ops.Step{}, Workers: workers}, scratch)
	run, err := u.def.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, run
}

func (u *update) runSparse(t testing.TB) {
	t.Helper()
	_, run := u.bindParts(t, 1)
	if err := run(context.Background()); err != nil {
		t.Fatal(err)
	}
}
