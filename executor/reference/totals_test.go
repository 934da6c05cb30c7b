package reference_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// totalled builds a model on x [rows, 6], a mask and a second mask [rows, 1] of zeros and ones, and words [words, 6] of sequences, one for each row.
func totalled(t *testing.T, loss func(m *layers.Model, cost, mask, second layers.Variable) layers.Variable) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(3)
	x, y := layers.Data(m, "x", layers.Dims(6)), layers.Data(m, "y", layers.Dims(1))
	mask, second := layers.Data(m, "mask", layers.Dims(1)), layers.Data(m, "second", layers.Dims(1))
	cost := layers.SquareErrorCost(layers.FC(layers.FC(x, 5, layers.Act("tanh")), 1), y)
	optimizer.Momentum(0.05, 0.9).Minimize(loss(m, cost, mask, second))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func smooth(x layers.Variable) layers.Variable { return layers.Scale(x, 1, 1e-3) }

// quotients are losses that are functions of several sums and means over the batch.
var quotients = map[string]func(m *layers.Model, cost, mask, second layers.Variable) layers.Variable{
	"means": func(_ *layers.Model, cost, mask, _ layers.Variable) layers.Variable {
		return layers.Div(layers.Mean(layers.Mul(cost, mask)), smooth(layers.Mean(mask)))
	},
	"sums": func(_ *layers.Model, cost, mask, _ layers.Variable) layers.Variable {
		return layers.Div(layers.ReduceSum(layers.Mul(cost, mask)), smooth(layers.ReduceSum(mask)))
	},
	"masks of different counts": func(_ *layers.Model, cost, mask, second layers.Variable) layers.Variable {
		one := layers.Div(layers.ReduceSum(layers.Mul(cost, mask)), smooth(layers.ReduceSum(mask)))
		return layers.Add(one, layers.Div(layers.ReduceSum(layers.Mul(layers.Square(cost), second)), smooth(layers.ReduceSum(second))))
	},
	"a mean and a sum": func(m *layers.Model, cost, _, _ layers.Variable) layers.Variable {
		return layers.Add(layers.Add(layers.Mean(cost), layers.Scale(layers.ReduceSum(layers.Square(cost)), 0.01, 0)), layers.ReduceSum(layers.Square(m.Parameters()[0])))
	},
	"a function": func(_ *layers.Model, cost, _, _ layers.Variable) layers.Variable {
		return layers.Sqrt(layers.Add(layers.Square(layers.Mean(cost)), layers.Mean(layers.Square(cost))))
	},
	"rows divided by a count": func(_ *layers.Model, cost, mask, _ layers.Variable) layers.Variable {
		return layers.ReduceSum(layers.Div(layers.Mul(cost, mask), smooth(layers.ReduceSum(mask))))
	},
	"rows divided by a count of integers": func(_ *layers.Model, cost, mask, _ layers.Variable) layers.Variable {
		count := layers.Cast(layers.ReduceSum(layers.Cast(mask, tensor.Int32)), tensor.Float32)
		return layers.ReduceSum(layers.Div(layers.Mul(cost, mask), smooth(count)))
	},
	"rows divided by a count of long integers": func(_ *layers.Model, cost, mask, _ layers.Variable) layers.Variable {
		count := layers.Cast(layers.ReduceSum(layers.Cast(mask, tensor.Int64)), tensor.Float32)
		return layers.ReduceSum(layers.Div(layers.Mul(cost, mask), smooth(count)))
	},
	"a mean over words": func(m *layers.Model, cost, _, _ layers.Variable) layers.Variable {
		words := layers.Data(m, "words", layers.Dims(6), layers.LoD(1))
		return layers.Add(layers.Mean(cost), layers.Mean(layers.Square(layers.FC(words, 1))))
	},
	"batch norm beside words": func(m *layers.Model, cost, _, _ layers.Variable) layers.Variable {
		words := layers.Data(m, "words", layers.Dims(6), layers.LoD(1))
		image := layers.Data(m, "image", layers.Dims(2, 3, 3))
		seen := layers.BatchNorm(image, layers.IsTest())
		return layers.Add(layers.Mean(layers.Square(layers.FC(words, 1))), layers.Mean(layers.Square(layers.FC(seen, 1))))
	},
}

// quotientBatch is a batch for any of them. Some parts of it have no row that counts, and some sequences have no word.
func quotientBatch(t *testing.T, step uint64, rows int64) executor.Feed {
	t.Helper()
	feed := executor.Feed{"x": fixture.Numbers(step, rows, 6), "y": fixture.Numbers(step+50, rows, 1), "image": fixture.Numbers(step+60, rows, 2, 3, 3)}
	for i, name := range []string{"mask", "second"} {
		mask := fixture.Numbers(0, rows, 1)
		for k := range mask.Float32s() {
			mask.Float32s()[k] = float32(min(1, (k+int(step)+i)%(3+i)))
		}
		feed[name] = mask
	}
	offsets := []int64{0}
	for k := range rows {
		offsets = append(offsets, offsets[k]+(k*3+int64(step))%4)
	}
	words := fixture.Numbers(step+70, offsets[rows], 6)
	words.SetLoD([][]int64{offsets})
	feed["words"] = words
	return feed
}

// The gradient of a loss that is a function of sums and means over the batch is that of one machine, up to rounding, however many trainers share the batch.
func TestTotalsAreSharedBetweenForwardAndBackward(t *testing.T) {
	for name, loss := range quotients {
		p := totalled(t, loss)
		run := func(e executor.Executor) (losses []float64) {
			t.Helper()
			for step := range uint64(4) {
				feed := executor.Feed{}
				for name, value := range quotientBatch(t, step, 7) {
					if v, ok := p.Global().Var(name); ok && v != nil {
						feed[name] = value
					}
				}
				out, err := e.Run(t.Context(), p, feed, p.Targets()...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, o := range out {
					losses = append(losses, float64(o.Float32s()[0]))
				}
			}
			return losses
		}
		local := executor.New()
		defer local.Close()
		wantLosses, want := run(local), values(local.Scope())
		for trainers := 1; trainers <= 4; trainers++ {
			t.Run(fmt.Sprint(name, " on ", trainers), func(t *testing.T) {
				e := open(t, p, trainers)
				losses, got := run(e), values(e.Scope())
				for i := range wantLosses {
					if math.Abs(losses[i]-wantLosses[i]) > 1e-4*max(1, math.Abs(wantLosses[i])) {
						t.Errorf("loss %d is %v, want about %v", i, losses[i], wantLosses[i])
					}
				}
				for name := range want {
					for i := range want[name] {
						if math.Abs(got[name][i]-want[name][i]) > 1e-4 {
							t.Fatalf("%s[%d] = %v, want about %v", name, i, got[name][i], want[name][i])
						}
					}
				}
			})
		}
	}
}

// Through a mean that rows are computed with, gradients would have to go on to rows of other trainers.
func TestTotalsThatRowsReadHaveNoGradient(t *testing.T) {
	p := totalled(t, func(_ *layers.Model, cost, _, _ layers.Variable) layers.Variable {
		return layers.Mean(layers.Square(layers.Sub(cost, layers.Mean(cost))))
	})
	_, err := reference.New(p, 2)
	if err == nil {
		e, _ := reference.New(p, 2)
		defer e.Close()
		_, err = e.Run(t.Context(), p, executor.Feed{"x": fixture.Numbers(1, 4, 6), "y": fixture.Numbers(2, 4, 1)})
	}
	if !errors.Is(err, fault.Unsupported) {
		t.Errorf("%v, want a refusal", err)
	}
}

// A cost that divides by the number of labels that count, as Fluid's sigmoid_cross_entropy_with_logits with normalize, counts them in the backward pass again. There, too, it must be
// the number of the batch.
func TestTotalsThatTheBackwardPassMakesAgain(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x, mask := layers.Data(m, "x", layers.Dims(6)), layers.Data(m, "mask", layers.Dims(1))
	score := layers.FC(layers.FC(x, 5, layers.Act("tanh")), 1)
	cost := layers.ReduceSum(layers.SigmoidCrossEntropyWithLogits(score, mask, layers.IgnoreIndex(0)))
	optimizer.SGD(0.1).Minimize(layers.Add(cost, layers.Mean(layers.Square(score))))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range p.Global().Ops {
		if op.Type == "sigmoid_cross_entropy_with_logits" || op.Type == "sigmoid_cross_entropy_with_logits_grad" {
			op.SetAttr("normalize", true)
		}
	}
	b, err := p.Encode()
	if err == nil {
		p, err = program.Decode(b, program.DefaultLimits())
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(e executor.Executor) map[string][]float64 {
		t.Helper()
		for step := range uint64(3) {
			feed := quotientBatch(t, step, 7)
			if _, err := e.Run(t.Context(), p, executor.Feed{"x": feed["x"], "mask": feed["mask"]}); err != nil {
				t.Fatal(err)
			}
		}
		return values(e.(interface{ Scope() *executor.Scope }).Scope())
	}
	local := executor.New()
	defer local.Close()
	want, got := run(local), run(open(t, p, 3))
	for name := range want {
		for i := range want[name] {
			if math.Abs(got[name][i]-want[name][i]) > 1e-4 {
				t.Errorf("%s[%d] = %v, want about %v", name, i, got[name][i], want[name][i])
			}
		}
	}
}

// recomputing changes a program as Fluid's RecomputeOptimizer does: the backward pass reads what it computes again of the forward pass.
func recomputing(p *program.Program) *program.Program {
	p = p.Clone()
	b := p.Global()
	first := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleBackward) })
	again := func(name string) string { return name + ".subprog_0" }
	copied := map[string]bool{}
	ops := slices.Clone(b.Ops[:first+1]) // with the gradient of the loss
	for _, op := range b.Ops[:first] {
		if len(op.Outputs) == 0 {
			continue
		}
		c := op.Clone()
		for _, name := range c.InputNames() {
			if copied[name] {
				c.RenameInput(name, again(name))
			}
		}
		for _, name := range c.OutputNames() {
			v, _ := b.Find(name)
			b.EnsureVar(v.Copy(again(name)))
			c.RenameOutput(name, again(name))
			copied[name] = true
		}
		c.SetRole(program.RoleBackward)
		ops = append(ops, c)
	}
	for _, op := range b.Ops[first+1:] {
		for _, name := range op.InputNames() {
			if copied[name] {
				op.RenameInput(name, again(name))
			}
		}
		ops = append(ops, op)
	}
	b.Ops = ops
	return p
}

// A backward pass that computes the forward pass again reads the totals that trainers have shared: it trains as one that keeps the forward pass, bit for bit.
func TestRecomputedPassesReadSharedTotals(t *testing.T) {
	for name, loss := range quotients {
		p := totalled(t, loss)
		run := func(p *program.Program) map[string][]float64 {
			t.Helper()
			e := open(t, p, 3)
			for step := range uint64(3) {
				feed := executor.Feed{}
				for name, value := range quotientBatch(t, step, 7) {
					if v, ok := p.Global().Var(name); ok && v != nil {
						feed[name] = value
					}
				}
				if _, err := e.Run(t.Context(), p, feed); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			return values(e.Scope())
		}
		want, got := run(p), run(recomputing(p))
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				t.Errorf("%s = %v, want %v", name, got[name], want[name])
			}
		}
	}
}

// A reduction of the backward pass that the forward pass has not made is refused: it would be that of a trainer's rows.
func TestReductionsOfTheBackwardPassAreRefused(t *testing.T) {
	p := totalled(t, quotients["means"]).Clone()
	b := p.Global()
	at := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return op.Type == "mean" })
	again := b.Ops[at].Clone()
	again.Inputs["X"] = []string{"y"}
	v, _ := b.Find(again.Out("Out"))
	copied := v.Copy("again")
	b.EnsureVar(copied)
	again.Outputs["Out"] = []string{copied.Name}
	again.SetRole(program.RoleBackward)
	first := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return op.Type == "mean_grad" })
	b.Ops = slices.Insert(b.Ops, first, again)
	if _, err := reference.New(p, 2); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "makes again") {
		t.Errorf("%v, want a refusal", err)
	}
}
