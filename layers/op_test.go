package layers_test

import (
	"reflect"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestOpConvertsAttributesToTheirDeclaredTypes(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(6))
	layers.Op(m, "scale", layers.In{"X": {x}}, layers.Attrs{"scale": 2, "bias": 0.5})
	layers.Op(m, "transpose2", layers.In{"X": {x}}, layers.Attrs{"axis": []int{1, 0}})
	layers.Op(m, "fill_constant", nil, layers.Attrs{"shape": []int32{2, 3}, "dtype": tensor.Float64, "value": int64(7)})
	want := []map[string]program.Attr{
		{"scale": float32(2), "bias": float32(0.5)},
		{"axis": []int32{1, 0}},
		{"shape": []int64{2, 3}, "dtype": int32(tensor.Float64), "value": float32(7)},
	}
	for i, op := range finish(t, m).Global().Ops {
		for name, value := range want[i] {
			if got := op.Attrs[name]; !reflect.DeepEqual(got, value) {
				t.Errorf("%s of %s is %T %v, want %T %v", name, op.Type, got, got, value, value)
			}
		}
	}
}

func TestOpIntoWritesToTheGivenVariables(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(6))
	parts := layers.NewVariables(m, "parts", 2)
	out := layers.OpInto(m, "split", layers.In{"X": {x}}, layers.Attrs{"num": 2, "axis": 1}, layers.In{"Out": parts})
	finish(t, m)
	if got := out.All("Out"); len(got) != 2 || got[1].String() != "parts_0.tmp_1 float32[-1 3]" {
		t.Errorf("got %v", got)
	}
	if missing := out.One("Indices"); missing.OK() || missing.Model() != m {
		t.Errorf("a slot that the op does not have holds %v", missing)
	}
}

func TestOpRefusesVariablesOfAnotherModel(t *testing.T) {
	m, other := layers.NewModel(), layers.NewModel()
	x := layers.Data(other, "x", layers.Dims(6))
	if out := layers.Op(m, "relu", layers.In{"X": {x}}, nil).One("Out"); out.OK() {
		t.Errorf("got %v", out)
	}
	if _, err := m.Program(); err == nil {
		t.Error("the mistake is not reported")
	}
}
