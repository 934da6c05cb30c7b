// Package exampletest trains what an example has written, as its printed commands would.
package exampletest

import (
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
)

// Load reads a program that an example wrote.
func Load(t testing.TB, out, name string) *program.Program {
	t.Helper()
	p, err := program.Load(filepath.Join(out, name), program.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Train trains out/program.pb on exe for a number of passes, saves the model to out/model, and returns the fetched variable of each step.
func Train(t testing.TB, exe executor.Executor, out string, passes int, fetch string) []float64 {
	t.Helper()
	return run(t, exe, Load(t, out, "program.pb"), executor.TrainOptions{
		Data: bind(out, "train"), Passes: passes, Fetch: []string{fetch}, Save: filepath.Join(out, "model"),
	})
}

// Test runs out/test.pb on the test set with the parameters in out/model, and returns the fetched variable of each batch.
func Test(t testing.TB, out, fetch string) []float64 {
	t.Helper()
	local := executor.New()
	defer local.Close()
	return run(t, local, Load(t, out, "test.pb"), executor.TrainOptions{
		Data: bind(out, "test"), Fetch: []string{fetch}, Params: filepath.Join(out, "model"),
	})
}

// Cluster is an executor of two trainers and two servers, as goroutines of the test.
func Cluster(t testing.TB) executor.Executor {
	t.Helper()
	exe, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	})
	return exe
}

// Mean is the average of values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func bind(out, name string) map[string][]string {
	return map[string][]string{name: {filepath.Join(out, name+"-*")}}
}

func run(t testing.TB, exe executor.Executor, p *program.Program, options executor.TrainOptions) (values []float64) {
	t.Helper()
	_, err := exe.Train(t.Context(), p, options, func(s executor.StepResult) error {
		values = append(values, float64(s.Fetched[0].Float32s()[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}
