// Package testkit is what the tests of the executors and of the rooms that run jobs share: models and batches to train, record files, and the
// comparison of tensors bit for bit. A helper ends the test that calls it when something goes wrong.
package testkit

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// TB is what helpers need of a *testing.T, *testing.B or *rapid.T.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Model is a program that trains, with the name of its loss.
type Model struct {
	Program *program.Program
	Loss    string
}

// Built returns the finished model.
func Built(t TB, m *layers.Model, loss layers.Variable) Model {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return Model{Program: p, Loss: loss.Name()}
}
