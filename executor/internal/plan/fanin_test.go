package plan

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Each block of a residual network sums two gradients where it begins, twice; tied weights sum those of all blocks.
func TestProductsAccumulateSumsOfGradients(t *testing.T) {
	for _, c := range []struct {
		name         string
		tied         bool
		blocks, with int // products that accumulate
	}{{"residual", false, 2, 4}, {"tied weights", true, 3, 3*2 + 3*2}} {
		m := fixture.Residual(t, 20, c.blocks, c.tied, optimizer.SGD(0.1))
		names := stepsOf(t, m.Program, []int64{8, 20}, nil)
		if n := count(names, "mul_grad+sum"); n != c.with {
			t.Errorf("%s: steps %v", c.name, names)
		}
		if names := stepsOf(t, m.Program, []int64{8, 20}, nil, FuseFanIn); count(names, "mul_grad+sum") != 0 || !slices.Contains(names, "sum") {
			t.Errorf("%s, switched off: steps %v", c.name, names)
		}
	}
}

// A term that somebody else reads stays stored, and so does one that was made before the term that it is added to.
func TestSumsThatProductsMustNotTakeOver(t *testing.T) {
	m := fixture.Residual(t, 20, 1, false, optimizer.SGD(0.1))
	var last, first string
	for _, op := range m.Program.Global().Ops {
		if op.Type == "sum" {
			first, last = op.Inputs["X"][0], op.Inputs["X"][1]
		}
	}
	if names := stepsOf(t, m.Program, []int64{8, 20}, []string{last}); count(names, "mul_grad+sum") != 1 {
		t.Errorf("a fetched term: steps %v", names)
	}
	if names := stepsOf(t, m.Program, []int64{8, 20}, []string{first}); count(names, "mul_grad+sum") != 2 {
		t.Errorf("a fetched term that is only read: steps %v", names)
	}
	read := m.Program.Clone()
	read.Global().EnsureVar(program.Var{Name: "seen", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 20}})
	read.Global().Append(&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {last}}, Outputs: map[string][]string{"Out": {"seen"}}})
	if names := stepsOf(t, read, []int64{8, 20}, []string{"seen"}); count(names, "mul_grad+sum") != 1 {
		t.Errorf("a term that another op reads: steps %v", names)
	}
	three := m.Program.Clone()
	for _, op := range three.Global().Ops {
		if x := op.Inputs["X"]; op.Type == "sum" {
			op.Inputs["X"] = []string{x[1], x[0], x[0]}
		}
	}
	if names := stepsOf(t, three, []int64{8, 20}, nil); count(names, "mul_grad+sum") != 0 {
		t.Errorf("a term that comes again: steps %v", names)
	}
	reused := m.Program.Clone()
	reused.Global().EnsureVar(program.Var{Name: "seen", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 20}})
	at := slices.IndexFunc(reused.Global().Ops, func(op *program.Op) bool { return op.Type == "sum" })
	result := reused.Global().Ops[at].Outputs["Out"]
	reused.Global().Ops = slices.Insert(reused.Global().Ops, at,
		&program.Op{Type: "tanh", Inputs: map[string][]string{"X": result}, Outputs: map[string][]string{"Out": {"seen"}}})
	reused.Global().Ops = slices.Insert(reused.Global().Ops, 0,
		&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {"image"}}, Outputs: map[string][]string{"Out": result}})
	if names := stepsOf(t, reused, []int64{8, 20}, []string{"seen"}); count(names, "mul_grad+sum") != 1 {
		t.Errorf("a sum whose variable has had a value that is still read: steps %v", names)
	}
	swapped := m.Program.Clone()
	for _, op := range swapped.Global().Ops {
		if op.Type == "sum" {
			slices.Reverse(op.Inputs["X"])
		}
	}
	if names := stepsOf(t, swapped, []int64{8, 20}, nil); count(names, "mul_grad+sum") != 2 {
		t.Errorf("two terms in the other order: steps %v", names)
	}
}
