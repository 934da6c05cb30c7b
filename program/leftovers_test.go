package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestGradientsThatNobodyDeclares reads the gradient op of a network that uses one of two outputs. Other names that nobody declares stay, and are refused later.
func TestGradientsThatNobodyDeclares(t *testing.T) {
	p := program.New()
	b := p.Global()
	for _, name := range []string{"x", "out", "out@GRAD", "x@GRAD"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}})
	}
	b.Append(&program.Op{Type: "rnn_grad", Inputs: map[string][]string{"Input": {"x", "gone"}, "Out@GRAD": {"out@GRAD"}, "State@GRAD": {"h@GRAD", "c@GRAD"}},
		Outputs: map[string][]string{"Input@GRAD": {"x@GRAD"}}})
	b.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X@GRAD": {"h@GRAD"}}, Outputs: map[string][]string{"Out": {"out"}}})
	read := decode(t, encode(t, p)).Global().Ops
	for slot, want := range map[string][]string{"Input": {"x", "gone"}, "Out@GRAD": {"out@GRAD"}, "State@GRAD": {program.Empty, program.Empty}} {
		if got := read[0].Inputs[slot]; !slices.Equal(got, want) {
			t.Errorf("slot %s is read as %q, want %q", slot, got, want)
		}
	}
	if got := read[1].In("X@GRAD"); got != "h@GRAD" {
		t.Errorf("an op that computes no gradient reads %q", got)
	}
}

// TestCountsOfAllSteps reads an op auc of Fluid 1.0, which has no slide_steps, and later ones.
func TestCountsOfAllSteps(t *testing.T) {
	p := program.New()
	b := p.Global()
	for _, name := range []string{"p", "l", "area", "pos", "neg"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{-1, 1}})
	}
	for _, steps := range []int32{-1, 0, 2} {
		op := b.Append(&program.Op{Type: "auc", Inputs: map[string][]string{"Predict": {"p"}, "Label": {"l"}, "StatPos": {"pos"}, "StatNeg": {"neg"}},
			Outputs: map[string][]string{"AUC": {"area"}, "StatPosOut": {"pos"}, "StatNegOut": {"neg"}}})
		if steps >= 0 {
			op.SetAttr("slide_steps", steps)
		}
	}
	read := decode(t, encode(t, p)).Global().Ops
	for i, want := range []int64{0, 0, 2} {
		if got, ok := read[i].Int("slide_steps"); !ok || got != want || read[i].In("StatPos") != "pos" {
			t.Errorf("op %d has %d slide_steps and counts %q, want %d", i, got, read[i].In("StatPos"), want)
		}
	}
}

// TestTypesOfMetrics reads metrics that are declared as float32.
func TestTypesOfMetrics(t *testing.T) {
	p := program.New()
	b := p.Global()
	for _, name := range []string{"batch", "all", "counts"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{6}})
	}
	b.EnsureVar(program.Var{Name: "total", Kind: program.LoDTensor, DType: tensor.Int64})
	b.Append(&program.Op{Type: "accuracy", Outputs: map[string][]string{"Total": {"total"}}})
	b.Append(&program.Op{Type: "precision_recall", Outputs: map[string][]string{"BatchMetrics": {"batch"}, "AccumMetrics": {"all"}, "AccumStatesInfo": {"counts"}}})
	read := decode(t, encode(t, p)).Global()
	for name, want := range map[string]tensor.DType{"batch": tensor.Float64, "all": tensor.Float64, "counts": tensor.Float32, "total": tensor.Int32} {
		if v, _ := read.Var(name); v.DType != want || len(v.Dims) != 1 {
			t.Errorf("%s is %v%v, want %v", name, v.DType, v.Dims, want)
		}
	}
}

// TestLineOfAStack finds the line of the network in what Fluid has recorded: one text for a frame, from inside to outside, and later two texts, from outside to inside.
func TestLineOfAStack(t *testing.T) {
	for name, c := range map[string]struct {
		stack []string
		line  string
	}{
		"since 1.6": {[]string{"  File \"train.py\", line 40, in <module>", "    main()", "  File \"src/net.py\", line 12, in net", "    fc(x, 1)",
			"  File \"<decorator-gen-7>\", line 2, in fc", "    ", "  File \"/lib/paddle/fluid/framework.py\", line 2610, in append_op", "    attrs=attrs)"}, "net.py:12"},
		"before": {[]string{"  File \"/lib/paddle/fluid/framework.py\", line 2610, in append_op\n    attrs=attrs)\n", "  File \"src/net.py\", line 12, in net\n    fc(x, 1)\n",
			"  File \"train.py\", line 40, in <module>\n    main()\n"}, "net.py:12"},
		"one frame":   {[]string{"  File \"src/net.py\", line 12, in net\n    fc(x, 1)\n"}, "net.py:12"},
		"one text":    {[]string{"net/net.go:7"}, "net/net.go:7"},
		"many lines":  {[]string{"net.go:7\nedl: done\n"}, "net.go:7"},
		"no line":     {[]string{"a\tb\x1b[2J:3"}, "a?b?[2J:3"},
		"a long line": {[]string{strings.Repeat("x", 10_000)}, strings.Repeat("x", 200) + "..."},
		"no user":     {[]string{"  File \"/lib/paddle/fluid/framework.py\", line 2610, in append_op", "    attrs=attrs)"}, ""},
	} {
		op := &program.Op{Type: "mul"}
		op.SetAttr(program.AttrCallstack, c.stack)
		if got := op.Line(); got != c.line {
			t.Errorf("%s: %q, want %q", name, got, c.line)
		}
	}
}
