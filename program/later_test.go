package program_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
)

// Attributes of types that Paddle has since 2.3 are read as those that ops have here.
func TestLaterTypesOfAttributes(t *testing.T) {
	m, err := fluidtext.Read(`var x float32 [-1,4] feed=[2,4]
assign_value -> Out=a | shape=[2] dtype=5 values=scalars:[1.5,2] fp32_values=[]
assign_value -> Out=b | shape=[2] dtype=3 values=scalars:[1,2]
assign_value -> Out=c | shape=[2] dtype=0 values=scalars:[true,false]
set_value Input=x -> Out=y | axes=[0L] starts=[0L] ends=[1L] steps=[1L] dtype=6 shape=[1L] values=scalars:[3]
fill_any_like X=x -> Out=d | value=scalar:2.5 dtype=-1
split X=x -> Out=e | num=2 axis=var:axis
squeeze2 X=x -> Out=f XShape=g | axes=vars:axis,other
isclose Input=x Other=x -> Out=h | rtol="1e-05" atol="0.5" equal_nan=false
`)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		attr  string
		value program.Attr
		slot  string
		names []string
	}{
		{attr: "fp32_values", value: []float64{1.5, 2}}, {attr: "int64_values", value: []int64{1, 2}}, {attr: "bool_values", value: []int64{1, 0}},
		{attr: "fp64_values", value: []float64{3}}, {attr: "value", value: 2.5},
		{attr: "axis", slot: "AxisTensor", names: []string{"axis"}}, {attr: "axes", slot: "AxesTensorList", names: []string{"axis", "other"}},
		{attr: "atol", value: float32(0.5)},
	} {
		op := m.Program.Global().Ops[i]
		if got := op.Attrs[want.attr]; !reflect.DeepEqual(got, want.value) {
			t.Errorf("%s: %s = %#v, want %#v", op.Type, want.attr, got, want.value)
		}
		if want.slot != "" && !slices.Equal(op.Inputs[want.slot], want.names) {
			t.Errorf("%s: %s of %v, want %v", op.Type, want.slot, op.Inputs, want.names)
		}
		if _, left := op.Attrs["values"]; left {
			t.Errorf("%s has values still", op.Type)
		}
	}
}

// One number has the dims [] since Paddle 2.5, where the program says so and an op gives one number. A program that was read so is read again as it is.
func TestSingleNumbersOfLaterPrograms(t *testing.T) {
	const text = `var x float32 [-1,2] feed=[2,2]
var loss float32 []
var rows float32 []
mean X=x -> Out=loss
reduce_sum X=x -> Out=rows | dim=[1] keep_dim=false reduce_all=false
`
	for version, want := range map[string][]string{"2004002": {"mean", "reduce_sum"}, "2005000": {"mean", "reshape", "reduce_sum"}} {
		m, err := fluidtext.Read("version " + version + "\n" + text)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var got []string
			for _, op := range m.Program.Global().Ops {
				got = append(got, op.Type)
			}
			if !slices.Equal(got, want) {
				t.Errorf("version %s: %v, want %v", version, got, want)
			}
			if last := m.Program.Global().Ops[len(want)-2]; last.Out("Out") != "loss" {
				t.Errorf("version %s: %s writes %s, want loss", version, last.Type, last.Out("Out"))
			}
			if m.Program, err = fluidtext.Again(m.Program); err != nil {
				t.Fatal(err)
			}
		}
	}
}
