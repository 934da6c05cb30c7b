package ops_test

import (
	"maps"
	"testing"

	"github.com/edl-go/edl/ops"
)

func TestDifferencesOfBuildsAreNamed(t *testing.T) {
	mine := ops.Hashes()
	if len(mine) != len(ops.All()) || mine["mul"] == "" {
		t.Fatalf("%d hashes of %d ops", len(mine), len(ops.All()))
	}
	for want, change := range map[string]func(theirs map[string]string){
		"":             func(map[string]string) {},
		"it lacks mul": func(theirs map[string]string) { delete(theirs, "mul") },
		"it has other slots or attributes of mul": func(theirs map[string]string) { theirs["mul"] = "0" },
		`it lacks mul; only it has b\n, zz`: func(theirs map[string]string) {
			delete(theirs, "mul")
			theirs["zz"], theirs["b\n"] = "1", "2"
		},
	} {
		theirs := maps.Clone(mine)
		change(theirs)
		if got := ops.Difference(theirs); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := ops.Difference(nil); got != "" {
		t.Errorf("a build that sends no hashes: %q", got)
	}
}
