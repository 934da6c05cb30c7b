package transpiler_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/transpiler"
)

func TestFetchFaults(t *testing.T) {
	p := fitLine(t, 100, 100, optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1))))
	_, err := transpiler.Transpile(t.Context(), p,
		transpiler.Config{Trainers: 1, PServers: 1, Fetch: []string{"los", "elementwise_mul_0.tmp_0", "sqrt_0.tmp_0", "nothing like it"}})
	var faults fault.List
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Fatalf("got %v, want three faults", err)
	}
	sparse := lookups(t, optimizer.SGD(0.1), layers.ParamAttr{}, 5)
	_, err = transpiler.Transpile(t.Context(), sparse, transpiler.Config{Trainers: 1, PServers: 1, Fetch: []string{"table@GRAD"}})
	if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "fetch the parameter") {
		t.Errorf("a sparse gradient: %v", err)
	}
	for i, want := range []string{`did you mean "loss"?`, "temporary of the update", "no such variable"} {
		if !strings.Contains(faults[i].Error(), want) {
			t.Errorf("got %v, want %q in it", faults[i], want)
		}
	}
}
