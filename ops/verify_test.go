package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// testOps replaces the registry for one test by ops that stand for their classes.
func testOps(t *testing.T) {
	real := registry
	registry = map[string]*Def{}
	t.Cleanup(func() { registry = real })
	bind := func(*Binding) (Kernel, error) { return func(context.Context) error { return nil }, nil }
	x, out := []Slot{{Name: "X"}}, []Slot{{Name: "Out"}}
	many, none := []Slot{{Name: "X", Duplicable: true, Dispensable: true}}, []Slot{{Name: "Out", Duplicable: true, Dispensable: true}}
	like := func(s *Shapes) error { s.Like("Out", "X"); return nil }
	open := func(*Shapes) error { return nil }
	def := func(opType string, class Class, in, out []Slot, infer func(*Shapes) error, attrs ...Attr) {
		d := Def{Type: opType, Class: class, Doc: "Stands for an op in tests.", Inputs: in, Outputs: out, Attrs: attrs, Infer: infer, Bind: bind}
		if len(in) > 0 && len(out) > 0 && opType != "mul" {
			d.InPlace = map[string]string{"Out": "X"}
		}
		Register(d)
	}
	def("relu", Compute, x, out, like)
	def("mul", Compute, x, out, like)
	def("relu_grad", Backward, x, out, like)
	def("dropout", Random, x, out, like, Attr{Name: "dropout_prob", Default: float32(0.5), Check: probability}, Attr{Name: "seed", Default: int32(0)})
	def("dropout_grad", Backward, x, out, like)
	def("while", Compute, many, none, open, Attr{Name: "sub_block", Kind: program.BlockIndex(0)})
	def("fill", Compute, nil, out, func(s *Shapes) error { s.Set("Out", tensor.DType(s.Int("dtype")), s.Ints("shape")...); return nil },
		Attr{Name: "shape", Kind: []int64(nil)}, Attr{Name: "dtype", Default: int32(5)})
	def("sgd", Optimize, x, out, like)
	def("feed", Feed, many, none, open, Attr{Name: "col", Default: int32(0)})
	def("save", FileIO, many, nil, open)
	def("broken", Compute, x, out, func(s *Shapes) error { _ = s.Ins("Absent")[3]; return nil })
	for _, opType := range []string{"send", "recv", "send_barrier", "fetch_barrier", "exchange"} {
		def(opType, Dist, many, none, open)
	}
	def("listen_and_serv", Serve, many, none, open, Attr{Name: "optimize_blocks", Default: []program.BlockIndex(nil)})
}

func probability(op *program.Op) error {
	if p, ok := op.Float("dropout_prob"); ok && (p < 0 || p > 1) {
		return errors.New("0 to 1")
	}
	return nil
}

// A draft makes programs for tests. Each variable is float32[-1 4].
type draft struct {
	t *testing.T
	p *program.Program
}

func newDraft(t *testing.T, names ...string) draft {
	d := draft{t, program.New()}
	d.declare(d.p.Global(), names...)
	return d
}

func (d draft) declare(b *program.Block, names ...string) {
	for _, name := range names {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 4}}
		v.Name, v.Persistable = strings.CutPrefix(name, "persistable ")
		if _, err := b.AddVar(v); err != nil {
			d.t.Fatal(err)
		}
	}
}

// op appends an op that reads in and writes out; either may be empty.
func (d draft) op(b *program.Block, opType, in, out string) *program.Op {
	op := &program.Op{Type: opType}
	if in != "" {
		op.Inputs = map[string][]string{"X": {in}}
	}
	if out != "" {
		op.Outputs = map[string][]string{"Out": {out}}
	}
	op.SetSite(fmt.Sprintf("model/net.go:%d", 10+len(b.Ops)))
	return b.Append(op)
}

func (d draft) requireFaults(stage program.Stage, want ...string) {
	d.t.Helper()
	err := Verify(d.p, stage)
	if len(want) == 0 {
		if err != nil {
			d.t.Errorf("a legal %v program: %v", stage, err)
		}
		return
	}
	var list fault.List
	if !errors.As(err, &list) || len(list) != len(want) {
		d.t.Fatalf("faults of a %v program: %v, want %d", stage, err, len(want))
	}
	for i, f := range list {
		for word := range strings.SplitSeq(want[i], "; ") {
			if !strings.Contains(f.Error(), word) {
				d.t.Errorf("fault %d is %q, which does not say %q", i, f, word)
			}
		}
	}
}

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
		test.declared.Name = "y"
		d.p.Global().EnsureVar(test.declared)
		op := d.op(d.p.Global(), "fill", "", "y")
		op.SetAttr("shape", test.shape)
		op.SetAttr("dtype", test.dtype)
		d.requireFaults(program.StageLocal, test.want...)
	}
}

func TestAttributesOfOtherWritersAreTaken(t *testing.T) {
	testOps(t)
	d := newDraft(t, "x", "y")
	op := d.op(d.p.Global(), "dropout", "x", "y")
	for name, value := range map[string]program.Attr{
		"op_role": int32(0), "op_role_var": []string{}, "op_namescope": "/", "op_device": "cpu", "use_mkldnn": false, "with_quant_attr": true,
		"@ENABLE_CACHE_RUNTIME_CONTEXT@": false, "seed": true, "dropout_prob": int32(1), "is_test": int32(0),
	} {
		op.SetAttr(name, value)
	}
	gradient := d.op(d.p.Global(), "dropout_grad", "x", "y")
	gradient.SetAttr("dropout_prob", float32(0.5)) // copied from the forward op
	d.requireFaults(program.StageLocal)
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
