package program_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
)

// loopOfArrays adds up the items of an array, and has the gradient as append_backward of Fluid writes it: parts of the gradient of the array have variables of their own, and
// so has the block.
const loopOfArrays = `
var x float32 [2,3] feed=[2,3]
var i int64 [1]
var n int64 [1]
var more bool [1]
var a float32 [2,3] array
var sum float32 [2,3]
var scopes float32 [] scopes
var sum@GRAD float32 [2,3]
var a@GRAD@RENAME@0 float32 [2,3] array
var a@GRAD@RENAME@1 float32 [2,3] array
var a@GRAD float32 [2,3] array
var x@GRAD float32 [2,3]
write_to_array X=x I=i -> Out=a |
while X=a,i,n,sum Condition=more -> Out=sum,i,more StepScopes=scopes | sub_block=block:1 is_test=false
while_grad X=a,i,n,sum Out=sum,i,more StepScopes=scopes Out@GRAD=sum@GRAD -> X@GRAD=a@GRAD@RENAME@0,@EMPTY@,@EMPTY@,sum@GRAD | sub_block=block:2 is_test=false original_output_grad=["sum@GRAD"] op_role=1
write_to_array X=sum@GRAD I=i -> Out=a@GRAD@RENAME@1 | op_role=1
sum X=a@GRAD@RENAME@0,a@GRAD@RENAME@1 -> Out=a@GRAD | op_role=1
read_from_array X=a@GRAD I=i -> Out=x@GRAD | op_role=1
block 1 0
var y float32 [2,3]
read_from_array X=a I=i -> Out=y |
elementwise_add X=sum Y=y -> Out=sum | axis=-1
increment X=i -> Out=i | step=1.0f
less_than X=i Y=n -> Out=more | axis=-1
block 2 0 gradient=1
var a@GRAD float32 [2,3] array
var y@GRAD float32 [2,3]
increment X=i -> Out=i | step=-1.0f op_role=1
elementwise_add_grad X=sum Y=y Out@GRAD=sum@GRAD -> X@GRAD=sum@GRAD Y@GRAD=y@GRAD | axis=-1 op_role=1
write_to_array X=y@GRAD I=i -> Out=a@GRAD | op_role=1
global
fetch sum
`

func TestGradientsOfArraysAreReadAsOneVariable(t *testing.T) {
	m, err := fluidtext.Read(loopOfArrays)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Program
	var types []string
	for _, op := range p.Global().Ops {
		types = append(types, op.Type)
	}
	want := []string{"write_to_array", "while", "fill_zeros_like", "while_grad", "read_from_array_grad", "write_to_array_grad"}
	if !slices.Equal(types, want) {
		t.Fatalf("got %v, want %v", types, want)
	}
	loop := p.Global().Ops[3]
	inside, _ := loop.Strs("original_output_grad")
	if got := loop.Inputs["Out@GRAD"]; !slices.Equal(got, []string{"sum@GRAD", "a@GRAD"}) || !slices.Equal(inside, got) {
		t.Errorf("the gradient of the loop changes %v, which it calls %v", got, inside)
	}
	if got := loop.Outputs["X@GRAD"]; !slices.Equal(got, []string{"a@GRAD", program.Empty, program.Empty, "sum@GRAD"}) {
		t.Errorf("it computes %v", got)
	}
	item := p.Global().Ops[5]
	if item.In("X") != "x" || item.In("Out@GRAD") != "a@GRAD" || item.Out("X@GRAD") != "x@GRAD" || item.Out("Out@GRAD") != "a@GRAD" {
		t.Errorf("the gradient of an item is %v -> %v", item.Inputs, item.Outputs)
	}
	if _, own := p.Blocks[2].Var("a@GRAD"); own {
		t.Error("the block declares the gradient of an array outside")
	}
	for _, name := range []string{"a@GRAD@RENAME@0", "a@GRAD@RENAME@1"} {
		if _, left := p.Global().Var(name); left {
			t.Errorf("%s is left", name)
		}
	}
	again, err := fluidtext.Again(p)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encode(t, p), encode(t, again); !bytes.Equal(a, b) {
		t.Error("a program that was read changes when it is read again")
	}
}
