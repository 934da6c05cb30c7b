package remote_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// A growing is a folder of files that come one after the other, whose records are those of countingUpdates.
type growing struct {
	t   *testing.T
	dir string
}

// add lets a file of the records [from, to) appear.
func (g growing) add(name string, from, to int64) {
	g.t.Helper()
	dir := g.t.TempDir()
	w, err := dataset.CreateShards(dir, "one", 1, recordio.Options{ChunkRecords: 10})
	if err != nil {
		g.t.Fatal(err)
	}
	defer w.Abort()
	for i := from; i < to; i++ {
		id, err := tensor.FromSlice([]int64{i})
		if err == nil {
			err = w.Write(dataset.AppendRecord(nil, id))
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		g.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "one-*"))
	if err != nil || len(files) != 1 {
		g.t.Fatal(files, err)
	}
	g.move(files[0], name)
}

func (g growing) move(file, name string) {
	g.t.Helper()
	if err := os.Rename(file, filepath.Join(g.dir, name)); err != nil {
		g.t.Fatal(err)
	}
}

// end marks the end of the files.
func (g growing) end() {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, dataset.EndMarker), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// submitFollowing starts a job of countingUpdates that follows a folder.
func submitFollowing(t *testing.T, c *remote.Client, m testkit.Model, g growing, spec *job.JobSpec) (id string) {
	t.Helper()
	encoded, err := m.Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	spec.Program, spec.Passes = encoded, 1
	spec.Data = []*job.DataBinding{{Dataset: testkit.Dataset, Globs: []string{filepath.Join(g.dir, "part-*")}, Follow: true}}
	if id, err = c.Submit(bounded(t), spec); err != nil {
		t.Fatal(err)
	}
	return id
}

// reaches waits until a job is as it should be, by its ledger and its last checkpoint.
func reaches(t *testing.T, c *remote.Client, id string, ok func(l *rpc.LedgerResponse, last *job.CheckpointStatus) bool) *rpc.LedgerResponse {
	t.Helper()
	ctx := bounded(t)
	var ledger *rpc.LedgerResponse
	var checkpoint *job.CheckpointStatus
	var state job.State
	for {
		d, err := c.Show(ctx, id)
		if err != nil {
			t.Fatalf("%v; the job was %v, the ledger %v, the last checkpoint %v", err, state, ledger, checkpoint)
		}
		ledger, checkpoint, state = d.Ledger, d.Queues.GetCheckpoint(), d.Status.State
		if d.Status.Failure != nil {
			t.Fatalf("the job has failed: %v", d.Status.Failure)
		}
		if d.Ledger != nil && d.Queues != nil && ok(d.Ledger, d.Queues.Checkpoint) {
			return d.Ledger
		}
	}
}

// has reports whether a ledger has so many records, each once.
func has(l *rpc.LedgerResponse, records int64) bool {
	return len(l.Passes) == 1 && l.Passes[0].Records == records && l.Passes[0].Again == 0
}

// A job that follows a folder is cut where it is when no file comes, and goes on from there: when it has lost a pserver, and as another job, of another shape, in another
// folder, in which the files have another order than they came in, and in which one is missing whose records are all trained. Each record is trained once.
func TestFollowedJobGoesOnFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	for _, mode := range []job.Mode{job.Mode_ASYNC, job.Mode_SYNC} {
		t.Run(mode.String(), func(t *testing.T) {
			inShort(t, mode.String(), job.Mode_ASYNC.String())
			t.Parallel()
			const records = 400
			m, _ := countingUpdates(t, records)
			r := newRig(t)
			l := r.listener()
			client := executorOf(t, l, &remote.JobSpec{}).Client()
			first, store := growing{t, t.TempDir()}, t.TempDir()
			spec := func() *job.JobSpec {
				s := shortLived()
				s.Mode, s.RecordsPerTask, s.RoundDeadline = mode, 16, durationpb.New(3*time.Second)
				return s
			}
			steps := func(l *rpc.LedgerResponse) uint64 {
				if mode == job.Mode_SYNC {
					return l.Round
				}
				return l.Steps
			}
			one := spec()
			one.Checkpoints = &job.Checkpoints{Store: store, Rounds: 1000, Keep: 2} // far more than there are
			id := submitFollowing(t, client, m, first, one)
			first.add("part-1", 0, 100)
			reaches(t, client, id, func(l *rpc.LedgerResponse, _ *job.CheckpointStatus) bool {
				return len(l.Passes) > 0 && l.Passes[0].Records >= 90
			})
			first.add("part-3", 100, 200)
			reaches(t, client, id, func(l *rpc.LedgerResponse, last *job.CheckpointStatus) bool {
				return len(l.Passes) > 0 && l.Passes[0].Records >= 190 && last.GetSteps() == steps(l)
			})
			r.signal("pserver-1", syscall.SIGKILL)
			first.add("part-2", 200, 300)
			before := reaches(t, client, id, func(l *rpc.LedgerResponse, last *job.CheckpointStatus) bool {
				return len(l.Passes) > 0 && l.Passes[0].Records >= 290 && last.GetSteps() == steps(l)
			})
			if err := client.Stop(bounded(t), id); err != nil {
				t.Fatal(err)
			}
			second, save := growing{t, t.TempDir()}, t.TempDir()
			for _, name := range []string{"part-3", "part-2"} {
				second.move(filepath.Join(first.dir, name), name)
			}
			second.add("part-0", 300, records)
			second.end()
			two := spec()
			two.Trainers, two.Pservers, two.Resume, two.Save = 3, 1, store, save
			id = submitFollowing(t, client, m, second, two)
			after := reaches(t, client, id, func(l *rpc.LedgerResponse, _ *job.CheckpointStatus) bool { return l.Complete })
			if !has(after, records) {
				t.Errorf("the ledger is %v, and was %v", after, before)
			}
			for {
				s, err := client.Status(bounded(t), id)
				if err != nil {
					t.Fatal(err)
				}
				if s.State == job.State_SUCCEEDED {
					break
				}
			}
			for record, x := range testkit.Saved(t, save, m.Program)["updates"].Float32s() {
				if x != 1 {
					t.Errorf("record %d was applied %v times", record, x)
				}
			}
		})
	}
}

// The state that a job leaves which follows a folder, ended by its user before all files have come, names these files: another job goes on with it, in another shape and another
// folder, in which the files have another order than they came in. Each record is trained once.
func TestFollowedJobGoesOnFromItsState(t *testing.T) {
	t.Parallel()
	for _, mode := range []job.Mode{job.Mode_ASYNC, job.Mode_SYNC} {
		t.Run(mode.String(), func(t *testing.T) {
			inShort(t, mode.String(), job.Mode_ASYNC.String())
			t.Parallel()
			const records = 400
			m, _ := countingUpdates(t, records)
			l := newRig(t).listener()
			client := executorOf(t, l, &remote.JobSpec{}).Client()
			first, state, save := growing{t, t.TempDir()}, t.TempDir(), t.TempDir()
			spec := func() *job.JobSpec {
				s := shortLived()
				s.Mode, s.RecordsPerTask = mode, 16
				return s
			}
			one := spec()
			one.Save = state
			id := submitFollowing(t, client, m, first, one)
			for i, name := range []string{"part-3", "part-1", "part-2"} {
				first.add(name, int64(i)*100, int64(i)*100+100)
				reaches(t, client, id, func(l *rpc.LedgerResponse, _ *job.CheckpointStatus) bool {
					return len(l.Passes) > 0 && l.Passes[0].Records >= int64(i)*100+90
				})
			}
			if s, err := client.Finish(bounded(t), id, nil); err != nil || s.State != job.State_SUCCEEDED {
				t.Fatal(s, err)
			}
			p, _, err := executor.ReadProgress(state)
			if err != nil || p.Pass != 0 || p.Files == "" {
				t.Fatalf("the state is at %+v, %v", p, err)
			}
			second := growing{t, t.TempDir()}
			for _, name := range []string{"part-1", "part-2", "part-3"} {
				second.move(filepath.Join(first.dir, name), name)
			}
			second.add("part-0", 300, records)
			second.end()
			two := spec()
			two.Trainers, two.Pservers, two.Params, two.Save = 3, 1, state, save
			id = submitFollowing(t, client, m, second, two)
			reaches(t, client, id, func(l *rpc.LedgerResponse, _ *job.CheckpointStatus) bool { return l.Complete })
			if s, err := client.Watch(bounded(t), id, func(*job.Event) error { return nil }); err != nil || s.State != job.State_SUCCEEDED {
				t.Fatal(s, err)
			}
			for record, x := range testkit.Saved(t, save, m.Program)["updates"].Float32s() {
				if x != 1 {
					t.Errorf("record %d was applied %v times", record, x)
				}
			}
		})
	}
}
