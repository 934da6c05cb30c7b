package remote_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/checkpoint"
)

// A job that goes on from any checkpoint of another one, with another number of pservers, ends as if nothing had happened: with its accumulators, its
// schedule, its place in the data, and as many passes in all.
func TestResumeInAnotherShape(t *testing.T) {
	const passes = 40 // of 5 rounds: enough for some checkpoints
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, dir := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	l := listener(t)
	train := func(spec *remote.JobSpec) (string, error) {
		save := t.TempDir()
		_, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: save}, nil)
		return save, err
	}
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
		t.Fatal(err)
	}
	expect := func(what, saved string) {
		t.Helper()
		if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	saved, err := train(&remote.JobSpec{Trainers: 2, Pservers: 3, MinBlockSize: 4, Checkpoints: &job.Checkpoints{Store: dir, Rounds: 2, Keep: 100}})
	if err != nil {
		t.Fatal(err)
	}
	expect("the job with checkpoints", saved)
	store, err := checkpoint.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	list, err := store.List(t.Context())
	if err != nil || len(list) < 3 {
		t.Fatalf("%d checkpoints, %v", len(list), err)
	}
	resumed := 0
	for i, e := range list {
		if !e.Complete || i > 4 && i < len(list)-1 {
			continue
		}
		spec := &remote.JobSpec{Trainers: 2, Pservers: int32(1 + i%4), MinBlockSize: 4, NoSlice: i%2 == 1, Resume: dir + "@" + e.Name}
		what := fmt.Sprintf("from step %d with %d pservers", e.Steps, spec.Pservers)
		saved, err := train(spec)
		if done := e.Steps == 5*passes; done {
			if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "passes are done") {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(what, err)
		}
		expect(what, saved)
		resumed++
	}
	if resumed == 0 {
		t.Error("no checkpoint was complete")
	}

	exported := filepath.Join(t.TempDir(), "state")
	c, err := checkpoint.Find(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Export(t.Context(), exported); err != nil {
		t.Fatal(err)
	}
	if p, ok, err := executor.ReadProgress(exported); err != nil || !ok || p.Steps != list[0].Steps && list[0].Complete {
		t.Errorf("the exported state has the progress %+v, %v", p, err)
	}
	for _, bad := range []*remote.JobSpec{{Resume: dir + "@99"}, {Checkpoints: &job.Checkpoints{}},
		{Checkpoints: &job.Checkpoints{Store: dir}, Mode: job.Mode_ASYNC}} {
		if _, err := train(bad); !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
