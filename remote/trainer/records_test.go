package trainer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// A file that a task names must be the one that the coordinator has seen, also where the trainer has another of that path open.
func TestNamedFileOfAnotherFingerprint(t *testing.T) {
	opened, err := dataset.Open(t.Context(), testkit.Samples(t, t.TempDir(), 20)[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	was := opened.Files()[0]
	file := &rpc.DataFile{Path: was.Path, Records: was.Records, Bytes: was.Bytes, Fingerprint: was.Fingerprint}
	f := &taskFiles{}
	defer f.close()
	if _, err := f.open(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	other := &rpc.DataFile{Path: was.Path, Records: was.Records, Bytes: was.Bytes, Fingerprint: was.Fingerprint + 1}
	if _, err := f.open(t.Context(), other); err == nil {
		t.Error("a file of another fingerprint is taken for the one that is open")
	}
}

// A file that is gone before its records are read is named, with what to do, whether its task names it or not.
func TestFileThatIsGone(t *testing.T) {
	opened, err := dataset.Open(t.Context(), testkit.Samples(t, t.TempDir(), 20)[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	was := opened.Files()[0]
	if err := os.Remove(was.Path); err != nil {
		t.Fatal(err)
	}
	named := &rpc.DataFile{Path: was.Path, Records: was.Records, Bytes: was.Bytes, Fingerprint: was.Fingerprint}
	for _, c := range []struct {
		files *taskFiles
		task  *rpc.Task
	}{{&taskFiles{data: &dataset.Dataset{}}, &rpc.Task{Files: []*rpc.DataFile{named}}}, {&taskFiles{data: opened}, &rpc.Task{}}} {
		defer c.files.close()
		read := 0
		for _, err := range c.files.records(t.Context(), c.task, []ranges.Range{{From: 0, To: was.Records}}) {
			if read++; !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), was.Path) || !strings.Contains(err.Error(), "put it back") {
				t.Errorf("%v", err)
			}
		}
		if read != 1 {
			t.Errorf("%d records and errors, want the error alone", read)
		}
	}
}

// To check a good record costs no memory.
func TestChecksOfGoodRecordsAllocateNothing(t *testing.T) {
	opened, err := dataset.Open(t.Context(), testkit.Samples(t, t.TempDir(), 1)[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	check := sampleCheck{}
	for record, err := range opened.Records(t.Context(), 0, 1) {
		if err = errors.Join(err, check.sample(record)); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { _ = check.sample(record) }); n > 0 {
			t.Errorf("%v allocations for a record", n)
		}
	}
}

// A record that is sound but no sample of tensors is damaged for whoever reads it, whether or not it decodes it: all trainers leave out the same
// ones.
func TestRecordThatIsNoSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d-00000-of-00001")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recordio.NewWriter(out, recordio.Options{})
	if err == nil {
		err = errors.Join(w.Write([]byte("no tensor")), w.Close(), out.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	opened, err := dataset.Open(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	f := &taskFiles{data: opened}
	for record, err := range f.records(t.Context(), &rpc.Task{}, []ranges.Range{{From: 0, To: 1}}) {
		if !errors.Is(err, fault.Corrupt) {
			t.Errorf("record %d: %v", record.Number, err)
		}
	}
}

func taskOf(id int64, bounds ...int64) *rpc.Task {
	t := &rpc.Task{Id: id, Files: []*rpc.DataFile{{Path: fmt.Sprint("f", id/2), FirstRecord: 20 * (id / 2), Records: 20}}}
	for i := 0; i < len(bounds); i += 2 {
		t.Records = append(t.Records, &rpc.RecordRange{From: bounds[i], To: bounds[i+1]})
	}
	return t
}

// Tasks of one answer are read as one, from as few ranges as possible, and each knows its records. A record that cannot be read is in the task that has
// it, as long as that is not trained.
func TestRunOfTasks(t *testing.T) {
	answer := &rpc.GetTaskResponse{Task: taskOf(0, 3, 10), Next: []*rpc.Task{taskOf(1, 10, 14, 16, 20), taskOf(2, 20, 30), taskOf(3, 30, 40)}}
	n, err := taskRunOf(answer, 3, ranges.Set{{From: 0, To: 2}, {From: 20, To: 30}, {From: 35, To: 40}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []ranges.Range{{From: 3, To: 14}, {From: 16, To: 20}, {From: 30, To: 35}}; !slices.Equal(n.ranges, want) || n.to != 40 {
		t.Errorf("%v up to %d, want %v", n.ranges, n.to, want)
	}
	progress := &taskProgress{}
	for i, want := range []int64{7, 8, 0, 5} {
		if got := n.records[i]; got != want {
			t.Errorf("task %d has %d records, want %d", i, got, want)
		}
		progress.give(n.tasks[i], n.records[i])
	}
	for record, want := range map[int64]int64{3: 0, 9: 0, 10: 1, 13: 1, 16: 1, 19: 1, 30: 3, 34: 3} {
		if got := progress.holding(record).GetId(); got != want {
			t.Errorf("record %d is in task %d, want %d", record, got, want)
		}
	}
	progress.train(7)
	progress.finished(false)
	for _, record := range []int64{2, 3, 15, 40} {
		if got := progress.holding(record); got != nil {
			t.Errorf("record %d is in task %d, want none", record, got.Id)
		}
	}
	if len(n.files) != 2 || n.files[1].FirstRecord != 20 {
		t.Errorf("files %v", n.files)
	}
}

// Tasks that are out of order, or have no records, are refused.
func TestRunsAreChecked(t *testing.T) {
	for name, answer := range map[string]*rpc.GetTaskResponse{
		"nothing":    {Task: taskOf(0)},
		"the past":   {Task: taskOf(0, 0, 3)},
		"backwards":  {Task: taskOf(1, 10, 20), Next: []*rpc.Task{taskOf(0, 5, 10)}},
		"twice":      {Task: taskOf(1, 10, 20), Next: []*rpc.Task{taskOf(1, 10, 20)}},
		"then empty": {Task: taskOf(1, 10, 20), Next: []*rpc.Task{taskOf(2)}},
	} {
		if n, err := taskRunOf(answer, 3, nil); !errors.Is(err, fault.Internal) {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
}

// A sync job asks for tasks once in askRounds rounds, however small they are.
func TestSmallTasksAreAskedForTogether(t *testing.T) {
	const records, batch = 2000, 5
	j := newReadingJob(t, testkit.Reading(t, batch, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records),
		queue.Policy{Sync: true, Passes: 1, Trainers: 1})
	s := j.alone(t)
	passes, err := read(bounded(t), s, func() {})
	if err != nil || len(passes) != 1 {
		t.Fatal(passes, err)
	}
	if q := j.status(); q.Done != records/10 {
		t.Errorf("at the end: %v", q)
	}
	if most := records/(batch*askRounds) + 1; j.gets > most { // no request is under way
		t.Errorf("asked %d times for tasks of %d rounds, want at most %d", j.gets, records/batch, most)
	}
}

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
	c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 10, MaxFailures: 1})
	breakChunk(t, l.data)
	ctx := bounded(t)
	var group sync.WaitGroup
	c.coordinator.failing = func(uint64) {
		group.Go(func() {
			if err := c.coordinator.regroup(ctx, 0, 1); err != nil {
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
	for _, m := range c.coordinator.committed() {
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
	if q := c.coordinator.queue.Status(); q.Discarded != 1 {
		t.Errorf("at the end: %v", q)
	}
	if n := len(c.coordinator.failed); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
}
