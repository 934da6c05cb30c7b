package layers_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func TestParametersAreInitializedOnceAndShared(t *testing.T) {
	m := layers.NewModel()
	shared := layers.Param(layers.ParamAttr{Name: "words", LearningRate: 0.5, Initializer: layers.Constant(0.25)})
	first := layers.Data(m, "first", layers.Dims(1), layers.DType(tensor.Int64))
	second := layers.Data(m, "second", layers.Dims(1), layers.DType(tensor.Int64))
	layers.Concat([]layers.Variable{layers.Embedding(first, 100, 8, shared), layers.Embedding(second, 100, 8, shared)}, 1)
	p := finish(t, m)
	if got := opTypes(p.Startup); got != "fill_constant" {
		t.Fatalf("startup program: %s", got)
	}
	if got := m.Parameters(); len(got) != 1 || got[0].Name() != "words" {
		t.Errorf("parameters: %v", got)
	}
	if got := m.Settings("words").LearningRate; got != 0.5 {
		t.Errorf("learning rate factor %v, want 0.5", got)
	}
	for _, op := range p.Global().Ops[:2] {
		if op.In("W") != "words" {
			t.Errorf("an embedding reads %s", op.In("W"))
		}
	}
}

func TestBatchNormKeepsStatisticsThatAreNotTrained(t *testing.T) {
	m := layers.NewModel()
	layers.BatchNorm(layers.Data(m, "x", layers.Dims(3)))
	p := finish(t, m)
	for name, trained := range map[string]bool{"batch_norm_0.w_0": true, "batch_norm_0.b_0": true, "batch_norm_0.w_1": false,
		"batch_norm_0.w_2": false} {
		v, ok := p.Global().Var(name)
		if !ok || !v.Persistable || v.IsParameter != trained || v.StopGradient == trained {
			t.Errorf("%s: %+v", name, v)
		}
	}
	op := p.Global().Ops[0]
	if op.Out("MeanOut") != op.In("Mean") || op.Out("VarianceOut") != op.In("Variance") {
		t.Error("the statistics are not updated in place")
	}
}

func TestInitializersEmitTheirOps(t *testing.T) {
	// Fans: 20 in and 30 out of the matrix; 3·25 in and 8·25 out of the filter.
	cases := []struct {
		name   string
		build  func(m *layers.Model, attr layers.ParamAttr)
		init   layers.Initializer
		opType string
		attrs  map[string]float64
	}{
		{"constant", matrix, layers.Constant(0.5), "fill_constant", map[string]float64{"value": 0.5}},
		{"uniform", matrix, layers.Uniform(-2, 3), "uniform_random", map[string]float64{"min": -2, "max": 3, "seed": 11}},
		{"normal", matrix, layers.Normal(1, 2), "gaussian_random", map[string]float64{"mean": 1, "std": 2, "seed": 11}},
		{"truncated normal", matrix, layers.TruncatedNormal(1, 2), "truncated_gaussian_random", map[string]float64{"mean": 1, "std": 2, "seed": 11}},
		{"default of fc", matrix, nil, "uniform_random", map[string]float64{"min": -math.Sqrt(6. / 50), "max": math.Sqrt(6. / 50)}},
		{"xavier of a filter", filter, layers.Xavier(), "uniform_random", map[string]float64{"max": math.Sqrt(6. / 275)}},
		{"xavier normal", matrix, layers.XavierNormal(), "gaussian_random", map[string]float64{"std": math.Sqrt(2. / 50)}},
		{"msra", matrix, layers.MSRA(), "uniform_random", map[string]float64{"max": math.Sqrt(6. / 20)}},
		{"msra normal of a filter", filter, layers.MSRANormal(), "gaussian_random", map[string]float64{"std": math.Sqrt(2. / 75)}},
		{"default of conv2d", filter, nil, "gaussian_random", map[string]float64{"mean": 0, "std": math.Sqrt(2. / 75)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel().Seed(11)
			c.build(m, layers.ParamAttr{Initializer: c.init})
			op := finish(t, m).Startup.Global().Ops[0]
			if op.Type != c.opType {
				t.Fatalf("got %s, want %s", op.Type, c.opType)
			}
			for name, want := range c.attrs {
				if got, ok := op.Float(name); !ok || math.Abs(got-want) > 1e-7 {
					t.Errorf("%s = %v, want %v", name, got, want)
				}
			}
		})
	}
}

func matrix(m *layers.Model, attr layers.ParamAttr) {
	layers.FC(layers.Data(m, "x", layers.Dims(20)), 30, layers.NoBias(), layers.Param(attr))
}

func filter(m *layers.Model, attr layers.ParamAttr) {
	layers.Conv2D(layers.Data(m, "x", layers.Dims(3, 9, 9)), 8, 5, layers.NoBias(), layers.Param(attr))
}
