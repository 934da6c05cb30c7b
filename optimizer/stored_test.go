package optimizer_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// What an optimizer keeps of a table of bfloat16 is float32. Wrappers that compute with parameters themselves refuse such a table.
func TestOptimizersOfStoredTables(t *testing.T) {
	for name, c := range map[string]struct {
		minimize func(loss layers.Variable)
		refused  bool
	}{
		"adam":        {func(loss layers.Variable) { optimizer.Adam(0.1).Minimize(loss) }, false},
		"l2":          {func(loss layers.Variable) { optimizer.SGD(0.1, optimizer.Regularize(layers.L2(0.1))).Minimize(loss) }, false},
		"merge":       {func(loss layers.Variable) { optimizer.GradientMerge(optimizer.SGD(0.1), 2).Minimize(loss) }, true},
		"lookahead":   {func(loss layers.Variable) { optimizer.Lookahead(optimizer.SGD(0.1), 0.5, 2).Minimize(loss) }, true},
		"average":     {func(loss layers.Variable) { optimizer.ModelAverage(optimizer.SGD(0.1).Minimize(loss), 0.1, 2, 4) }, true},
		"exponential": {func(loss layers.Variable) { optimizer.ExponentialMovingAverage(optimizer.SGD(0.1).Minimize(loss), 0.9) }, true},
		"lamb":        {func(loss layers.Variable) { optimizer.Lamb(0.1).Minimize(loss) }, true},
	} {
		m := layers.NewModel()
		ids := layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64))
		c.minimize(layers.Mean(layers.Embedding(ids, 10, 4, layers.Sparse(), layers.StoreBFloat16())))
		p, err := m.Program()
		if c.refused {
			if !errors.Is(err, fault.Unsupported) {
				t.Errorf("%s: %v, want a refusal", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, v := range p.Global().Vars() {
			if want := tensor.BFloat16; v.Persistable && v.IsParameter != (v.DType == want) {
				t.Errorf("%s: %s is of %v", name, v.Name, v.DType)
			}
		}
	}
}
