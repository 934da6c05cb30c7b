package transpiler_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// heads are the parts of the last axis of a fully connected layer of x [-1, 4, 3], joined along axis 0.
func heads(x layers.Variable, join func(xs []layers.Variable, axis int, opts ...layers.Option) layers.Variable) layers.Variable {
	return join(layers.Split(layers.FC(x, 6, layers.NumFlattenDims(2)), 2, 2), 0)
}

// attention is that of AutoInt, whose heads are rows, or lie along a new axis 0.
func attention(m *layers.Model, join func(xs []layers.Variable, axis int, opts ...layers.Option) layers.Variable) layers.Variable {
	x := layers.Data(m, "x", layers.Dims(4, 3))
	weights := layers.Softmax(layers.MatMul(heads(x, join), heads(x, join), layers.TransposeY()))
	return layers.Concat(layers.Split(layers.MatMul(weights, heads(x, join)), 2, 0), -1)
}

// apart are models whose ops seem to mix rows of records and keep them apart. Each returns the cost of rows.
var apart = map[string]func(m *layers.Model) layers.Variable{
	"heads that are rows": func(m *layers.Model) layers.Variable { return layers.FC(attention(m, layers.Concat), 1) },
	"heads along a new axis": func(m *layers.Model) layers.Variable {
		return layers.FC(layers.Squeeze(attention(m, layers.Stack), layers.Axes(0)), 1)
	},
	"rows beneath an axis of steps": func(m *layers.Model) layers.Variable { // as the attention of SR-GNN
		x := layers.Data(m, "x", layers.Dims(4, 3))
		steps := layers.Transpose(layers.FC(x, 2, layers.NumFlattenDims(2)), []int{1, 0, 2})
		steps = layers.Tanh(layers.Add(steps, layers.FC(layers.ReduceMean(x, layers.Axes(1)), 2)))
		return layers.FC(layers.Transpose(steps, []int{1, 0, 2}), 1)
	},
	"frames of videos": func(m *layers.Model) layers.Variable {
		frames := layers.Reshape(layers.Data(m, "x", layers.Dims(4, 4, 2, 2)), []int64{-1, 4, 2, 2})
		frames = layers.Conv2D(layers.TemporalShift(layers.Conv2D(frames, 4, 1), 4, 0.25), 4, 1)
		return layers.FC(layers.ReduceMean(layers.Reshape(frames, []int64{-1, 4, 16}), layers.Axes(1)), 1)
	},
	"paths that are dropped": func(m *layers.Model) layers.Variable {
		x := layers.FC(layers.Data(m, "x", layers.Dims(4)), 3)
		rows := layers.OpInto(m, "slice", layers.In{"Input": {layers.Shape(x)}}, layers.Attrs{"axes": []int64{0}, "starts": []int64{0}, "ends": []int64{1}, "decrease_axis": []int64{0}},
			layers.In{"Out": layers.NewVariables(m, "rows", 1)}).All("Out")[0]
		drawn := layers.OpInto(m, "uniform_random", layers.In{"ShapeTensorList": {rows, layers.FillConstant(m, 1, []int64{1}, layers.DType(tensor.Int32))}},
			layers.Attrs{"shape": []int64{-1, 1}, "min": 0.0, "max": 1.0, "dtype": tensor.Float32}, layers.In{"Out": layers.NewVariables(m, "drawn", 1)}).All("Out")[0]
		return layers.FC(layers.Mul(x, layers.Floor(layers.Add(layers.FillConstant(m, 0.5, []int64{1}), drawn))), 1)
	},
	"sums of an evaluator": func(m *layers.Model) layers.Variable {
		x, label := layers.Softmax(layers.FC(layers.Data(m, "x", layers.Dims(4)), 3)), layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
		cost := layers.CrossEntropy(x, label)
		right, total := m.State("right", tensor.Int32, []int64{1}, layers.Constant(0)), m.State("total", tensor.Float32, []int64{1}, layers.Constant(0))
		best, index := layers.TopK(x, 1)
		counted := layers.OpInto(m, "accuracy", layers.In{"Out": {best}, "Indices": {index}, "Label": {label}}, nil,
			layers.In{"Accuracy": layers.NewVariables(m, "share", 1), "Correct": layers.NewVariables(m, "correct", 1), "Total": layers.NewVariables(m, "all", 1)})
		layers.OpInto(m, "sum", layers.In{"X": {right, counted.All("Correct")[0]}}, nil, layers.In{"Out": {right}})
		layers.OpInto(m, "elementwise_add", layers.In{"X": {total}, "Y": {layers.ReduceSum(cost)}}, nil, layers.In{"Out": {total}})
		return cost
	},
}

// What keeps records apart obeys the law, and trainers that divide the batch learn what one machine learns, up to rounding.
func TestRecordsThatStayApart(t *testing.T) {
	for name, cost := range apart {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.1).Minimize(layers.Mean(cost(m)))
			p := built(t, m)
			for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 2}, {Trainers: 4, PServers: 1, MinBlockSize: 4}} {
				if err := checkLaw(t, p, cfg, "fc_0.w_0"); err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
			alone := trained(t, p, 1)
			for name, got := range trained(t, p, 3) {
				for i, want := range alone[name] {
					if math.Abs(got[i]-want) > 1e-5*max(1, math.Abs(want)) {
						t.Fatalf("%s[%d] is %v with three trainers, %v with one", name, i, got[i], want)
					}
				}
			}
		})
	}
}

// trained returns the values of the persistable variables after some steps of so many trainers, and what numbers are fetched of each step.
func trained(t *testing.T, p *program.Program, trainers int, fetch ...string) map[string][]float64 {
	t.Helper()
	e, err := reference.New(p, trainers)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	random := rand.New(rand.NewPCG(1, 2))
	all := map[string][]float64{}
	for range steps {
		fetched, err := e.Run(t.Context(), p, batch(t, p, random), fetch...)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range fetch {
			all[name] = append(all[name], executor.Scalar(fetched[i]))
		}
	}
	for _, v := range p.Global().Vars() {
		value, ok := e.Scope().Find(v.Name)
		if !v.Persistable || !ok {
			continue
		}
		switch value.DType() {
		case tensor.Float32:
			for _, x := range value.Float32s() {
				all[v.Name] = append(all[v.Name], float64(x))
			}
		case tensor.Int32:
			for _, x := range value.Int32s() {
				all[v.Name] = append(all[v.Name], float64(x))
			}
		}
	}
	return all
}

// The scale of what is quantized is that of the rows of a trainer, and its averages merge, as the statistics of batch_norm do.
func TestLawOfQuantization(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.FC(layers.Data(m, "x", layers.Dims(4)), 3)
	one := func(name string) layers.Variable {
		return m.State(name, tensor.Float32, []int64{1}, layers.Constant(1))
	}
	scale, accum, state := one("scale"), one("accum"), one("state")
	x = layers.OpInto(m, "fake_quantize_dequantize_moving_average_abs_max", layers.In{"X": {x}, "InScale": {scale}, "InAccum": {accum}, "InState": {state}}, nil,
		layers.In{"Out": layers.NewVariables(m, "rounded", 1), "OutScale": {scale}, "OutAccum": {accum}, "OutState": {state}}).All("Out")[0]
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.Square(layers.FC(x, 1))))
	p := built(t, m)
	for trainers := range 4 {
		if err := checkLaw(t, p, transpiler.Config{Trainers: trainers + 1, PServers: 2}, "scale"); err != nil {
			t.Errorf("%d trainers: %v", trainers+1, err)
		}
	}
}
