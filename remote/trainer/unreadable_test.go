package trainer

import (
	"os"
	"sync"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// breakChunk changes a byte in the second chunk of a dataset, which holds records 10 to 19.
func breakChunk(t *testing.T, data map[string][]string) {
	t.Helper()
	opened, err := dataset.Open(t.Context(), data[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	chunk := opened.Chunks()[1]
	b, err := os.ReadFile(chunk.Path)
	if err != nil {
		t.Fatal(err)
	}
	b[chunk.Offset+100] ^= 0xff
	if err := os.WriteFile(chunk.Path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// In async mode a task that no trainer can read goes from one to the next and is discarded; all other records are trained once in every pass.
func TestTaskThatCannotBeRead(t *testing.T) {
	const records = 40
	data := testkit.Samples(t, t.TempDir(), records)
	breakChunk(t, data)
	j := newReadingJob(t, testkit.Reading(t, 5, optimizer.SGD(0.1)), data, queue.Policy{Passes: 2, Trainers: 2})
	for pass, ranges := range j.readAll(t, 2, 2) {
		for i, n := range counts(records, ranges) {
			if i/10 == 1 && n > 0 || i/10 != 1 && n != 1 {
				t.Errorf("record %d was trained %d times in pass %d", i, n, pass)
			}
		}
	}
	if q := j.status(); q.Discarded != 1 || q.Done != 3 || q.Todo+q.Pending != 0 {
		t.Errorf("at the end: %v", q)
	}
}

// In sync mode a task that cannot be read ends the generation; when it has failed too often the data go on without it, also in later passes.
func TestSyncTaskThatCannotBeRead(t *testing.T) {
	l := lawCase{model: shuffling(t, 5, 7), data: testkit.Samples(t, t.TempDir(), 40), records: 40, passes: 2}
	spec := &job.JobSpec{Trainers: 2, Pservers: 2, Save: t.TempDir(), Fetch: []string{l.model.Loss}}
	c := newCrew(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 10, MaxFailures: 1})
	breakChunk(t, l.data)
	ctx := bounded(t)
	var group sync.WaitGroup
	c.conductor.failing = func(uint64) {
		group.Go(func() {
			if err := c.conductor.regroup(ctx, 0, 1); err != nil {
				t.Error(err)
			}
		})
	}
	err := c.train(ctx, 2)
	group.Wait()
	if err != nil {
		t.Fatal(err)
	}
	counts := make([][]int, 2)
	for pass := range counts {
		counts[pass] = make([]int, l.records)
	}
	for _, m := range c.conductor.committed() {
		for _, r := range m.Records {
			for i := r.From; i < r.To; i++ {
				counts[m.Pass][i]++
			}
		}
	}
	for pass, list := range counts {
		for i, n := range list {
			if want := 1; i/10 == 1 && n != 0 || i/10 != 1 && n != want {
				t.Errorf("record %d of pass %d was trained %d times", i, pass, n)
			}
		}
	}
	if q := c.conductor.queue.Status(); q.Discarded != 1 {
		t.Errorf("at the end: %v", q)
	}
	if n := len(c.conductor.failed); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
}
