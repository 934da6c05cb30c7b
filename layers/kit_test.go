package layers_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// finish returns the finished program and fails the test on mistakes.
func finish(t *testing.T, m *layers.Model) *program.Program {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func opTypes(p *program.Program) string {
	var types []string
	for _, op := range p.Global().Ops {
		types = append(types, op.Type)
	}
	return strings.Join(types, " ")
}

// inputs are the variables that the table below builds on.
type inputs struct {
	m                                               *layers.Model
	rows, columns, image, label, ids, words, matrix layers.Variable
}

func newInputs() inputs {
	m := layers.NewModel()
	return inputs{m: m,
		rows:    layers.Data(m, "rows", layers.Dims(6)),
		columns: layers.Data(m, "columns", layers.Dims(6)),
		image:   layers.Data(m, "image", layers.Dims(4, 8, 8)),
		label:   layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64)),
		ids:     layers.Data(m, "ids", layers.Dims(4, 1), layers.DType(tensor.Int64)),
		words:   layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)),
		matrix:  layers.Data(m, "matrix", layers.Dims(6, 3), layers.NoBatchDim()),
	}
}

func variableNames(b *program.Block) []string {
	var names []string
	for _, v := range b.Vars() {
		names = append(names, v.Name)
	}
	return names
}
