package ops

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestVerifyReportsEveryFaultWithItsPlace(t *testing.T) {
	testOps(t)
	d := newDraft(t, "x", "y", "z")
	b := d.p.Global()
	d.op(b, "reluu", "x", "y")
	d.op(b, "relu", "absent", "y")
	d.op(b, "dropout", "x", "y").SetAttr("dropout_prob", float32(1.5))
	d.op(b, "dropout", "x", "y").SetAttr("dropout_prob", "half")
	d.op(b, "dropout", "x", "y").SetAttr("dropout_porb", float32(0.5))
	d.op(b, "relu", "x", "")
	b.Ops[5].Outputs = map[string][]string{"Out": {"y", "z"}, "Mask": {"z"}}
	d.op(b, "relu", "", "y")
	d.op(b, "broken", "x", "y")
	d.requireFaults(program.StageLocal,
		`model/net.go:10; block 0, op 0; op reluu; not registered`,
		`model/net.go:11; block 0, op 1; "absent"; "X"; declared`,
		`model/net.go:12; block 0, op 2; dropout_prob = 1.5; 0 to 1`,
		`model/net.go:13; block 0, op 3; dropout_prob of type string; float32`,
		`model/net.go:14; block 0, op 4; dropout_porb`,
		`model/net.go:15; block 0, op 5; 2 variables in output Out`,
		`model/net.go:15; block 0, op 5; output Mask; "z"`,
		`model/net.go:16; block 0, op 6; no variable in input X`,
		`model/net.go:17; block 0, op 7; op broken; panicked`,
	)
}

// A kernel that was not written for it must not write what it reads.
func TestVerifyRefusesOutputsOverInputs(t *testing.T) {
	testOps(t)
	d := newDraft(t, "x", "y")
	b := d.p.Global()
	d.op(b, "relu", "x", "x")
	d.op(b, "mul", "x", "y")
	d.op(b, "mul", "y", "y")
	d.requireFaults(program.StageLocal, `model/net.go:12; block 0, op 2; op mul; "y"; input X and output Out; another variable`)
}

func TestVerifyComparesTypesWithDeclarations(t *testing.T) {
	testOps(t)
	tests := []struct {
		declared program.Var
		shape    []int64
		dtype    any
		want     []string
	}{
		{program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2, 3}}, []int64{2, 3}, int32(5), nil},
		{program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}}, []int64{2, 3}, int64(5), nil},
		{program.Var{Kind: program.LoDTensor, DType: tensor.Float32}, []int64{2, 3}, int32(5), nil},
		{program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2, 3}}, []int64{2, 3}, int32(3),
			[]string{"type mismatch; float32[2 3]; want int64[2 3]"}},
		{program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2, 4}}, []int64{2, 3}, int32(5),
			[]string{"shape mismatch; float32[2 4]; want float32[2 3]"}},
		{program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{6}}, []int64{2, 3}, int32(5), []string{"shape mismatch; float32[6]"}},
		{program.Var{Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{2, 3}}, []int64{2, 3}, int32(5),
			[]string{"type mismatch; selected_rows; want lod_tensor"}},
	}
	for _, test := range tests {
		d := newDraft(t)
		test.declared.Name, test.declared.Persistable = "y", true
		d.p.Global().EnsureVar(test.declared)
		op := d.op(d.p.Global(), "fill", "", "y")
		op.SetAttr("shape", test.shape)
		op.SetAttr("dtype", test.dtype)
		d.requireFaults(program.StageLocal, test.want...)
	}
}

// Fluid declares temporary variables wrongly, such as indices as float32 and results without dims. What ops compute counts.
func TestDeclarationsOfTemporaryVariablesAreHints(t *testing.T) {
	testOps(t)
	d := newDraft(t)
	b := d.p.Global()
	b.EnsureVar(program.Var{Name: "indices", Kind: program.LoDTensor, DType: tensor.Float32})
	b.EnsureVar(program.Var{Name: "copy", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{7}})
	b.EnsureVar(program.Var{Name: "kept", Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{2, 3}, Persistable: true})
	fill := d.op(b, "fill", "", "indices")
	fill.SetAttr("shape", []int64{2, 3})
	fill.SetAttr("dtype", int32(tensor.Int64))
	d.op(b, "relu", "indices", "copy")
	d.op(b, "relu", "copy", "kept")
	d.requireFaults(program.StageLocal)
	for _, hint := range []program.Var{{DType: tensor.Float32, Dims: []int64{-49, -2}}, {Dims: []int64{1 << 40, 1 << 40}}, {DType: tensor.Int64, LoDLevel: 9}} {
		v, _ := b.Find("copy")
		v.DType, v.Dims, v.LoDLevel = hint.DType, hint.Dims, hint.LoDLevel
		d.requireFaults(program.StageLocal)
		v.Persistable = true
		var faults fault.List
		if !errors.As(Verify(d.p, program.StageLocal), &faults) || faults[0].Variable != "copy" {
			t.Errorf("%v is taken of a variable that outlives a run: %v", hint, faults)
		}
		*v = program.Var{Name: "copy", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{7}}
	}
	fill.SetAttr("shape", []int64{2, 4})
	d.requireFaults(program.StageLocal, `op 2; "kept"; int64[2 3]; want int64[2 4]`)
	fill.SetAttr("shape", []int64{2, 3})
	d.op(b, "save", "copy", "") // its declaration is what readers of the file rely on
	d.requireFaults(program.StageLocal, `op 1; "copy"; float32[7]; want int64[2 3]`,
		`op 2; "kept"; int64[2 3]; want float32[7]`)
}

func TestAttributesOfOtherWritersAreTaken(t *testing.T) {
	testOps(t)
	d := newDraft(t, "x", "y")
	op := d.op(d.p.Global(), "dropout", "x", "y")
	for name, value := range map[string]program.Attr{
		"op_role": int32(0), "op_role_var": []string{}, "op_namescope": "/", "op_device": "cpu", "use_mkldnn": false, "with_quant_attr": true,
		"@ENABLE_CACHE_RUNTIME_CONTEXT@": false, "seed": true, "dropout_prob": int32(1), "is_test": int32(0),
		"bit_length": int32(8), "X0_threshold": float32(1.5), "Out0_threshold": float32(2), // of quantizers
	} {
		op.SetAttr(name, value)
	}
	gradient := d.op(d.p.Global(), "dropout_grad", "x", "y")
	gradient.SetAttr("dropout_prob", float32(0.5)) // copied from the forward op
	gradient.SetAttr("X0_threshold", float32(1.5))
	d.requireFaults(program.StageLocal)
	op.SetAttr("Y0_threshold", float32(1)) // it has no such slot
	d.requireFaults(program.StageLocal, "Y0_threshold; edl show ops dropout")
	delete(op.Attrs, "Y0_threshold")
	gradient.SetAttr("dropout_porb", float32(0.5))
	d.requireFaults(program.StageLocal, "dropout_porb; edl show ops dropout_grad")
}

func TestGradientsOfFluidListTheWholeForwardOp(t *testing.T) {
	testOps(t)
	d := newDraft(t, "x", "y", "z")
	gradient := d.op(d.p.Global(), "relu_grad", "x", "y")
	gradient.Inputs["Out"], gradient.Inputs["Out@GRAD"] = []string{"z"}, []string{"z"}
	d.requireFaults(program.StageLocal)
	gradient.Inputs["Mask"] = []string{"z"}
	d.requireFaults(program.StageLocal, `op relu_grad; input Mask`)
}

func TestAStartupProgramIsVerifiedToo(t *testing.T) {
	testOps(t)
	d := newDraft(t, "persistable w")
	s := draft{t, d.p.Startup}
	s.declare(s.p.Global(), "persistable w", "tmp")
	s.op(s.p.Global(), "fill", "", "w").SetAttr("shape", []int32{2, 4})
	d.requireFaults(program.StageLocal)
	s.op(s.p.Global(), "relu", "tmp", "w")
	s.op(s.p.Global(), "sgd", "w", "w")
	d.requireFaults(program.StageLocal,
		`startup program, block 0, op 2; class Optimize; startup program`,
		`startup program, block 0, op 1; "tmp"; no op writes`)
	d.p.Startup.Startup = program.NewStartup()
	if err := Verify(d.p, program.StageLocal); err == nil || !strings.Contains(err.Error(), "startup program of a startup program") {
		t.Errorf("a startup of a startup: %v", err)
	}
}

func TestAStageThatDoesNotExist(t *testing.T) {
	if err := Verify(program.New(), 99); fault.KindOf(err) != fault.InvalidArgument {
		t.Errorf("got %v", err)
	}
}

// An op that needs more than a file holds is refused by what it needs.
func TestOpsThatNeedMoreThanAFileSayWhat(t *testing.T) {
	err := Unregistered("py_func")
	if err.Kind != fault.Unsupported || !strings.Contains(err.Error(), "Python function") {
		t.Errorf("got %v", err)
	}
}
