package optim

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

func TestInferGivesOutputsTheirShapes(t *testing.T) {
	for _, opType := range all {
		u := newUpdate(t, opType, nil, tensor.Float64, 1, 6, 2)
		s, err := u.infer(nil)
		if err != nil {
			t.Fatal(err)
		}
		for out, x := range u.out {
			if m := s.Outs(out); len(m) != 1 || m[0].DType != tensor.Float64 || !slices.Equal(m[0].Dims, x.Dims()) {
				t.Errorf("%s %s is inferred as %v", opType, out, m)
			}
		}
		if c := u.def.Cost(s); c.Flops < 12 || c.Bytes < 3*12*8 {
			t.Errorf("%s costs %+v", opType, c)
		}
	}
}

// TestInferFaults changes one input of every op at a time.
func TestInferFaults(t *testing.T) {
	set := func(slot string, change func(*ops.Meta)) func(map[string]ops.Meta) {
		return func(m map[string]ops.Meta) {
			v := m[slot]
			change(&v)
			m[slot] = v
		}
	}
	for _, opType := range all {
		u := newUpdate(t, opType, map[string]program.Attr{"centered": true}, tensor.Float32, 1, 6, 2)
		for _, slot := range u.def.Inputs {
			isNumber := len(u.in[slot.Name].Dims()) == 1
			for name, c := range map[string]struct {
				kind   fault.Kind
				change func(*ops.Meta)
			}{
				"sparse":   {fault.TypeMismatch, func(m *ops.Meta) { m.Kind = program.SelectedRows }},
				"integer":  {fault.TypeMismatch, func(m *ops.Meta) { m.DType = tensor.Int64 }},
				"too big":  {fault.ShapeMismatch, func(m *ops.Meta) { m.Dims = []int64{7, 2} }},
				"one rank": {fault.ShapeMismatch, func(m *ops.Meta) { m.Dims = []int64{12} }},
			} {
				if name == "sparse" && slot.Name == gradSlot {
					continue // that is allowed: TestSparseGradientOfAnotherTable
				}
				_, err := u.infer(set(slot.Name, c.change))
				if !errors.Is(err, c.kind) {
					t.Errorf("%s with %s %s: %v, want %v", opType, name, slot.Name, err, c.kind)
				}
				if slot.Name != paramSlot && err != nil && !strings.Contains(err.Error(), slot.Name) {
					t.Errorf("%s with %s %s does not name the slot: %v", opType, name, slot.Name, err)
				}
			}
			if _, err := u.infer(set(slot.Name, func(m *ops.Meta) { m.Dims = []int64{program.Unknown, 2} })); (err == nil) == isNumber {
				t.Errorf("%s with %s of open dims: %v", opType, slot.Name, err)
			}
		}
	}
}

func TestHostileAttributes(t *testing.T) {
	for _, opType := range all {
		def, _ := ops.Lookup(opType)
		for _, attr := range def.Attrs {
			for _, value := range []program.Attr{float32(math.NaN()), math.Inf(-1), "x", []string{"x"}, []int32{}, program.BlockIndex(-5), nil} {
				u := newUpdate(t, opType, map[string]program.Attr{attr.Name: value}, tensor.Float32, 1, 2)
				if _, err := u.infer(nil); err == nil {
					t.Errorf("%s takes %s = %v", opType, attr.Name, value)
				}
				if run, err := u.bind(nil); err == nil {
					_ = run(t.Context()) // must not panic
				}
			}
		}
	}
}

func TestBindRefusesTensorsThatDoNotFit(t *testing.T) {
	for _, opType := range all {
		fresh := func() *update {
			return newUpdate(t, opType, map[string]program.Attr{"centered": true}, tensor.Float32, 1, 6, 2)
		}
		for slot := range fresh().in {
			u := fresh()
			u.in[slot] = filled(t, tensor.Float32, func() float64 { return 1 }, 5, 2)
			if _, err := u.bind(nil); !errors.Is(err, fault.ShapeMismatch) {
				t.Errorf("%s binds %s of other dims: %v", opType, slot, err)
			}
		}
		u := fresh()
		u.in[paramSlot], _ = tensor.New(tensor.Int64, 6, 2)
		if _, err := u.bind(nil); !errors.Is(err, fault.TypeMismatch) {
			t.Errorf("%s binds an integer parameter: %v", opType, err)
		}
	}
}

// TestSlots holds the slots against Fluid's: Param, Grad, LearningRate and ParamOut are common.
func TestSlots(t *testing.T) {
	slots := map[string][2]string{
		"sgd":              {"", ""},
		"momentum":         {"Velocity", "VelocityOut"},
		"adagrad":          {"Moment", "MomentOut"},
		"decayed_adagrad":  {"Moment", "MomentOut"},
		"adadelta":         {"AvgSquaredGrad AvgSquaredUpdate", "AvgSquaredGradOut AvgSquaredUpdateOut"},
		"adam":             {"Moment1 Moment2 Beta1Pow Beta2Pow", "Moment1Out Moment2Out Beta1PowOut Beta2PowOut"},
		"adamw":            {"Moment1 Moment2 Beta1Pow Beta2Pow", "Moment1Out Moment2Out Beta1PowOut Beta2PowOut"},
		"lamb":             {"Moment1 Moment2 Beta1Pow Beta2Pow", "Moment1Out Moment2Out Beta1PowOut Beta2PowOut"},
		"lars_momentum":    {"Velocity", "VelocityOut"},
		"dpsgd":            {"", ""},
		"proximal_gd":      {"", ""},
		"proximal_adagrad": {"Moment", "MomentOut"},
		"adamax":           {"Moment InfNorm Beta1Pow", "MomentOut InfNormOut"},
		"rmsprop":          {"MeanSquare Moment MeanGrad", "MeanSquareOut MomentOut MeanGradOut"},
		"ftrl":             {"SquaredAccumulator LinearAccumulator", "SquaredAccumOut LinearAccumOut"},
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
		if def.Class != ops.Optimize || def.RowSliced == slices.Contains(wholes, opType) || len(def.InPlace) != len(def.Outputs) {
			t.Errorf("%s is not an update in place, row-sliced unless it needs norms: class %v, RowSliced %v, InPlace %v", opType, def.Class, def.RowSliced, def.InPlace)
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
				if strings.HasSuffix(slot.Name, "PowOut") {
					continue // another op multiplies the power then
				}
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

// TestRowsAloneGiveTheBitsOfTheWhole is the property that lets the transpiler slice parameters over pservers.
func TestRowsAloneGiveTheBitsOfTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := formulas[rapid.IntRange(0, len(formulas)-1).Draw(rt, "formula")]
		if slices.Contains(wholes, f.opType) {
			rt.Skip("rows need norms of the whole")
		}
		dtype := rapid.SampledFrom([]tensor.DType{tensor.Float32, tensor.Float64}).Draw(rt, "dtype")
		rows, width := rapid.Int64Range(1, 40).Draw(rt, "rows"), rapid.Int64Range(1, 9).Draw(rt, "width")
		from := rapid.Int64Range(0, rows).Draw(rt, "from")
		to := rapid.Int64Range(from, rows).Draw(rt, "to")
		whole := newUpdate(t, f.opType, f.attrs, dtype, rapid.Uint64().Draw(rt, "seed"), rows, width)
		part := whole.rows(t, from, to)

		whole.run(t, 3)
		part.run(t, 3)

		for out, in := range whole.def.InPlace {
			if whole.in[in].Len() == 1 && len(whole.in[in].Dims()) == 1 {
				continue // a power: each slice has a copy
			}
			expected, err := whole.in[in].Rows(from, to)
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(bitsOf(part.in[in]), bitsOf(expected)) {
				rt.Fatalf("%s %s of rows [%d, %d) differs from those rows of the whole", f.name, out, from, to)
			}
		}
	})
}

// TestInPlaceEqualsApart compares outputs that share the inputs' buffers with outputs of their own.
func TestInPlaceEqualsApart(t *testing.T) {
	for _, f := range formulas {
		t.Run(f.name, func(t *testing.T) {
			shared := newUpdate(t, f.opType, f.attrs, tensor.Float32, 11, 3, 4)
			apart := shared.rows(t, 0, 3)
			before := apart.rows(t, 0, 3)
			for out := range apart.out {
				apart.out[out] = filled(t, tensor.Float32, func() float64 { return math.NaN() }, apart.out[out].Dims()...)
			}
			shared.run(t, 1)
			apart.run(t, 2) // reads the same inputs twice
			for out, in := range shared.def.InPlace {
				if f.name == "rmsprop" && out == "MeanGradOut" {
					continue // not used unless centered
				}
				if !slices.Equal(bitsOf(shared.out[out]), bitsOf(apart.out[out])) {
					t.Errorf("%s is %v in place and %v apart", out, float64sOf(shared.out[out]), float64sOf(apart.out[out]))
				}
				if !slices.Equal(bitsOf(before.in[in]), bitsOf(apart.in[in])) {
					t.Errorf("%s was changed although %s is another tensor", in, out)
				}
			}
		})
	}
}

func TestKernelsAllocateNothing(t *testing.T) {
	for _, f := range formulas {
		u := newUpdate(t, f.opType, f.attrs, tensor.Float32, 5, 8, 8)
		run, err := u.bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { _ = run(t.Context()) }); n != 0 {
			t.Errorf("%s allocates %v times a run", f.name, n)
		}
	}
}

func TestEmptyParameter(t *testing.T) {
	for _, f := range formulas {
		newUpdate(t, f.opType, f.attrs, tensor.Float64, 5, 0, 8).run(t, 1)
	}
}

// bitsOf returns the elements as bit patterns, so that NaN equals itself and -0 differs from 0.
func bitsOf(x *tensor.Tensor) []uint64 {
	bits := []uint64{}
	for _, v := range float64sOf(x) {
		bits = append(bits, math.Float64bits(v))
	}
	return bits
}
