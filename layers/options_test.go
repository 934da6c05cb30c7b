package layers_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Each option sets the attribute of Fluid that it stands for, and what follows from it.
func TestOptionsSetAttributes(t *testing.T) {
	for name, c := range map[string]struct {
		build func(in inputs) layers.Variable
		attr  string
		want  program.Attr
		dims  []int64
	}{
		"Dilation": {func(in inputs) layers.Variable {
			return layers.Conv2D(in.image, 2, 3, layers.Dilation(2, 3), layers.NoBias())
		},
			"dilations", []int32{2, 3}, []int64{-1, 2, 4, 2}},
		"CeilMode": {func(in inputs) layers.Variable {
			return layers.Pool2D(in.image, 3, layers.Stride(3, 3), layers.CeilMode())
		},
			"ceil_mode", true, []int64{-1, 4, 3, 3}},
		"CountPadding": {func(in inputs) layers.Variable {
			return layers.Pool2D(in.image, 2, layers.AvgPool(), layers.CountPadding())
		},
			"exclusive", false, []int64{-1, 4, 7, 7}},
		"SoftLabel": {func(in inputs) layers.Variable { return layers.CrossEntropy(in.rows, in.columns, layers.SoftLabel()) },
			"soft_label", true, []int64{-1, 1}},
		"IgnoreIndex": {func(in inputs) layers.Variable { return layers.CrossEntropy(in.rows, in.label, layers.IgnoreIndex(5)) },
			"ignore_index", int32(5), []int64{-1, 1}},
	} {
		in := newInputs()
		out := c.build(in)
		p := finish(t, in.m)
		op := p.Global().Ops[len(p.Global().Ops)-1]
		if got := op.Attrs[c.attr]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s of %s is %#v, want %#v", name, c.attr, op.Type, got, c.want)
		}
		if v, _ := p.Global().Var(out.Name()); !slices.Equal(v.Dims, c.dims) {
			t.Errorf("%s: dims %v, want %v", name, v.Dims, c.dims)
		}
	}
}

// words is a model with sequences for DynamicLSTM, and what it begins with.
func words() (m *layers.Model, x, hidden, cell layers.Variable) {
	m = layers.NewModel()
	return m, layers.Data(m, "words", layers.Dims(8), layers.LoD(1)), layers.Data(m, "hidden", layers.Dims(2)), layers.Data(m, "cell", layers.Dims(2))
}

func TestDynamicLSTMBeginsWithItsInitialState(t *testing.T) {
	m, x, hidden, cell := words()
	layers.DynamicLSTM(x, 8, layers.InitialState(hidden, cell), layers.Reverse())
	ops := finish(t, m).Global().Ops
	op := ops[len(ops)-1]
	if op.In("H0") != "hidden" || op.In("C0") != "cell" {
		t.Errorf("begins with %q and %q", op.In("H0"), op.In("C0"))
	}
	if reverse, _ := op.Bool("is_reverse"); !reverse {
		t.Error("reads forwards")
	}
	m, x, _, _ = words()
	other := layers.NewModel()
	foreign := layers.Data(other, "foreign", layers.Dims(2), layers.DType(tensor.Float32))
	layers.DynamicLSTM(x, 8, layers.InitialState(foreign, foreign))
	if _, err := m.Program(); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `"foreign"`) {
		t.Errorf("a state of another model: %v", err)
	}
}
