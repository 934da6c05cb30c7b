package transpiler_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

func TestConfigFaults(t *testing.T) {
	err := transpiler.Config{MinBlockSize: -1, Mode: 7, SplitMethod: "random", PServers: transpiler.MaxPServers + 1}.Validate()
	var faults fault.List
	if !errors.As(err, &faults) || len(faults) != 5 {
		t.Fatalf("got %v, want five faults", err)
	}
	if err := (transpiler.Config{Trainers: 1, PServers: 1}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := transpiler.Transpile(t.Context(), program.New(), transpiler.Config{}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("got %v, want %v", err, fault.InvalidArgument)
	}
}
