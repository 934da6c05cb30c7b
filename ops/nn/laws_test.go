package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/gradcheck"
	_ "github.com/edl-go/edl/ops/nn"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

type (
	slots = map[string][]*tensor.Tensor
	attrs = map[string]program.Attr
	dims  = []int64
)

func allCases() []gradcheck.Case {
	return slices.Concat(dataNormCases, simCases, cvmCases, lossCases, imageCases, convCases, normCases, dropoutCases, lookupCases, classifyCases, activationCases, pointLossCases, imageNormCases, rearrangeCases, poolCases, interpolateCases, gridCases, productCases, spectralCases, rowLossCases(), iouCases, treeCases(), nceCases(), sampledCases, likelihoodCases, deformableCases, networkCases, quantizeCases, drawnCases, eventCases, cropCases, pairCases, forestCases, gumbelCases, cudnnCases)
}

func TestLaws(t *testing.T) { gradcheck.Laws(t, "nn", allCases()) }

func TestCompiledOpsHaveTheBitsOfSingleOnes(t *testing.T) { compilecheck.Law(t, allCases()) }

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "nn", allCases(), lawcheck.Program{Name: "a table that servers hold", Build: func(m *layers.Model) {
		id := layers.Data(m, "id", layers.Dims(1), layers.DType(tensor.Int64))
		rows := layers.Embedding(id, 4, 3, layers.Sparse(), layers.Distributed())
		optimizer.Adagrad(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), layers.Data(m, "y", layers.Dims(1)))))
	}}, lawcheck.Program{Name: "steps of records, with what layers drop", Build: func(m *layers.Model) {
		out := layers.RNN(layers.Data(m, "x", layers.Dims(4, 2)), "LSTM", 3, 2, true)
		optimizer.SGD(0.1).Minimize(layers.Mean(layers.Square(layers.FC(out, 1))))
	}, Change: func(p *program.Program) {
		for _, op := range p.Global().Ops {
			if op.Type == "rnn" || op.Type == "rnn_grad" {
				op.SetAttr("dropout_prob", float32(0.5))
			}
		}
	}}, lawcheck.Program{Name: "the last of steps along axis 0", Build: func(m *layers.Model) { minimizeLast(m, -1) }},
		lawcheck.Program{Name: "tables of rows", Build: func(m *layers.Model) {
			x := layers.Transpose(layers.Data(m, "x", layers.Dims(2, 3)), []int{1, 0, 2})
			weights := layers.CreateParameter(m, []int64{2, 3, 2}, tensor.Float32, layers.ParamAttr{})
			bias := layers.CreateParameter(m, []int64{2, 2}, tensor.Float32, layers.ParamAttr{})
			out := layers.OpInto(m, "batch_fc", layers.In{"Input": {x}, "W": {weights}, "Bias": {bias}}, nil, layers.In{"Out": layers.NewVariables(m, "out", 1)}).All("Out")[0]
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.Square(layers.Transpose(out, []int{1, 0, 2}))))
		}})
}

// minimizeLast builds a network of time-major steps. Its loss reads one step.
func minimizeLast(m *layers.Model, step int64) {
	x := layers.Data(m, "x", layers.Dims(4, 2))
	var first []layers.Variable
	for range 2 {
		first = append(first, layers.OpInto(m, "fill_constant_batch_size_like", layers.In{"Input": {x}}, layers.Attrs{"shape": []int64{1, -1, 3}, "dtype": tensor.Float32, "value": 0,
			"input_dim_idx": 0, "output_dim_idx": 1}, layers.In{"Out": layers.NewVariables(m, "first", 1)}).All("Out")...)
	}
	out, lastH, _ := layers.LSTM(layers.Transpose(x, []int{1, 0, 2}), first[0], first[1], false)
	last := layers.OpInto(m, "slice", layers.In{"Input": {out}}, layers.Attrs{"axes": []int64{0}, "starts": []int64{step}, "ends": []int64{math.MaxInt32}, "decrease_axis": []int64{0}},
		layers.In{"Out": layers.NewVariables(m, "last", 1)}).All("Out")[0]
	y := layers.FC(layers.Add(last, layers.Squeeze(lastH, layers.Axes(0))), 1)
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(y, layers.Data(m, "y", layers.Dims(1)))))
}

// What takes some of the records, or brings others beside them, mixes them.
func TestRecordsThatDoNotStayApart(t *testing.T) {
	for name, change := range map[string]func(op *program.Op){
		"some records":          func(op *program.Op) { op.SetAttr("axes", []int32{1}); op.SetAttr("decrease_axis", []int32{1}) },
		"records, from the end": func(op *program.Op) { op.SetAttr("axes", []int32{-2}); op.SetAttr("decrease_axis", []int32{1}) },
	} {
		m := layers.NewModel()
		minimizeLast(m, -1)
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range p.Global().Ops {
			if op.Type == "slice" {
				change(op)
			}
		}
		if _, err := transpiler.Transpile(t.Context(), p, transpiler.Config{Trainers: 2, PServers: 1}); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}
