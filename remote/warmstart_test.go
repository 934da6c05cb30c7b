package remote_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
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

// A directory that cannot take the model costs no training: the error names the trainer and the file, and the executor has the state of the last step.
func TestStateOutlivesAFailedSave(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.Momentum(0.05, 0.9))
	run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 20), Save: t.TempDir()}
	parameter := executor.Persistables(m.Program)
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, MaxRestarts: -1})
	_, err := e.Train(bounded(t), m.Program, run, func(executor.StepResult) error { // a directory that is wrong before is refused at once
		return os.MkdirAll(filepath.Join(run.Save, parameter[0], "in the way"), 0o700)
	})
	if err == nil || !strings.Contains(err.Error(), "trainer ") || !strings.Contains(err.Error(), parameter[0]) {
		t.Errorf("the error of Train is %v", err)
	}
	elsewhere := t.TempDir()
	if err := e.Save(bounded(t), elsewhere, m.Program); err != nil {
		t.Fatal(err)
	}
	if p, ok, err := executor.ReadProgress(elsewhere); err != nil || !ok || p.Steps != 4 || p.Pass != 1 {
		t.Errorf("saved elsewhere with %+v, %v, %v", p, ok, err)
	}
	run.Save = elsewhere
	mustEqualReference(t, m, 2, run)
}

// Listeners that joined one etcd cluster share the roles of a job, which one of them was sent.
func TestJobOnTheNodesOfACluster(t *testing.T) {
	t.Parallel()
	etcd, err := cluster.Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, node := range []string{"left", "right"} {
		listener(t, remote.WithEtcd(etcd.Endpoints()...), remote.WithNode(node))
	}
	taker := listener(t, remote.WithEtcd(etcd.Endpoints()...), remote.WithNodes())

	m := testkit.Reading(t, 8, optimizer.Momentum(0.05, 0.9))
	run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 30), Save: t.TempDir()}
	spec := &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}
	_, status := trainOn(t, executorOf(t, taker, spec), m, run, nil)
	mustEqualReference(t, m, spec.Trainers, run)
	roles := map[string]int{}
	for _, r := range status.Roles {
		roles[r.Node]++
	}
	if roles["left"] < 2 || roles["right"] < 2 || roles["left"]+roles["right"] != 5 {
		t.Errorf("roles by node: %v, want 5 shared by left and right", roles)
	}
}
