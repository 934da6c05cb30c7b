package reference_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

func TestReferenceRefuses(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	if _, err := reference.New(m.Program, 0); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no trainers: %v", err)
	}
	e := open(t, m.Program, 2)
	feed := executor.Feed{"x": fixture.Numbers(1, 4, 13), "y": fixture.Numbers(1, 3, 1)}
	if _, err := e.Run(t.Context(), m.Program, feed); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("rows that do not agree: %v", err)
	}
	sequences := fixture.Numbers(1, 4, 13)
	sequences.SetLoD([][]int64{{0, 1, 4}})
	if _, err := e.Run(t.Context(), m.Program, executor.Feed{"x": sequences, "y": fixture.Numbers(1, 4, 1)}); !errors.Is(err, fault.Unsupported) {
		t.Errorf("sequences: %v", err)
	}
	if _, err := e.Run(t.Context(), m.Program, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no rows: %v", err)
	}
	if _, err := e.Run(t.Context(), m.Program.Clone(), feed); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("another program: %v", err)
	}
	read := m.Program.Clone()
	update := read.Global().Ops[len(read.Global().Ops)-1]
	read.Global().Append(&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {update.Out("ParamOut")}},
		Outputs: map[string][]string{"Out": {m.Loss}}})
	if _, err := reference.New(read, 2); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a forward op behind the update: %v", err)
	}
}
