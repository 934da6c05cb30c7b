package executor_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

// normed reads lines of 13 features, and has what each step changes: moving statistics, velocities, what dropout leaves.
func normed(t *testing.T, trains bool) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(3)
	table := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(table, 30, 9), 8)))
	hidden := layers.Dropout(layers.BatchNorm(layers.FC(batch[0], 6, layers.Act("tanh"))), 0.25)
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1, layers.Name("sum")), batch[1]))
	if trains {
		optimizer.Momentum(0.05, 0.9).Minimize(loss)
	}
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An executor on a scope below that of a training one evaluates between two steps, and training takes the same steps to the bit: also where the program that
// evaluates writes moving statistics itself. Each evaluation sees the parameters of its step.
func TestEvaluatingDoesNotDisturbTraining(t *testing.T) {
	data, held := testkit.LineFiles(t, t.TempDir(), 60), testkit.LineFiles(t, t.TempDir(), 27)
	p, evaluates := normed(t, true), normed(t, false)
	spec, err := metrics.Spec{Kind: "rmse"}.Fill(evaluates)
	if err != nil {
		t.Fatal(err)
	}
	train := func(judged bool) (*executor.Local, []float64) {
		l := executor.New()
		t.Cleanup(func() { l.Close() })
		judge := executor.New(executor.WithScope(l.Scope().NewChild()), executor.WithWorkers(2), executor.WithGrain(0))
		t.Cleanup(func() { judge.Close() })
		var values []float64
		_, err := l.Train(t.Context(), p, executor.TrainOptions{Data: data, Passes: 2}, func(s executor.StepResult) error {
			if !judged || s.Step%3 != 0 {
				return nil
			}
			set, err := metrics.Of(spec)
			if err != nil {
				return err
			}
			run := executor.TrainOptions{Data: held, Fetch: set.Names()}
			if _, err := judge.Train(t.Context(), evaluates, run, func(s executor.StepResult) error { return set.Add(s.Fetched) }); err != nil {
				return err
			}
			results, err := set.Results()
			if err == nil {
				values = append(values, results[0].Value)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l, values
	}
	plain, _ := train(false)
	judged, values := train(true)
	if len(values) != 6 || values[0] == values[5] {
		t.Errorf("evaluations %v", values)
	}
	if plain.Progress() != judged.Progress() {
		t.Errorf("progress %+v, without evaluations %+v", judged.Progress(), plain.Progress())
	}
	for _, name := range executor.Persistables(p) {
		a, _ := plain.Scope().Find(name)
		b, ok := judged.Scope().Find(name)
		if !ok || !testkit.Same(a, b) {
			t.Errorf("%s differs: %v, without evaluations %v", name, b, a)
		}
	}
	alike, again := train(true)
	for i, v := range again {
		if v != values[i] {
			t.Errorf("evaluation %d is %v, and %v in another run", i, v, values[i])
		}
	}
	if names := alike.Scope().Names(); len(names) != len(plain.Scope().Names()) {
		t.Errorf("the evaluation left variables in the scope: %v", names)
	}
}
