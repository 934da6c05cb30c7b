package listen

import (
	"os"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
)

// A job is offered to be resumed only where its last checkpoint leaves something to train: not one whose model could not be written after the last pass, nor one that
// was fed. A list knows when the checkpoints in a folder are others than before.
func TestOffersOnlyWhatCanBeResumed(t *testing.T) {
	model := testkit.Reading(t, 5, optimizer.SGD(0.1))
	encoded, err := model.Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	publish := func(id string, pass int32) {
		t.Helper()
		store, err := checkpoint.Open(t.Context(), d.store(id))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		at := &job.Progress{Steps: 10 * uint64(pass), Pass: pass, Reader: executor.ReaderHash(model.Program)}
		if err := store.Publish(t.Context(), checkpoint.NewName(id+"-run", at.Steps), &state.Checkpoint{Job: id, Progress: at}); err != nil {
			t.Fatal(err)
		}
	}
	wants := map[string]bool{"left": true, "done": false, "fed": false}
	for id := range wants {
		spec := &job.JobSpec{Program: encoded, Trainers: 2, Pservers: 1, Passes: 3, Fed: id == "fed", Checkpoints: &job.Checkpoints{Store: "own"}}
		if err := d.keep(id, &state.KeptJob{Spec: spec, Run: id + "-run", OwnStore: true, Ended: &job.JobStatus{Job: id, State: job.State_FAILED}}); err != nil {
			t.Fatal(err)
		}
		publish(id, 2)
	}
	publish("done", 3)
	m := NewManager(Config{Data: d})
	defer m.Close()
	if err := Recall(m); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		list, err := (&Server{Manager: m}).List(t.Context(), &rpc.ListRequest{})
		if err != nil || len(list.Jobs) != len(wants) {
			t.Fatal(list, err)
		}
		for _, s := range list.Jobs {
			j, err := m.Job(s.Job)
			if err != nil {
				t.Fatal(err)
			}
			if shown := mayResume(t.Context(), m, j, true); s.Resumable != wants[s.Job] || shown != wants[s.Job] {
				t.Errorf("%s: job %s is listed as one that can be resumed: %v, and shown: %v, want %v", when, s.Job, s.Resumable, shown, wants[s.Job])
			}
			if wants[s.Job] {
				continue
			}
			if _, err = m.Resume(t.Context(), &rpc.ResumeJobRequest{Job: s.Job}); err == nil {
				t.Errorf("%s: job %s, which is not offered, is resumed", when, s.Job)
			}
		}
	}
	check("at first")
	if err := os.RemoveAll(d.store("left")); err != nil {
		t.Fatal(err)
	}
	wants["left"] = false
	check("without its checkpoints")
}
