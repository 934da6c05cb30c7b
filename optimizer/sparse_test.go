package optimizer_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// wordPairs is a model in float64 that looks two words up in one table. A lookup is sparse where its flag says so.
func wordPairs(first, second bool) (*layers.Model, layers.Variable) {
	m := layers.NewModel()
	embed := func(name string, sparse bool) layers.Variable {
		word := layers.Data(m, name, layers.Dims(1), layers.DType(tensor.Int64))
		opts := []layers.Option{layers.Param(layers.ParamAttr{Name: "table"}), layers.DType(tensor.Float64), layers.PaddingIndex(3)}
		if sparse {
			opts = append(opts, layers.Sparse())
		}
		return layers.Embedding(word, 6, 2, opts...)
	}
	both := layers.Concat([]layers.Variable{embed("first", first), embed("second", second)}, 1)
	return m, layers.Mean(layers.Square(layers.FC(both, 3)))
}

// words is a batch in which ids repeat within and across both words; 3 is padding.
func words() map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"first": integers([]int64{4, 1}, 5, 0, 5, 3), "second": integers([]int64{4, 1}, 5, 1, 0, 5)}
}

func kindOf(t *testing.T, p *program.Program, name string) program.VarKind {
	t.Helper()
	v, ok := p.Global().Var(name)
	if !ok {
		t.Fatalf("%s is not declared", name)
	}
	return v.Kind
}

func TestSparseGradientsAreDeclaredAndVerified(t *testing.T) {
	for _, c := range []struct {
		first, second bool
		want          program.VarKind
	}{{true, true, program.SelectedRows}, {true, false, program.LoDTensor}, {false, true, program.LoDTensor}, {false, false, program.LoDTensor}} {
		m, loss := wordPairs(c.first, c.second)
		pairs := optimizer.SGD(0.1).Minimize(loss)
		p := build(t, m)
		if got := kindOf(t, p, "table@GRAD"); got != c.want || pairs[0].Grad.IsSparse() != (c.want == program.SelectedRows) {
			t.Errorf("sparse %v and %v: the gradient is %v", c.first, c.second, got)
		}
		if err := ops.Verify(p, program.StageLocal); err != nil {
			t.Errorf("sparse %v and %v: %v", c.first, c.second, err)
		}
	}
}

// TestSparseTrainsLikeDense trains the same model both ways. For a row that both words look up, the terms of the sum are grouped differently,
// hence the tolerance.
func TestSparseTrainsLikeDense(t *testing.T) {
	const tolerance = 1e-14
	for name, minimizer := range map[string]func() *optimizer.Optimizer{
		"sgd":      func() *optimizer.Optimizer { return optimizer.SGD(0.1) },
		"momentum": func() *optimizer.Optimizer { return optimizer.Momentum(0.1, 0.9) },
		"adagrad":  func() *optimizer.Optimizer { return optimizer.Adagrad(0.1) },
		"adam":     func() *optimizer.Optimizer { return optimizer.Adam(0.1) },
		"rmsprop":  func() *optimizer.Optimizer { return optimizer.RMSProp(0.1) },
		"adamw":    func() *optimizer.Optimizer { return optimizer.AdamW(0.1) },
		"lamb":     func() *optimizer.Optimizer { return optimizer.Lamb(0.1) },
		"ftrl":     func() *optimizer.Optimizer { return optimizer.Ftrl(0.1) },
	} {
		train := func(first, second bool) []float64 {
			m, loss := wordPairs(first, second)
			minimizer().Minimize(loss)
			p := build(t, m)
			machine := start(t, p, words())
			for range 4 {
				machine.run(p.Global().Ops)
			}
			return machine.Vars["table"].Float64s()
		}
		want := train(false, false)
		for _, sparse := range [][2]bool{{true, true}, {true, false}, {false, true}} {
			got := train(sparse[0], sparse[1])
			for i := range want {
				if math.Abs(got[i]-want[i]) > tolerance {
					t.Errorf("%s, sparse %v: element %d of the table is %v, dense %v", name, sparse, i, got[i], want[i])
				}
			}
		}
	}
}

func TestLazyAdamLeavesOtherRowsAlone(t *testing.T) {
	table := func(opts ...optimizer.Option) []float64 {
		m, loss := wordPairs(true, true)
		optimizer.Adam(0.1, opts...).Minimize(loss)
		p := build(t, m)
		machine := start(t, p, words())
		machine.run(p.Global().Ops)
		for _, name := range []string{"first", "second"} {
			copy(machine.Vars[name].Int64s(), []int64{4, 4, 4, 4})
		}
		before := machine.Vars["table"].Clone().Float64s()
		machine.run(p.Global().Ops)
		after := machine.Vars["table"].Float64s()
		moved := make([]float64, 6)
		for row := range moved {
			moved[row] = math.Abs(after[2*row] - before[2*row])
		}
		return moved
	}
	eager, lazy := table(), table(optimizer.Lazy())
	for row := range 6 {
		if seen := row == 0 || row == 1 || row == 5; seen != (eager[row] > 0 && row != 4) {
			t.Errorf("row %d moves by %v along its moments", row, eager[row])
		}
		if (lazy[row] > 0) != (row == 4) {
			t.Errorf("row %d moves by %v although only row 4 is looked up", row, lazy[row])
		}
	}
}

// Where no row is looked up twice there is nothing to sum: a sparse gradient that is clipped or penalized gives the bits of the dense one.
func TestLimitsOfSparseGradientsAreThoseOfDenseOnes(t *testing.T) {
	for name, options := range map[string][]optimizer.Option{
		"by value":        {optimizer.ClipGradients(optimizer.ByValue(-0.01, 0.01))},
		"by norm":         {optimizer.ClipGradients(optimizer.ByNorm(0.01))},
		"by global norm":  {optimizer.ClipGradients(optimizer.ByGlobalNorm(0.01))},
		"l1":              {optimizer.Regularize(layers.L1(0.1))},
		"l2":              {optimizer.Regularize(layers.L2(0.1))},
		"l2, global norm": {optimizer.Regularize(layers.L2(0.1)), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.01))},
	} {
		for rule, minimizer := range map[string]func(...optimizer.Option) *optimizer.Optimizer{
			"sgd":      func(o ...optimizer.Option) *optimizer.Optimizer { return optimizer.SGD(0.1, o...) },
			"momentum": func(o ...optimizer.Option) *optimizer.Optimizer { return optimizer.Momentum(0.1, 0.9, o...) },
			"adam":     func(o ...optimizer.Option) *optimizer.Optimizer { return optimizer.Adam(0.1, o...) },
		} {
			train := func(sparse bool) []float64 {
				m, loss := wordPairs(sparse, sparse)
				minimizer(options...).Minimize(loss)
				p := build(t, m)
				machine := start(t, p, map[string]*tensor.Tensor{"first": integers([]int64{3, 1}, 5, 0, 3), "second": integers([]int64{3, 1}, 4, 1, 2)})
				for range 4 {
					machine.run(p.Global().Ops)
				}
				return machine.Vars["table"].Float64s()
			}
			if got, want := train(true), train(false); !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, dense %v", name, rule, got, want)
			}
		}
	}
}

// Ids that repeat are clipped by the norm of the sums of their rows.
func TestRepeatedRowsAreClippedAsOne(t *testing.T) {
	const tolerance = 1e-14
	for name, clip := range map[string]optimizer.Clip{"value": optimizer.ByValue(-0.01, 0.01), "norm": optimizer.ByNorm(0.01), "global": optimizer.ByGlobalNorm(0.01)} {
		train := func(sparse bool) []float64 {
			m, loss := wordPairs(sparse, sparse)
			optimizer.SGD(0.1, optimizer.ClipGradients(clip)).Minimize(loss)
			p := build(t, m)
			machine := start(t, p, words())
			for range 4 {
				machine.run(p.Global().Ops)
			}
			return machine.Vars["table"].Float64s()
		}
		got, want := train(true), train(false)
		for i := range want {
			if math.Abs(got[i]-want[i]) > tolerance {
				t.Errorf("by %s: element %d of the table is %v, dense %v", name, i, got[i], want[i])
			}
		}
	}
}
