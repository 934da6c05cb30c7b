package ops

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// What Fluid puts on an op is taken where it changes nothing, and named where it would.
func TestAttributesOfFluidAreTakenAtTheirNeutralValues(t *testing.T) {
	testOps(t)
	for name, c := range map[string]struct {
		opType  string
		neutral []program.Attr
		other   []program.Attr
	}{
		"use_cudnn":        {"relu", []program.Attr{true, false, int32(1)}, nil},
		"fuse_relu":        {"relu", []program.Attr{false, int32(0)}, []program.Attr{true, "yes"}},
		"fuse_activation":  {"relu_grad", []program.Attr{""}, []program.Attr{"relu"}},
		"data_format":      {"relu", []program.Attr{"NCHW", "AnyLayout"}, []program.Attr{"NHWC"}},
		"mkldnn_data_type": {"relu", []program.Attr{"float32"}, []program.Attr{"bfloat16"}},
		"Scale_weights":    {"mul", []program.Attr{[]float32{1}, []float32{}, []int32{}}, []program.Attr{[]float32{2}, []float32{1, 1}}},
		"Scale_out":        {"mul", []program.Attr{float32(1), float64(1)}, []program.Attr{float32(0.5)}},
		"head_number":      {"mul", nil, []program.Attr{int32(1)}}, // an attribute of matmul
		"relu_fuse":        {"relu", nil, []program.Attr{false}},
	} {
		check := func(value program.Attr) error {
			d := newDraft(t, "x", "y")
			d.op(d.p.Global(), c.opType, "x", "y").SetAttr(name, value)
			return Verify(d.p, program.StageLocal)
		}
		for _, value := range c.neutral {
			if err := check(value); err != nil {
				t.Errorf("%s = %v: %v", name, value, err)
			}
		}
		for _, value := range c.other {
			err := check(value)
			var list fault.List
			if !errors.As(err, &list) || len(list) != 1 || list[0].Kind != fault.Unsupported || !strings.Contains(list[0].Error(), name) {
				t.Errorf("%s = %v is refused by %v", name, value, err)
			}
		}
	}
}

// A row that cannot be read, or that names no attribute whose values decide, would let a value through or refuse it by mistake.
func TestTheTableOfForeignAttributesIsSound(t *testing.T) {
	names := map[string]bool{}
	for _, a := range foreignAttrs {
		for name := range strings.FieldsSeq(a.names) {
			names[name] = len(a.values) > 0 || names[name]
		}
	}
	for _, a := range foreignAttrs {
		if _, err := path.Match(a.ops, "relu"); err != nil || a.names == "" {
			t.Errorf("the row %q %q: %v", a.ops, a.names, err)
		}
		if a.unless != "" && !names[a.unless] {
			t.Errorf("%s counts only with %s, which may have any value", a.names, a.unless)
		}
		for _, v := range a.values {
			op := &program.Op{Type: "relu"}
			op.SetAttr("value", v)
			if !sameAttr(op, "value", v) {
				t.Errorf("%s = %v is not read back", a.names, v)
			}
		}
	}
}

// What passes for int8 write is told what to give in its place: their ops, and their numbers on other ops. Other attributes are not.
func TestIntegersOfOneDNNAreToldWhatToDo(t *testing.T) {
	op := &program.Op{Type: "conv2d"}
	op.SetAttr("mkldnn_data_type", "int8")
	op.SetAttr("Scale_in", float32(12))
	op.SetAttr("fused_output_scale", float32(2))
	for name, told := range map[string]bool{"mkldnn_data_type": true, "Scale_in": true, "fused_output_scale": false} {
		if f := checkForeign(op, name); f == nil || f.Kind != fault.Unsupported || (f.Hint == beforeQuantized) != told {
			t.Errorf("%s: %v", name, f)
		}
	}
	for _, opType := range quantized {
		if f := Unregistered(opType); f.Kind != fault.Unsupported || f.Hint != beforeQuantized {
			t.Errorf("%s: %v", opType, f)
		}
	}
}
