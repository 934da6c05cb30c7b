package sequence_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// lstmpInputs are those of cells of three elements and projections to so many.
func lstmpInputs(bias, columns int64, initial bool) slots {
	const width = 3
	in := slots{
		"Input":      gradcheck.One(ragged(1, 4*width, lengths...)),
		"Weight":     gradcheck.One(gradcheck.Spread(2, columns, 4*width)),
		"ProjWeight": gradcheck.One(gradcheck.Spread(6, width, columns)),
		"Bias":       gradcheck.One(gradcheck.Spread(3, 1, bias*width)),
	}
	if initial {
		in["H0"] = gradcheck.One(gradcheck.Spread(4, int64(len(lengths)), columns))
		in["C0"] = gradcheck.One(gradcheck.Spread(5, int64(len(lengths)), width))
	}
	return in
}

func lstmpCases() []gradcheck.Case {
	return []gradcheck.Case{
		{Name: "peepholes", Type: "lstmp", Inputs: lstmpInputs(7, 2, false)},
		{Name: "wider projection", Type: "lstmp", Inputs: lstmpInputs(4, 5, true), Attrs: attrs{"use_peepholes": false}},
		{Name: "clips", Type: "lstmp", Inputs: lstmpInputs(7, 2, true), Attrs: attrs{"cell_clip": float32(0.3), "proj_clip": float32(0.15), "is_reverse": true}},
		{Name: "identity", Type: "lstmp", Inputs: lstmpInputs(4, 2, false), Attrs: attrs{"use_peepholes": false, "proj_activation": "identity"}},
		{Name: "function of the cell", Type: "lstmp", Inputs: lstmpInputs(7, 2, false), Attrs: attrs{"cell_activation": "sigmoid"}},
		{Name: "only Projection", Type: "lstmp", Inputs: lstmpInputs(7, 2, true), Loss: []string{"Projection"}},
		{Name: "only Cell", Type: "lstmp", Inputs: lstmpInputs(7, 2, false), Loss: []string{"Cell"}},
		{Name: "no rows", Type: "lstmp", Inputs: slots{
			"Input":      gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{0, 4}))),
			"Weight":     gradcheck.One(gradcheck.Spread(2, 2, 4)),
			"ProjWeight": gradcheck.One(gradcheck.Spread(2, 1, 2)),
			"Bias":       gradcheck.One(gradcheck.Spread(3, 1, 7)),
		}},
	}
}

// With the unit matrix as ProjWeight and no function of the projection, lstmp has the bits of lstm.
func TestLSTMPIsLSTMWithoutProjection(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		in := lstmpInputs(7, 3, true)
		in["ProjWeight"] = gradcheck.One(gradcheck.Floats(dims{3, 3}, 1, 0, 0, 0, 1, 0, 0, 0, 1))
		projected := ranOn(t, "lstmp", in, attrs{"is_reverse": reverse, "proj_activation": "identity"}, "Projection")
		delete(in, "ProjWeight")
		plain := ranOn(t, "lstm", in, attrs{"is_reverse": reverse}, "Hidden")
		for name, want := range plain {
			if got := projected[name]; !slices.Equal(got, want) {
				t.Errorf("reverse %v: %s is %v, lstm has %v", reverse, name, got, want)
			}
		}
	}
}

// ranOn runs an op and the gradient of the sum of its first output. It returns that output, and the gradients of the inputs.
func ranOn(t *testing.T, opType string, in slots, attributes attrs, output string) map[string][]float64 {
	t.Helper()
	op := &program.Op{Type: opType, Attrs: attributes, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
	vars := map[string]*tensor.Tensor{}
	for slot, values := range in {
		op.Inputs[slot], vars[slot] = []string{slot}, values[0]
	}
	def, _ := ops.Lookup(opType)
	for _, slot := range def.Outputs {
		op.Outputs[slot.Name] = []string{slot.Name}
	}
	m := gradcheck.NewInterpreter(vars, ops.Step{})
	if err := m.Run(context.Background(), op); err != nil {
		t.Fatal(err)
	}
	m.Vars[program.GradName(output)] = m.Vars[output].Clone()
	made, err := def.Gradient(ops.NewGrad(op, def, func(name string) bool { return name == output }, func(name string) bool { return in[name] != nil }))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(context.Background(), made...); err != nil {
		t.Fatal(err)
	}
	values := map[string][]float64{"output": m.Vars[output].Float64s()}
	for slot := range in {
		values[slot] = m.Vars[program.GradName(slot)].Float64s()
	}
	return values
}
