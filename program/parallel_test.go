package program_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
)

// A parallel_do is read as the ops of its block, and its gradient, too. The program is as ParallelDo of Fluid 0.12 writes it: a layer and its cost run on each place, and the mean over
// places is the loss. The block of the gradient has a part of the gradient of w whose name the global block has, too: it gets a name of its own.
func TestParallelDoIsReadAsItsBlock(t *testing.T) {
	text, err := os.ReadFile("../executor/testdata/programs/grad_parallel_do.txt")
	if err != nil {
		t.Fatal(err)
	}
	m, err := fluidtext.Read(string(text))
	if err != nil {
		t.Fatal(err)
	}
	p := m.Program
	var got []string
	for _, op := range p.Global().Ops {
		got = append(got, fmt.Sprintf("%s %v", op.Type, op.OutputNames()))
	}
	want := []string{"mul [p]", "mul [q]", "sum [s]", "elementwise_sub [d]", "square [c]", "mean [avg]", "mean [loss]", "fill_constant [loss@GRAD]", "mean_grad [avg@GRAD]", "mean_grad [c@GRAD]",
		"square_grad [d@GRAD]", "elementwise_sub_grad [s@GRAD]", "mul_grad [y@GRAD@RENAME@0_0]", "mul_grad [w@GRAD@RENAME@1]", "sum [w@GRAD]", "sgd [w]"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(p.Blocks) != 1 {
		t.Errorf("%d blocks", len(p.Blocks))
	}
	for _, name := range []string{"places", "scopes"} {
		if _, left := p.Global().Var(name); left {
			t.Errorf("%s is left", name)
		}
	}
	sum := p.Global().Ops[14]
	if !slices.Equal(sum.Inputs["X"], []string{"y@GRAD@RENAME@0_0", "w@GRAD@RENAME@1"}) || !slices.Equal(sum.RoleVars(), [][2]string{{"w", "w@GRAD"}}) || sum.Role() != program.RoleBackward {
		t.Errorf("the gradient of w is %v", sum)
	}
}

// What is not of Fluid's form stays: a block that another op runs, too, one that does not write the outputs, and one that holds the op itself.
func TestOtherParallelDoStays(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"another op runs the block", `
			parallel_do inputs=x places=places -> outputs=y parallel_scopes=scopes | sub_block=block:1
			parallel_do inputs=x places=places -> outputs=y parallel_scopes=scopes | sub_block=block:1
			block 1 0
			scale X=x -> Out=y | scale=2.0f`},
		{"no op writes the output", `
			parallel_do inputs=x places=places -> outputs=z parallel_scopes=scopes | sub_block=block:1
			block 1 0
			scale X=x -> Out=y | scale=2.0f`},
		{"the block holds the op", `
			parallel_do inputs=x places=places -> outputs=y parallel_scopes=scopes | sub_block=block:0
			scale X=x -> Out=y | scale=2.0f`},
		{"the blocks are a ring", `
			conditional_block Cond=x -> Out=y Scope=scopes | sub_block=block:1
			block 1 0
			conditional_block Cond=x -> Out=y Scope=scopes | sub_block=block:2
			block 2 1
			parallel_do inputs=x places=places -> outputs=y parallel_scopes=scopes | sub_block=block:1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := fluidtext.Read("var x float32 [-1,2] feed=[4,2]\n" + c.text)
			if err != nil {
				t.Fatal(err)
			}
			stays := slices.ContainsFunc(m.Program.Blocks, func(b *program.Block) bool {
				return slices.ContainsFunc(b.Ops, func(op *program.Op) bool { return op.Type == "parallel_do" })
			})
			if !stays {
				t.Error("the op is gone")
			}
		})
	}
}
