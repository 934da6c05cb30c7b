package optim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestSlots holds the slots against Fluid's: Param, Grad, LearningRate and ParamOut are common.
func TestSlots(t *testing.T) {
	slots := map[string][2]string{
		"sgd":             {"", ""},
		"momentum":        {"Velocity", "VelocityOut"},
		"adagrad":         {"Moment", "MomentOut"},
		"decayed_adagrad": {"Moment", "MomentOut"},
		"adadelta":        {"AvgSquaredGrad AvgSquaredUpdate", "AvgSquaredGradOut AvgSquaredUpdateOut"},
		"adam":            {"Moment1 Moment2 Beta1Pow Beta2Pow", "Moment1Out Moment2Out"},
		"adamax":          {"Moment InfNorm Beta1Pow", "MomentOut InfNormOut"},
		"rmsprop":         {"MeanSquare Moment MeanGrad", "MeanSquareOut MomentOut MeanGradOut"},
		"ftrl":            {"SquaredAccumulator LinearAccumulator", "SquaredAccumOut LinearAccumOut"},
	}
	for _, opType := range all {
		def, _ := ops.Lookup(opType)
		in := "Param Grad LearningRate " + slots[opType][0]
		if opType == "adadelta" {
			in = "Param Grad " + slots[opType][0]
		}
		if got := names(def.Inputs); !slices.Equal(got, strings.Fields(in)) {
			t.Errorf("inputs of %s: %v, want %v", opType, got, in)
		}
		if got := names(def.Outputs); !slices.Equal(got, strings.Fields("ParamOut "+slots[opType][1])) {
			t.Errorf("outputs of %s: %v", opType, got)
		}
		if def.Class != ops.Optimize || !def.RowSliced || len(def.InPlace) != len(def.Outputs) {
			t.Errorf("%s is not a row-sliced update in place: class %v, RowSliced %v, InPlace %v", opType, def.Class, def.RowSliced, def.InPlace)
		}
	}
}

func names(slots []ops.Slot) []string {
	var out []string
	for _, s := range slots {
		out = append(out, s.Name)
	}
	return out
}

func TestMissingVariables(t *testing.T) {
	for _, opType := range all {
		def, _ := ops.Lookup(opType)
		for _, side := range []string{"in", "out"} {
			slots := def.Inputs
			if side == "out" {
				slots = def.Outputs
			}
			for _, slot := range slots {
				u := newUpdate(t, opType, map[string]program.Attr{"centered": true}, tensor.Float32, 1, 6, 2)
				if side == "in" {
					u.op.Inputs[slot.Name] = []string{program.Empty}
					delete(u.in, slot.Name)
				} else {
					u.op.Outputs[slot.Name] = []string{program.Empty}
					delete(u.out, slot.Name)
				}
				if _, err := u.infer(nil); !errors.Is(err, fault.InvalidProgram) {
					t.Errorf("%s without %s infers: %v", opType, slot.Name, err)
				}
				if _, err := u.bind(nil); !errors.Is(err, fault.InvalidProgram) {
					t.Errorf("%s without %s binds: %v", opType, slot.Name, err)
				}
			}
		}
	}
}

func TestMeanGradIsOptionalUnlessCentered(t *testing.T) {
	u := newUpdate(t, "rmsprop", nil, tensor.Float32, 1, 3)
	delete(u.in, "MeanGrad")
	delete(u.out, "MeanGradOut")
	delete(u.op.Inputs, "MeanGrad")
	delete(u.op.Outputs, "MeanGradOut")
	if _, err := u.infer(nil); err != nil {
		t.Fatal(err)
	}
	u.run(t, 1)
}
