package listen

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
)

// A listener knows the jobs that earlier ones have left in its data folder: how they have ended, if that was written, and which of them can be resumed. It does not
// show checkpoints that are gone.
func TestRecall(t *testing.T) {
	d, err := OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	leave := func(id string, steps uint64, ended *job.JobStatus) {
		t.Helper()
		spec := &job.JobSpec{Program: []byte("p"), Trainers: 2, Pservers: 1, Checkpoints: &job.Checkpoints{Store: "/where/the/folder/was"}}
		if err := d.keep(id, &state.KeptJob{Spec: spec, Run: id + "-run", OwnStore: true, Ended: ended, Owner: "eve"}); err != nil {
			t.Fatal(err)
		}
		if steps == 0 {
			return
		}
		store, err := checkpoint.Open(t.Context(), d.store(id))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if err := store.Publish(t.Context(), checkpoint.NewName(id+"-run", steps), &state.Checkpoint{Job: id, Progress: &job.Progress{Steps: steps}}); err != nil {
			t.Fatal(err)
		}
	}
	leave("failed", 7, &job.JobStatus{Job: "failed", State: job.State_FAILED, Steps: 9, Owner: "eve"})
	leave("killed", 7, nil)
	leave("young", 0, nil)
	m := NewManager(Config{Data: d})
	defer m.Close()
	if err := Recall(m); err != nil {
		t.Fatal(err)
	}
	list, err := (&Server{Manager: m}).List(t.Context(), &rpc.ListRequest{})
	if err != nil || len(list.Jobs) != 3 {
		t.Fatal(list, err)
	}
	for _, s := range list.Jobs {
		want := map[string]job.State{"failed": job.State_FAILED}[s.Job]
		if want == 0 {
			want = job.State_STOPPED
		}
		if s.State != want || EndedWithListener(s) != (s.Job != "failed") || s.Resumable != (s.Job != "young") || s.Owner != "eve" || s.Job == "failed" && s.Steps != 9 {
			t.Errorf("%v", s)
		}
		j, err := m.Job(s.Job)
		if err != nil {
			t.Fatal(err)
		}
		var last *job.Event
		if err := j.events.Read(t.Context(), 0, true, func(_ uint64, e *job.Event) error { last = e; return nil }); err != nil || last.GetStatus().GetState() != want {
			t.Errorf("who watches job %s is told %v, %v", s.Job, last, err)
		}
	}
	j, err := m.Job("failed")
	if err != nil {
		t.Fatal(err)
	}
	there := checkpointsOf(t.Context(), j)
	if len(there) != 1 {
		t.Fatal(there)
	}
	for name, shown := range map[string]bool{there[0]: true, checkpoint.NewName("failed-run", 8): false} {
		j.reports.queues = &rpc.QueuesResponse{Checkpoint: &job.CheckpointStatus{Name: name, Store: d.store("failed")}}
		details := j.Show(context.Background())
		if hideGone(t.Context(), j, details); (details.Queues.Checkpoint != nil) != shown || details.Spec.Checkpoints == nil {
			t.Errorf("%s: %v", name, details)
		}
	}
	if err := d.remove("failed", m.runs); err != nil {
		t.Fatal(err)
	}
	details := j.Show(context.Background())
	before := proto.CloneOf(details.Spec)
	if hideGone(t.Context(), j, details); details.Queues.Checkpoint != nil || details.Spec.Checkpoints != nil || before.Checkpoints == nil || mayResume(t.Context(), m, j, true) {
		t.Errorf("a job whose folder is gone: %v", details)
	}
	j.reports.queues = &rpc.QueuesResponse{Checkpoint: &job.CheckpointStatus{Name: there[0], Steps: 8, FailingSinceMs: 5}}
	details = j.Show(context.Background())
	if hideGone(t.Context(), j, details); details.Queues.Checkpoint.GetFailingSinceMs() != 5 || details.Queues.Checkpoint.Name != "" || details.Queues.Checkpoint.Steps != 0 {
		t.Errorf("a job whose last checkpoints have failed: %v", details.Queues.Checkpoint)
	}
}
