package remote_test

import (
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
)

// A model that one cluster has saved goes on in a cluster of another shape as if nothing
// had happened: with its accumulators, its powers and its count of steps.
func TestWarmStartInAnotherShape(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data := testkit.Samples(t, t.TempDir(), 70)
	first, second, combined := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "model")
	l := listener(t)
	train := func(spec *remote.JobSpec, params, save string) {
		t.Helper()
		if _, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Params: params, Save: save}, nil); err != nil {
			t.Fatal(err)
		}
	}
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	for range 2 {
		if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data}, nil); err != nil {
			t.Fatal(err)
		}
	}

	train(&remote.JobSpec{Trainers: 2, Pservers: 3, MinBlockSize: 4}, "", first)
	train(&remote.JobSpec{Trainers: 2, Pservers: 2, NoSlice: true}, first, second)
	if err := testkit.Difference(testkit.Saved(t, second, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Errorf("from a directory: %v", err)
	}

	scope, third := executor.NewScope(), t.TempDir()
	if err := executor.LoadPersistables(scope, first, m.Program); err != nil {
		t.Fatal(err)
	}
	if err := executor.SaveCombined(scope, combined, m.Program); err != nil {
		t.Fatal(err)
	}
	train(&remote.JobSpec{Trainers: 2, Pservers: 4, MinBlockSize: 1}, combined, third)
	if err := testkit.Difference(testkit.Saved(t, third, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Errorf("from a combined file: %v", err)
	}
}
