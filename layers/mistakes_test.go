package layers_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// here returns file:line of its caller plus a number of lines.
func here(below int) string {
	_, _, line, _ := runtime.Caller(1)
	return fmt.Sprintf("layers/mistakes_test.go:%d", line+below)
}

func TestMistakesAreReportedTogetherAtTheUsersLines(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(13))
	y := layers.Data(m, "y", layers.Dims(2))
	var sites []string
	sites = append(sites, here(1))
	wide := layers.FC(x, 0)
	sites = append(sites, here(1))
	sum := layers.Add(x, y)
	layers.Mean(layers.SquareErrorCost(wide, sum)) // follow-ups of the two mistakes above are silent
	sites = append(sites, here(1))
	layers.Data(m, "x")
	_, err := m.Program()
	var list fault.List
	if !errors.As(err, &list) || len(list) != len(sites) {
		t.Fatalf("got %v, want %d mistakes", err, len(sites))
	}
	for i, line := range sites {
		if list[i].Line != line {
			t.Errorf("mistake %d is reported at %s, want %s: %v", i, list[i].Line, line, list[i])
		}
	}
}

func TestEachMistakeSaysWhatIsWrong(t *testing.T) {
	int64Column := []layers.Option{layers.Dims(1), layers.DType(tensor.Int64)}
	cases := []struct {
		name  string
		build func(m *layers.Model, x layers.Variable) // x is float32 [-1 4]
		kind  fault.Kind
		says  string
	}{
		{"unknown option", func(m *layers.Model, x layers.Variable) { layers.FC(x, 1, layers.IsTest()) }, fault.InvalidArgument, "option IsTest"},
		{"unknown activation", func(m *layers.Model, x layers.Variable) { layers.FC(x, 1, layers.Act("rellu")) }, fault.Unsupported,
			`did you mean "relu"?`},
		{"name that leaves its directory", func(m *layers.Model, x layers.Variable) {
			layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "../evil"}))
		}, fault.InvalidArgument, "../evil"},
		{"flip that moves records", func(m *layers.Model, x layers.Variable) { layers.RandomFlip(x, []int{1, -2}, 0.5) }, fault.InvalidArgument, "axis -2, that of records"},
		{"size of fc", func(m *layers.Model, x layers.Variable) { layers.FC(x, -1) }, fault.InvalidArgument, "size -1"},
		{"flatten dims", func(m *layers.Model, x layers.Variable) { layers.FC(x, 1, layers.NumFlattenDims(2)) }, fault.ShapeMismatch, "NumFlattenDims"},
		{"open columns", func(m *layers.Model, x layers.Variable) { layers.FC(layers.Data(m, "open", layers.Dims(-1)), 1) }, fault.ShapeMismatch,
			"dims [-1 1]"},
		{"whole numbers for weights", func(m *layers.Model, x layers.Variable) { layers.FC(layers.Data(m, "ids", int64Column...), 3) }, fault.TypeMismatch, "layers.Embedding"},
		{"float ids", func(m *layers.Model, x layers.Variable) { layers.Embedding(x, 10, 2) }, fault.TypeMismatch, "int64"},
		{"a dense gradient of bfloat16", func(m *layers.Model, x layers.Variable) {
			layers.Embedding(layers.Data(m, "ids", int64Column...), 10, 2, layers.StoreBFloat16())
		}, fault.InvalidArgument, "Sparse"},
		{"products with a table of bfloat16", func(m *layers.Model, x layers.Variable) {
			layers.Embedding(layers.Data(m, "ids", int64Column...), 10, 2, layers.Sparse(), layers.StoreBFloat16(), layers.Param(layers.ParamAttr{Name: "table"}))
			table, _ := m.Variable("table")
			layers.MatMul(table, table, layers.TransposeY())
		}, fault.Unsupported, "bfloat16"},
		{"combine by a new word", func(m *layers.Model, x layers.Variable) {
			layers.Embedding(layers.Data(m, "ids", layers.Dims(3, 1), layers.DType(tensor.Int64)), 10, 2, layers.Combine("max"))
		}, fault.InvalidArgument, "sum, mean or sqrt"},
		{"combine one id", func(m *layers.Model, x layers.Variable) {
			layers.Embedding(layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64)), 10, 2, layers.Combine("sum"))
		}, fault.ShapeMismatch, "[..., k, 1]"},
		{"a full table that refuses and evicts", func(m *layers.Model, x layers.Variable) {
			layers.SparseEmbedding(layers.Data(m, "ids", int64Column...), 64, 2, layers.Refuse(), layers.EvictOldest())
		}, fault.InvalidArgument, "options Refuse and EvictOldest"},
		{"two entries of a table", func(m *layers.Model, x layers.Variable) {
			layers.SparseEmbedding(layers.Data(m, "ids", int64Column...), 64, 2, layers.ProbabilityEntry(0.5), layers.CountFilterEntry(1))
		}, fault.InvalidArgument, "options CountFilterEntry and ProbabilityEntry"},
		{"float label", func(m *layers.Model, x layers.Variable) { layers.CrossEntropy(layers.Softmax(x), x) }, fault.TypeMismatch, "int64"},
		{"no image", func(m *layers.Model, x layers.Variable) { layers.Conv2D(x, 1, 3) }, fault.ShapeMismatch, "[batch, channels, height, width]"},
		{"groups", func(m *layers.Model, x layers.Variable) {
			layers.Conv2D(layers.Data(m, "image", layers.Dims(3, 8, 8)), 4, 3, layers.Groups(2))
		}, fault.InvalidArgument, "2 groups"},
		{"shared parameter of another shape", func(m *layers.Model, x layers.Variable) {
			layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "w"}))
			layers.FC(x, 2, layers.Param(layers.ParamAttr{Name: "w"}))
		}, fault.ShapeMismatch, "float32[4 2]"},
		{"parameter with the name of data", func(m *layers.Model, x layers.Variable) {
			layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "x"}))
		}, fault.ShapeMismatch, `variable "x"`},
		{"name taken", func(m *layers.Model, x layers.Variable) { layers.Relu(x, layers.Name("x")) }, fault.InvalidArgument, "taken"},
		{"empty name", func(m *layers.Model, x layers.Variable) { layers.Data(m, "") }, fault.InvalidArgument, "empty name"},
		{"two models", func(m *layers.Model, x layers.Variable) {
			layers.Add(x, layers.Data(layers.NewModel(), "y", layers.Dims(4)))
		}, fault.InvalidArgument, "two models"},
		{"zero variable", func(m *layers.Model, x layers.Variable) { layers.Add(x, layers.Variable{}) }, fault.InvalidArgument, "the zero layers.Variable"},
		{"zero variable first", func(m *layers.Model, x layers.Variable) {
			layers.Add(layers.Relu(layers.Variable{}), x)
		}, fault.InvalidArgument, "layer elementwise_add"},
		{"zero variable of an op", func(m *layers.Model, x layers.Variable) {
			layers.Op(m, "relu", layers.In{"X": {layers.Variable{}}}, nil)
		}, fault.InvalidArgument, "layer relu: "},
		{"probability below 0", func(m *layers.Model, x layers.Variable) { layers.Dropout(x, -0.5) }, fault.InvalidArgument, "dropout_prob"},
		{"probability above 1", func(m *layers.Model, x layers.Variable) { layers.Dropout(x, 1.5) }, fault.InvalidArgument, "dropout_prob"},
		{"shuffle of batches", func(m *layers.Model, x layers.Variable) {
			layers.Read(layers.Shuffle(layers.Batch(layers.OpenDataset(m, "d", layers.Field("f", layers.Dims(4))), 2), 10, 1))
		}, fault.InvalidProgram, "a shuffle of batches"},
		{"reader without batches", func(m *layers.Model, x layers.Variable) {
			layers.Read(layers.OpenDataset(m, "d", layers.Field("f", layers.Dims(4))))
		}, fault.InvalidProgram, "a reader of single samples"},
		{"two batches", func(m *layers.Model, x layers.Variable) {
			layers.Read(layers.Batch(layers.Batch(layers.OpenDataset(m, "d", layers.Field("f", layers.Dims(4))), 2), 2))
		}, fault.InvalidProgram, "a second create_batch_reader"},
		{"two readers", func(m *layers.Model, x layers.Variable) {
			layers.Read(layers.Batch(layers.OpenDataset(m, "a", layers.Field("f", layers.Dims(4))), 2))
			layers.Read(layers.Batch(layers.OpenDataset(m, "b", layers.Field("g", layers.Dims(4))), 2))
		}, fault.Unsupported, "a second read op"},
		{"axis", func(m *layers.Model, x layers.Variable) { layers.Concat([]layers.Variable{x, x}, 2) }, fault.InvalidArgument, "axis 2"},
		{"parts", func(m *layers.Model, x layers.Variable) { layers.Split(x, 0, 1) }, fault.InvalidArgument, "0 parts"},
		{"k", func(m *layers.Model, x layers.Variable) { layers.TopK(x, 0) }, fault.InvalidArgument, "k below 1"},
		{"initializer without op", func(m *layers.Model, x layers.Variable) {
			layers.FC(x, 1, layers.Param(layers.ParamAttr{Initializer: func(layers.Target) *program.Op { return nil }}))
		}, fault.InvalidArgument, "initializer"},
		{"unregistered op", func(m *layers.Model, x layers.Variable) { layers.Op(m, "warp", layers.In{"X": {x}}, nil) }, fault.Unsupported, "warp"},
		{"missing slot", func(m *layers.Model, x layers.Variable) { layers.Op(m, "mul", layers.In{"X": {x}}, nil) }, fault.InvalidProgram, "input Y"},
		{"write to another type", func(m *layers.Model, x layers.Variable) {
			layers.AssignTo(layers.Data(m, "label", int64Column...), x)
		}, fault.ShapeMismatch, "as the variable was declared"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel()
			c.build(m, layers.Data(m, "x", layers.Dims(4)))
			_, err := m.Program()
			var list fault.List
			if !errors.As(err, &list) || len(list) != 1 {
				t.Fatalf("got %v, want one mistake", err)
			}
			if list[0].Kind != c.kind || !strings.Contains(list[0].Error(), c.says) {
				t.Errorf("got %v (%v), want %v that says %q", list[0], list[0].Kind, c.kind, c.says)
			}
			if !strings.HasPrefix(list[0].Line, "layers/mistakes_test.go:") {
				t.Errorf("line %q is not a line of this file", list[0].Line)
			}
		})
	}
}

func TestZeroVariableIsHarmless(t *testing.T) {
	var none layers.Variable
	if y := layers.FC(layers.Relu(none), 3); y.OK() || y.Model() != nil {
		t.Errorf("a layer on the zero Variable gives %v", y)
	}
	if parts := layers.Split(none, 2, 0); len(parts) != 2 || parts[0].OK() {
		t.Errorf("Split of the zero Variable gives %v", parts)
	}
}
