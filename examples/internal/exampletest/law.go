package exampletest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// Trains is a way to train: it does so on an executor and returns what it fetched, and the bits of everything persistable afterwards.
type Trains func(exe executor.Executor) map[string][]byte

// Obeys checks, on the first records of out/program.pb, what the project promises of every program: no fusion of plans and no number of workers
// changes a bit of what it fetches and learns, and a cluster computes the bits of the reference.
func Obeys(t *testing.T, out, fetch string) {
	t.Helper()
	p := Load(t, out, "program.pb")
	data := map[string][]string{"train": {firstRecords(t, p, out)}}
	ObeysOn(t, p, func(exe executor.Executor) map[string][]byte {
		save := t.TempDir()
		left := map[string][]byte{}
		_, err := exe.Train(t.Context(), p, executor.TrainOptions{Data: data, Passes: 2, Fetch: []string{fetch}, Save: save},
			func(s executor.StepResult) error {
				left[fmt.Sprintf("%s of step %d", fetch, s.Step)] = tensor.AppendStream(nil, s.Fetched[0])
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range executor.Persistables(p) {
			b, err := os.ReadFile(filepath.Join(save, name))
			if err != nil {
				t.Fatal(err)
			}
			left[name] = b
		}
		return left
	})
}

// ObeysOn is Obeys for a program that train feeds.
func ObeysOn(t *testing.T, p *program.Program, train Trains) {
	t.Helper()
	plain := onThisMachine(t, train, executor.WithoutFusion())
	if len(plain) < 3 {
		t.Fatalf("only %d values to compare", len(plain))
	}
	ways := map[string][]executor.Option{
		"all fusions":            nil,
		"2 workers":              {executor.WithWorkers(2)},
		"3 workers, every part":  {executor.WithWorkers(3), executor.WithGrain(0)},
		"2 workers, some parts":  {executor.WithWorkers(2), executor.WithGrain(time.Microsecond)},
		"parts, without fusions": {executor.WithWorkers(2), executor.WithGrain(0), executor.WithoutFusion()},
	}
	for i, f := range executor.Fusions() {
		ways["without "+string(f)] = []executor.Option{executor.WithoutFusion(f)}
		others := slices.Delete(executor.Fusions(), i, i+1)
		ways["only "+string(f)] = []executor.Option{executor.WithoutFusion(others...)}
	}
	for name, options := range ways {
		same(t, name, plain, onThisMachine(t, train, options...))
	}
	for _, trainers := range []int{2, 3} {
		oracle, err := reference.New(p, trainers)
		if err != nil {
			t.Fatal(err)
		}
		want := train(oracle)
		if err := oracle.Close(); err != nil {
			t.Fatal(err)
		}
		cluster, err := remote.NewExecutor("", &remote.JobSpec{Trainers: int32(trainers), Pservers: 2, MinBlockSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		got := train(cluster)
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
		same(t, fmt.Sprintf("%d trainers", trainers), want, got)
	}
}

func onThisMachine(t *testing.T, train Trains, options ...executor.Option) map[string][]byte {
	local := executor.New(options...)
	defer local.Close()
	return train(local)
}

func same(t *testing.T, name string, want, got map[string][]byte) {
	t.Helper()
	for _, variable := range slices.Sorted(maps.Keys(want)) {
		if string(want[variable]) != string(got[variable]) {
			t.Errorf("%s: %s has other bits", name, variable)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
	}
}
