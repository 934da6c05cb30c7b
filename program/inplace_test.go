package program_test

import (
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
)

// TestSumsIntoYBecomeSumsIntoX reads what merges gradients of several steps: it adds to a variable that outlives them.
func TestSumsIntoYBecomeSumsIntoX(t *testing.T) {
	m, err := fluidtext.Read(`
var g float32 [2,3] feed=[2,3]
var w float32 [2] feed=[2]
var merged float32 [2,3] param
var row float32 [3] param
elementwise_add X=g Y=merged -> Out=merged | axis=-1
elementwise_add X=g Y=row -> Out=row | axis=-1
fetch merged
`)
	if err != nil {
		t.Fatal(err)
	}
	same, other := m.Program.Global().Ops[0], m.Program.Global().Ops[1]
	if same.In("X") != "merged" || same.In("Y") != "g" || same.Out("Out") != "merged" {
		t.Errorf("got %v -> %v", same.Inputs, same.Outputs)
	}
	if other.In("X") != "g" || other.In("Y") != "row" { // of other dims: it is another sum, or none
		t.Errorf("got %v", other.Inputs)
	}
}
