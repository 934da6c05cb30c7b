package program_test

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestEveryValueSurvivesARoundTrip(t *testing.T) {
	p := regression(t)
	p.Version = 2_001_000
	b := p.Global()
	child := p.NewBlock(b)
	child.Forward = 0
	want := map[string]program.Attr{
		"int": int32(-1), "float": float32(math.Inf(-1)), "string": "é", "ints": []int32{1, -1}, "floats": []float32{0.5}, "strings": []string{"a", ""},
		"bool": true, "bools": []bool{true, false}, "block": program.BlockIndex(1), "long": int64(math.MinInt64), "blocks": []program.BlockIndex{1},
		"longs": []int64{1 << 40}, "float64s": []float64{1e300}, "float64": 1e-300, "empty": []int64(nil),
	}
	op := child.Append(&program.Op{Type: "while", IsTarget: true, Inputs: map[string][]string{"X": {"x", program.Empty}, "None": {}}, Attrs: want})
	reader := program.Var{Name: "reader", Kind: program.Reader, Persistable: true,
		Fields: []program.Var{{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{program.Unknown, 1}, LoDLevel: 1}}}
	rows := program.Var{Name: "rows", Kind: program.SelectedRows, DType: tensor.Float64, Dims: []int64{1 << 33, 4}}
	array := program.Var{Name: "array", Kind: program.LoDTensorArray, DType: tensor.Float32, Dims: []int64{2}, LoDLevel: 2}
	for _, v := range []program.Var{reader, rows, array} {
		if _, err := child.AddVar(v); err != nil {
			t.Fatal(err)
		}
	}

	got := decode(t, encode(t, p))
	if got.Version != p.Version || len(got.Blocks) != 2 ||
		got.Blocks[1].Parent != 0 || got.Blocks[1].Forward != 0 || got.Global().Forward != program.NoBlock {
		t.Errorf("the blocks came back as %+v", got)
	}
	back := got.Blocks[1].Ops[0]
	if !reflect.DeepEqual(back.Attrs, want) {
		t.Errorf("attributes %v came back as %v", want, back.Attrs)
	}
	if !back.IsTarget || back.Type != op.Type || !slices.Equal(back.Inputs["X"], op.Inputs["X"]) {
		t.Errorf("%+v came back as %+v", op, back)
	}
	for _, v := range []program.Var{reader, rows, array} {
		if back, _ := got.Blocks[1].Var(v.Name); back == nil || !reflect.DeepEqual(*back, v) {
			t.Errorf("%+v came back as %+v", v, back)
		}
	}
	if x, _ := got.Global().Var("x"); !x.NeedCheckFeed || !x.StopGradient || x.IsParameter {
		t.Errorf("the flags of x came back as %+v", x)
	}
	if got.Startup == nil || len(got.Startup.Global().Ops) != 2 {
		t.Error("the startup program did not come back")
	}
}

func TestEqualProgramsHaveEqualBytes(t *testing.T) {
	p := regression(t)
	reordered := program.New()
	vars := p.Global().Vars()
	slices.Reverse(vars)
	for _, v := range vars {
		reordered.Global().EnsureVar(*v)
	}
	for _, op := range p.Global().Ops {
		reordered.Global().Append(op.Clone())
	}
	reordered.Startup = p.Startup
	if !bytes.Equal(encode(t, p), encode(t, reordered)) {
		t.Error("the order in which variables were made changes the bytes")
	}
}

func TestUniqueNamesGoOnBehindThoseOfTheFile(t *testing.T) {
	p := decode(t, encode(t, regression(t)))
	for prefix, want := range map[string]string{"fc": "fc_1", "fc_0.w": "fc_0.w_1", "fc_0.tmp": "fc_0.tmp_2", "fresh": "fresh_0"} {
		if got := p.UniqueName(prefix); got != want {
			t.Errorf("the next %s is %s, want %s", prefix, got, want)
		}
	}
	if got := p.Clone().UniqueName("fc"); got != "fc_2" {
		t.Errorf("a clone goes on with %s", got)
	}
}

func TestEncodeRefusesWhatAFileCannotHold(t *testing.T) {
	tests := map[string]struct {
		spoil func(*program.Program)
		words []string
	}{
		"attribute of a Go int": {func(p *program.Program) { p.Global().Ops[0].SetAttr("axis", 5) },
			[]string{"block 0, op 0", "axis", "Go type int", "fit.go:12"}},
		"name that is no UTF-8": {func(p *program.Program) { p.Global().Ops[1].Inputs["X"][0] = "\xff" }, []string{"block 0, op 1", "UTF-8"}},
		"op without a type": {func(p *program.Program) { p.Startup.Global().Ops[0].Type = "" },
			[]string{"startup program, block 0, op 0", "empty name"}},
		"renamed variable":     {func(p *program.Program) { p.Global().Vars()[0].Name = "z" }, []string{`"z"`, `"x"`}},
		"no block":             {func(p *program.Program) { p.Blocks = nil }, []string{"no block"}},
		"moved block":          {func(p *program.Program) { p.Blocks[0].Index = 3 }, []string{"index 3"}},
		"startup of a startup": {func(p *program.Program) { p.Startup.Startup = program.NewStartup() }, []string{"startup program of a startup program"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := regression(t)
			test.spoil(p)
			_, err := p.Encode()
			requireFault(t, err, fault.InvalidProgram, test.words...)
		})
	}
}
