package ops_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/program"
)

// A written op is a line of testdata/fluid_attrs.txt: the attributes that Fluid writes on an op.
type written struct {
	opType string
	attrs  map[string]program.Attr
}

func fluidAttrs(t *testing.T) (list []written) {
	t.Helper()
	text, err := os.ReadFile("testdata/fluid_attrs.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		types, fields, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		for opType := range strings.FieldsSeq(types) {
			op := written{opType, map[string]program.Attr{}}
			for field := range strings.FieldsSeq(fields) {
				name, value, _ := strings.Cut(field, "=")
				op.attrs[name] = attrOf(t, value)
			}
			list = append(list, op)
		}
	}
	return list
}

// attrOf reads the value of an attribute from JSON.
func attrOf(t *testing.T, text string) program.Attr {
	t.Helper()
	float := strings.Contains(text, ".")
	var value program.Attr
	switch {
	case strings.HasPrefix(text, `["`):
		value = &[]string{}
	case text[0] == '[' && float:
		value = &[]float32{}
	case text[0] == '[':
		value = &[]int32{}
	case text[0] == '"':
		value = new(string)
	case text == "true" || text == "false":
		value = new(bool)
	case float:
		value = new(float32)
	default:
		value = new(int32)
	}
	if err := json.Unmarshal([]byte(text), value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	switch v := value.(type) {
	case *[]float32:
		return *v
	case *[]int32:
		return *v
	case *[]string:
		return *v
	case *string:
		return *v
	case *bool:
		return *v
	case *float32:
		return *v
	}
	return *value.(*int32)
}

// Every attribute that some release of Fluid writes on an op that EDL has is taken at a value without effect.
func TestWhatFluidWritesOnOpsIsAccepted(t *testing.T) {
	known := 0
	for _, w := range fluidAttrs(t) {
		opType, attrs := w.opType, w.attrs
		def, ok := ops.Lookup(opType)
		if !ok {
			continue
		}
		known++
		types := []string{opType}
		if _, ok := ops.Lookup(opType + "_grad"); ok {
			types = append(types, opType+"_grad")
		}
		for _, typ := range types {
			p := program.New()
			op := &program.Op{Type: typ, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}
			for name, value := range attrs {
				op.SetAttr(name, value)
			}
			p.Global().Append(op)
			var faults fault.List
			errors.As(ops.Verify(p, program.StageLocal), &faults)
			for _, f := range faults {
				if strings.Contains(f.Got, "attribute") {
					t.Errorf("%v", f)
				}
			}
			if typ == opType {
				for _, f := range def.Check(op) {
					if strings.Contains(f.Got, "attribute") && !strings.Contains(f.Got, "no attribute") {
						t.Errorf("%v", f)
					}
				}
			}
		}
	}
	if known < 150 {
		t.Errorf("%d ops of the file are known, want at least 150", known)
	}
}

// Gradient ops take the slots that Fluid fills, and ask for no other.
func TestGradientOpsTakeTheSlotsThatFluidFills(t *testing.T) {
	text, err := os.ReadFile("testdata/fluid_grads.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for line := range strings.Lines(string(text)) {
		types, slots, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		for opType := range strings.FieldsSeq(types) {
			def, ok := ops.Lookup(opType)
			if !ok {
				continue
			}
			known++
			op := &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
			for slot := range strings.FieldsSeq(slots) {
				op.Inputs[slot] = []string{slot}
			}
			for _, f := range def.Check(op) {
				if strings.Contains(f.Got, "input") {
					t.Errorf("%v", f)
				}
			}
		}
	}
	if known < 90 {
		t.Errorf("%d ops of the file are known, want at least 90", known)
	}
}

func TestDataNormTakesOnlyWhatItComputes(t *testing.T) {
	for name, value := range map[string]program.Attr{"slot_dim": int32(2), "sync_stats": true, "enable_scale_and_shift": true} {
		p := program.New()
		p.Global().Append(&program.Op{Type: "data_norm", Attrs: map[string]program.Attr{name: value}})
		var faults fault.List
		errors.As(ops.Verify(p, program.StageLocal), &faults)
		if !slices.ContainsFunc(faults, func(f *fault.Fault) bool { return f.Kind == fault.Unsupported && strings.Contains(f.Error(), name) }) {
			t.Errorf("%s = %v: %v", name, value, faults)
		}
	}
}
