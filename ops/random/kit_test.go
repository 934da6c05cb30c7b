package random_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var opTypes = []string{"uniform_random", "gaussian_random", "truncated_gaussian_random"}

// initializer makes an op that fills the variable w.
func initializer(opType string, attrs map[string]program.Attr, shape ...int64) *program.Op {
	op := &program.Op{Type: opType, Outputs: map[string][]string{"Out": {"w"}}, Attrs: map[string]program.Attr{"shape": shape}}
	maps.Copy(op.Attrs, attrs)
	return op
}

func infer(op *program.Op) (ops.Meta, error) {
	s, err := ops.Infer(op, func(string) (ops.Meta, bool) { return ops.Meta{}, false })
	if err != nil {
		return ops.Meta{}, err
	}
	return s.Outs("Out")[0], nil
}

// run infers, binds and runs an op and returns its elements as float64.
func run(t testing.TB, op *program.Op) []float64 {
	t.Helper()
	meta, err := infer(op)
	if err != nil {
		t.Fatal(err)
	}
	out, kernel := bind(t, op, meta)
	if err := kernel(t.Context()); err != nil {
		t.Fatal(err)
	}
	values := slices.Clone(out.Float64s())
	for _, v := range out.Float32s() {
		values = append(values, float64(v))
	}
	return values
}

func bind(t testing.TB, op *program.Op, meta ops.Meta) (*tensor.Tensor, ops.Kernel) {
	t.Helper()
	out, err := tensor.New(meta.DType, meta.Dims...)
	if err != nil {
		t.Fatal(err)
	}
	def, _ := ops.Lookup(op.Type)
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{Step: &ops.Step{}}, nil, map[string][]*tensor.Tensor{"Out": {out}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	return out, kernel
}
