package layers_test

import (
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
