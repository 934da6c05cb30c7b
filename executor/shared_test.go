package executor_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// Several Locals infer over one Scope at once, from the start on: one of them gives the variables their first values. No run writes them then, although batch_norm and
// the quantization list their statistics as outputs. The detector of races sees a copy that writes back what it has read.
func TestLocalsInferOverOneScope(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(4))
	y := layers.BatchNorm(layers.FC(x, 5), layers.IsTest(), layers.Act("relu"))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	block := p.Global()
	for _, name := range []string{"scale", "accum", "state"} {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: y.DType(), Dims: []int64{1}, Persistable: true}
		block.EnsureVar(v)
		p.Startup.Global().EnsureVar(v)
		p.Startup.Global().Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
			Attrs: map[string]program.Attr{"shape": []int64{1}, "value": float32(2), "dtype": int32(5)}})
	}
	block.EnsureVar(program.Var{Name: "q", Kind: program.LoDTensor, DType: y.DType(), Dims: []int64{-1, 5}})
	block.Append(&program.Op{Type: "fake_quantize_dequantize_moving_average_abs_max",
		Inputs:  map[string][]string{"X": {y.Name()}, "InScale": {"scale"}, "InAccum": {"accum"}, "InState": {"state"}},
		Outputs: map[string][]string{"Out": {"q"}, "OutScale": {"scale"}, "OutAccum": {"accum"}, "OutState": {"state"}},
		Attrs:   map[string]program.Attr{"is_test": true}})
	scope := executor.NewScope()
	results := make([][]float32, 4)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			l := executor.New(executor.WithScope(scope))
			defer l.Close()
			for range 3 {
				out, err := l.Run(t.Context(), p, executor.Feed{"x": fixture.Numbers(1, 6, 4)}, "q")
				if err != nil {
					t.Error(err)
					return
				}
				results[i] = out[0].Float32s()
			}
		})
	}
	group.Wait()
	for i := range results {
		if len(results[i]) != 30 || !slices.Equal(results[i], results[0]) {
			t.Errorf("%v and %v", results[i], results[0])
		}
	}
}
