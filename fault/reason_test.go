package fault_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// An op that a program lacks is named once, however often the program has it.
func TestAListNamesEachUnsupportedThingOnce(t *testing.T) {
	var l fault.List
	for _, line := range []string{"nets.py:83", "nets.py:90", "nets.py:97"} {
		l.Add(fault.E(fault.Unsupported, fault.Line(line), fault.Op("relu6"), fault.Got("an op type that is not registered")))
		l.Add(fault.E(fault.InvalidProgram, fault.Line(line), fault.Var(line), fault.Got("no variable")))
	}
	l.Add(fault.E(fault.Unsupported, fault.Line("nets.py:99"), fault.Op("roi_pool"), fault.Got("an op type that is not registered")))
	if r := l.Reasons(); len(r) != 3 || r[0].Count != 3 || r[1].Count != 3 || r[2].Count != 1 || r[0].First.Line != "nets.py:83" {
		t.Errorf("reasons %v", r)
	}
	text := l.Error()
	for _, want := range []string{"7 faults:", "3 times, first at nets.py:83: op relu6", `nets.py:90, variable "nets.py:90"`, `variable "nets.py:97"`, "nets.py:99: op roi_pool"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	if n := strings.Count(text, "\n"); n != 5 {
		t.Errorf("%d lines follow the first one of %q", n, text)
	}
}
