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
)

func TestInferGivesOutputsTheirShapes(t *testing.T) {
	for _, opType := range all {
		u := newUpdate(t, opType, nil, tensor.Float64, 1, 6, 2)
		s, err := u.infer(nil)
		if err != nil {
			t.Fatal(err)
		}
		for out := range u.out {
			if m := s.Outs(out); len(m) != 1 || m[0].DType != tensor.Float64 || !slices.Equal(m[0].Dims, []int64{6, 2}) {
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
					_ = run(t.Context()) // whatever it was read as, it must not panic
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
