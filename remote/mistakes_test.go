package remote_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// A mistake of the caller has the same error on a cluster as on one machine, word for word.
func TestMistakesAreToldAsOnOneMachine(t *testing.T) {
	fed, reads := testkit.Fed(t, optimizer.SGD(0.1)), testkit.Reading(t, 4, optimizer.SGD(0.1))
	data := testkit.Samples(t, t.TempDir(), 8)
	float := func(dims ...int64) *tensor.Tensor { return testkit.Random(t, tensor.Float32, 1, dims...) }
	x, y := float(4, testkit.Width), float(4, 1)
	step := func(feed executor.Feed, fetch string) func(executor.Executor) error {
		return func(e executor.Executor) error {
			_, err := e.Run(bounded(t), fed.Program, feed, fetch)
			return err
		}
	}
	train := func(p *program.Program, run executor.TrainOptions) func(executor.Executor) error {
		return func(e executor.Executor) error {
			_, err := e.Train(bounded(t), p, run, nil)
			return err
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "dir")
	l := listener(t)
	for name, call := range map[string]func(executor.Executor) error{
		"no feed":             step(nil, fed.Loss),
		"a missing feed":      step(executor.Feed{"x": x}, fed.Loss),
		"an unknown feed":     step(executor.Feed{"x": x, "y": y, "z": y}, fed.Loss),
		"a nil feed":          step(executor.Feed{"x": x, "y": nil}, fed.Loss),
		"another shape":       step(executor.Feed{"x": float(4, 3), "y": y}, fed.Loss),
		"another rank":        step(executor.Feed{"x": float(4), "y": y}, fed.Loss),
		"another type":        step(executor.Feed{"x": testkit.Random(t, tensor.Float64, 1, 4, testkit.Width), "y": y}, fed.Loss),
		"no rows":             step(executor.Feed{"x": float(0, testkit.Width), "y": float(0, 1)}, fed.Loss),
		"other rows":          step(executor.Feed{"x": x, "y": float(3, 1)}, fed.Loss),
		"a parameter":         step(executor.Feed{"x": x, "y": y, "fc_0.w_0": x}, fed.Loss),
		"a computed variable": step(executor.Feed{"x": x, "y": y, fed.Loss: float(1)}, fed.Loss),
		"an unknown fetch":    step(executor.Feed{"x": x, "y": y}, "los"),
		"a reader in Run": func(e executor.Executor) error {
			_, err := e.Run(bounded(t), reads.Program, nil)
			return err
		},
		"a fed program in Train":    train(fed.Program, executor.TrainOptions{Data: data}),
		"no data":                   train(reads.Program, executor.TrainOptions{}),
		"another dataset":           train(reads.Program, executor.TrainOptions{Data: map[string][]string{"other": data["train"]}}),
		"no globs":                  train(reads.Program, executor.TrainOptions{Data: map[string][]string{"train": nil}}),
		"passes":                    train(reads.Program, executor.TrainOptions{Data: data, Passes: -1}),
		"an unknown fetch of a run": train(reads.Program, executor.TrainOptions{Data: data, Fetch: []string{"los"}}),
		"no parameters":             train(reads.Program, executor.TrainOptions{Data: data, Params: "/nothing/here"}),
		"nothing to load": func(e executor.Executor) error {
			_, err := e.Load(bounded(t), "/nothing/here", fed.Program, executor.LoadOptions{})
			return err
		},
		"nothing to save":                 func(e executor.Executor) error { return e.Save(bounded(t), t.TempDir(), fed.Program) },
		"nothing to save to a wrong path": func(e executor.Executor) error { return e.Save(bounded(t), below, fed.Program) },
		"a wrong path to save to": func(e executor.Executor) error {
			if err := step(executor.Feed{"x": x, "y": y}, fed.Loss)(e); err != nil {
				return err
			}
			return e.Save(bounded(t), below, fed.Program)
		},
		"an evaluation that cannot save": func(e executor.Executor) error {
			_, err := e.Train(bounded(t), reads.Program.CloneForTest(), executor.TrainOptions{Data: data, Save: below}, func(executor.StepResult) error {
				t.Error("a step of an evaluation that cannot save")
				return nil
			})
			return err
		},
		"a call after Close": func(e executor.Executor) error {
			if err := e.Close(); err != nil {
				return err
			}
			return step(executor.Feed{"x": x, "y": y}, fed.Loss)(e)
		},
	} {
		local := executor.New()
		defer local.Close()
		cluster := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 1})
		want, got := call(local), call(cluster)
		if want == nil || got == nil || got.Error() != want.Error() {
			t.Errorf("%s: one machine says %v\na cluster says %v", name, want, got)
		}
	}
}
