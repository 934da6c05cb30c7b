package trainer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// readingJob is a coordinator and the data of a job whose tasks are chunks of 10 records, in batches of 5.
type readingJob struct {
	server  *coordinator.Server
	client  rpc.CoordinatorClient
	program *program.Program
	data    map[string][]string
	sync    bool
}

func newReadingJob(t *testing.T, trainers, passes, records int, sync bool) readingJob {
	j := readingJob{program: testkit.Reading(t, 5, optimizer.SGD(0.1)).Program, data: testkit.Samples(t, t.TempDir(), records), sync: sync}
	j.server = coordinator.New(coordinator.Config{Identity: rig.Identity, Program: j.program, Trainers: trainers, Sync: sync, Passes: passes, RecordsPerTask: 10,
		MaxFailures: 1, StartDeadline: time.Hour, TaskTimeout: [2]time.Duration{time.Hour, time.Hour}})
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, j.server)
	j.client = rpc.NewCoordinatorClient(rig.Serve(t, service))
	return j
}

// read trains nothing on every batch of one trainer, and returns the records of each pass.
func (j readingJob) read(t *testing.T, rank, trainers int, each func()) (passes [][]dataset.Range, err error) {
	var part dataset.Part
	if j.sync {
		part = dataset.Part{Index: rank, Of: trainers}
	}
	reader, err := executor.OpenReader(t.Context(), j.program, j.data)
	if err != nil {
		return nil, err
	}
	source := &tasks{reader: reader, part: part, coordinator: j.client, identity: rig.Identity, rank: uint32(rank), shared: j.sync, patience: time.Hour}
	defer source.Close()
	if err := openTasks(t.Context(), source); err != nil {
		return nil, err
	}
	for {
		batch, err := source.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return passes, nil
		}
		if err != nil {
			return passes, err
		}
		for len(passes) <= batch.Pass {
			passes = append(passes, nil)
		}
		passes[batch.Pass] = append(passes[batch.Pass], batch.Records...)
		each()
	}
}

func (j readingJob) queue(t *testing.T) *rpc.QueueStatus {
	r, err := j.client.Queues(t.Context(), &rpc.QueuesRequest{Job: rig.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	return r.Queues[0]
}

// counts says how often each record was read.
func counts(records int, ranges []dataset.Range) []int {
	out := make([]int, records)
	for _, r := range ranges {
		for i := r.From; i < r.To; i++ {
			out[i]++
		}
	}
	return out
}

// Trainers share the records of every pass: each is read once, in sync and in async mode.
func TestTasksAreReadOnce(t *testing.T) {
	const records, passes = 73, 3
	for _, shared := range []bool{true, false} {
		for trainers := 1; trainers <= 3; trainers++ {
			t.Run(fmt.Sprintf("sync=%v/%d", shared, trainers), func(t *testing.T) {
				j := newReadingJob(t, trainers, passes, records, shared)
				all := make([][]dataset.Range, passes)
				var mu sync.Mutex
				err := rig.Each(trainers, func(rank int) error {
					own, err := j.read(t, rank, trainers, func() {})
					mu.Lock()
					defer mu.Unlock()
					for pass, ranges := range own {
						all[pass] = append(all[pass], ranges...)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				for pass, ranges := range all {
					if got := counts(records, ranges); slices.Max(got) != 1 || slices.Min(got) != 1 {
						t.Errorf("pass %d read %v", pass, got)
					}
				}
				if q := j.queue(t); q.Done != 8 || q.Pass != passes-1 || q.Todo+q.Pending+q.Discarded != 0 {
					t.Errorf("at the end: %v", q)
				}
			})
		}
	}
}

// A task is reported finished when its records have been trained, not when they have been read.
func TestTasksAreFinishedWhenTrained(t *testing.T) {
	for _, shared := range []bool{true, false} {
		j := newReadingJob(t, 1, 1, 60, shared)
		given := int64(0)
		if _, err := j.read(t, 0, 1, func() {
			// The batch that was given just now is not trained before the next one is asked for.
			if q := j.queue(t); 10*q.Done > given {
				t.Errorf("sync %v: %d tasks of 10 records are finished with %d records trained", shared, q.Done, given)
			}
			given += 5
		}); err != nil {
			t.Fatal(err)
		}
		if q := j.queue(t); q.Done != 6 {
			t.Errorf("sync %v: at the end %v", shared, q)
		}
	}
}

// breakChunk changes a byte in the last chunk of the first file of a dataset, which holds records 10 to 19 of 40.
func (j readingJob) breakChunk(t *testing.T) {
	files, err := filepath.Glob(j.data[testkit.Dataset][0])
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-20] ^= 0xff
	if err := os.WriteFile(files[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// In async mode a task that no trainer can read goes from one to the next and is discarded; all other records are trained in every pass. In sync
// mode, where all train the same batches, it is an error.
func TestTaskThatCannotBeRead(t *testing.T) {
	const records = 40
	j := newReadingJob(t, 2, 2, records, false)
	j.breakChunk(t)
	var mu sync.Mutex
	all := make([][]dataset.Range, 2)
	if err := rig.Each(2, func(rank int) error {
		own, err := j.read(t, rank, 2, func() {})
		mu.Lock()
		defer mu.Unlock()
		for pass, ranges := range own {
			all[pass] = append(all[pass], ranges...)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for pass, ranges := range all {
		for i, n := range counts(records, ranges) {
			if want := 1; i/10 == 1 && n > 2 || i/10 != 1 && n != want {
				t.Errorf("record %d was trained %d times in pass %d", i, n, pass)
			}
		}
	}
	if q := j.queue(t); q.Discarded != 1 || q.Done != 3 || q.Todo+q.Pending != 0 {
		t.Errorf("at the end: %v", q)
	}
	whole := newReadingJob(t, 1, 1, records, true)
	whole.breakChunk(t)
	if _, err := whole.read(t, 0, 1, func() {}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("in sync mode: %v", err)
	}
}
