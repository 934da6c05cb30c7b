package fault_test

import (
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
)

func ExampleE() {
	err := fault.E(fault.ShapeMismatch, fault.At("block 0"), fault.Op("mul"), fault.Line("train/net.go:12"), fault.Var("x"),
		fault.Gotf("dims %v", []int{2, 3}), fault.Want("2 columns"), fault.Hint("reshape x first"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, fault.ShapeMismatch), fault.KindOf(err).ExitCode())
	// Output:
	// train/net.go:12: block 0: op mul, variable "x": shape mismatch: got dims [2 3], want 2 columns; reshape x first
	// true 2
}

// A check collects faults and returns them as one error.
func ExampleList() {
	var faults fault.List
	for name, width := range map[string]int{"x": -1} {
		if width < 0 {
			faults.Add(fault.E(fault.InvalidArgument, fault.Var(name), fault.Gotf("width %d", width), fault.Want("at least 0")))
		}
	}
	fmt.Println(faults.Err())
	// Output: variable "x": invalid argument: got width -1, want at least 0
}
