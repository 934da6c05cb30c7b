package listen_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// stepwise is a job that makes checkpoints and saves its model, and goes on until its test ends it.
func stepwise(t *testing.T, name string) *job.JobSpec {
	spec := lockstep(t, patience)
	spec.Name, spec.Passes, spec.Save, spec.Checkpoints = name, 1<<20, t.TempDir(), &job.Checkpoints{Store: t.TempDir(), Rounds: 1000}
	return spec
}

// A walk follows a job that goes on when its test says so.
type walk struct {
	t       *testing.T
	client  rpc.ListenerClient
	j       *listen.Job
	events  grpc.ServerStreamingClient[rpc.Events]
	states  []job.State
	steps   []uint64
	attempt int32
	told    uint64 // steps below it were told, and others of an earlier attempt
}

func walkAlong(t *testing.T, client rpc.ListenerClient, j *listen.Job) *walk {
	t.Helper()
	events, err := client.Watch(bounded(t), &rpc.JobRequest{Job: j.ID, Follows: true})
	if err != nil {
		t.Fatal(err)
	}
	return &walk{t: t, client: client, j: j, events: events}
}

// to lets the job go on until a state is told, or so many steps are.
func (w *walk) to(state job.State, steps int) {
	w.t.Helper()
	for !slices.Contains(w.states, state) && (steps == 0 || len(w.steps) < steps) {
		if w.told > 0 {
			w.acknowledge()
		}
		some, err := w.events.Recv()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range some.Events {
			if s := e.GetStatus(); s != nil {
				if w.states = append(w.states, s.State); s.Attempt > w.attempt {
					w.attempt, w.told = s.Attempt, 0
				}
			} else {
				w.steps, w.told = append(w.steps, e.GetStep().Step), e.GetStep().Step+1
			}
		}
	}
}

// end lets the job go on to its end after a step.
func (w *walk) end(after uint64) {
	w.t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := w.client.Finish(bounded(w.t), &rpc.FinishRequest{Job: w.j.ID, AfterStep: &after})
		ended <- err
	}()
	eventually(w.t, func() bool { return listen.EndIsSettled(w.j) }) // before it is let go on: it could pass the step
	w.to(job.State_SUCCEEDED, 0)
	if err := <-ended; err != nil {
		w.t.Error(err)
	}
}

// acknowledge lets the job make the step after the last one that was told.
func (w *walk) acknowledge() {
	w.t.Helper()
	if _, err := w.client.Acknowledge(bounded(w.t), &rpc.AcknowledgeRequest{Job: w.j.ID, Attempt: w.attempt, Steps: w.told}); err != nil {
		w.t.Fatal(err)
	}
}

// modelOf is what a job has saved, by the name of its file.
func modelOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	model := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		model[f.Name()] = string(b)
	}
	return model
}

// A job of a higher priority suspends one that runs, and so does a user. It goes on from its checkpoint, as the same job, to the same bits, and trains each record once a pass.
func TestSuspendedJobGoesOn(t *testing.T) {
	t.Parallel()
	sharing := schedule.DefaultPolicy()
	sharing.Turn = 1
	h := newHarness(t, listen.Config{Cores: 2000, Sharing: sharing}, nil)
	client := serve(t, h.Manager)
	spec := stepwise(t, "low")
	w := walkAlong(t, client, h.begin(t, spec))
	w.to(job.State_WAITING, 2)
	important := fedAs(t, "high")
	important.Priority = 1
	high := h.begin(t, important)
	w.to(job.State_WAITING, 0)
	eventually(t, func() bool { return len(high.Status().Roles) == 5 })
	if s := w.j.Status(); !s.Suspended || !strings.HasSuffix(s.Waiting, "suspended for job high") || s.Promised != nil || s.Paused != "" {
		t.Errorf("suspended: %v", s)
	}
	for _, r := range w.j.Status().Roles {
		if r.State == job.State_RUNNING || r.Failure != nil {
			t.Errorf("suspended, with %v", r)
		}
	}
	if _, err := client.Checkpoint(bounded(t), &rpc.JobRequest{Job: "low"}); err == nil {
		t.Error("a job that is suspended makes a checkpoint")
	}
	if err := high.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	w.states = nil
	w.to(job.State_SUCCEEDED, len(w.steps)+4)

	w.states = nil
	ended := make(chan error, 1)
	go func() { // which takes a checkpoint, for which the job goes on
		_, err := client.SuspendJob(bounded(t), &rpc.JobRequest{Job: "low"})
		ended <- err
	}()
	w.to(job.State_WAITING, 0)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	other := h.begin(t, fedAs(t, "other")) // has what it has left
	eventually(t, func() bool { return len(other.Status().Roles) == 5 })
	if err := other.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if r, err := client.Why(bounded(t), &rpc.JobRequest{Job: "low"}); err != nil || len(r.Waits) != 1 || !strings.Contains(r.Waits[0].What, "a user has suspended it") {
		t.Errorf("why: %v, %v", r, err)
	}
	if _, err := client.ResumeJob(bounded(t), &rpc.ResumeJobRequest{Job: "low", Trainers: 1}); !errors.Is(err, fault.InvalidArgument) && err == nil {
		t.Errorf("resumed with other numbers: %v", err)
	}
	if r, err := client.ResumeJob(bounded(t), &rpc.ResumeJobRequest{Job: "low"}); err != nil || r.Job != "low" || r.Progress.GetSteps() == 0 {
		t.Errorf("resumed: %v, %v", r, err)
	}
	w.states = nil
	w.to(job.State_SUCCEEDED, len(w.steps)+2)
	eventually(t, func() bool { // it went on from a checkpoint, which is told
		k := w.j.Show(bounded(t)).Queues.GetCheckpoint()
		return k.GetName() != "" && k.GetSteps() > 0 && k.GetBytes() > 0
	})
	last := slices.Max(w.steps) + 3 // of all attempts: what was told is trained
	w.end(last)
	d := w.j.Show(bounded(t))
	left := int64(last+1) * 5
	for _, p := range d.Ledger.GetPasses() {
		if p.Records != min(left, 20) || p.Again != 0 {
			t.Errorf("trained: %v, with %d left", p, left)
		}
		left -= p.Records
	}
	if left != 0 || d.Status.Records != int64(last+1)*5 || d.Status.Attempt != 2 || d.Status.Steps != last+1 {
		t.Errorf("at the end, after step %d: %v, %v", last, d.Status, d.Ledger)
	}

	alone := stepwise(t, "alone")
	alone.Data = spec.Data
	undisturbed := walkAlong(t, client, h.begin(t, alone))
	undisturbed.to(job.State_SUCCEEDED, 1)
	undisturbed.end(last)
	if want, got := modelOf(t, alone.Save), modelOf(t, spec.Save); !maps.Equal(want, got) {
		t.Errorf("after %d steps the models have other bits", last+1)
	}
}

// A clearer is a launcher that says which of its runs were cleared.
type clearer struct {
	launch.Kept
	clears func(run string)
}

func (c clearer) Clear(_ context.Context, run string) error {
	c.clears(run)
	return nil
}

// What the roles of a job take is given back when it is suspended, after the last of them has ended, and before who has suspended it hears of that.
func TestSuspendedJobIsCleared(t *testing.T) {
	t.Parallel()
	var j *listen.Job
	var cleared []string
	launcher := clearer{launch.Kept{Keeper: noKeeper{}}, func(run string) {
		cleared = append(cleared, run)
		for _, r := range j.Status().Roles {
			if r.State == job.State_RUNNING {
				t.Errorf("cleared, with %v", r)
			}
		}
	}}
	h := durable(t, t.TempDir(), "keeper", listen.Config{Kept: &listen.Keeping{Launcher: launcher, Keeper: "keeper"}}, nil)
	client := serve(t, h.Manager)
	j = h.begin(t, stepwise(t, "held"))
	walkAlong(t, client, j).to(job.State_WAITING, 1)
	if _, err := client.SuspendJob(bounded(t), &rpc.JobRequest{Job: "held"}); err != nil {
		t.Fatal(err)
	}
	if len(cleared) != 1 || !strings.HasPrefix(cleared[0], "held") {
		t.Fatalf("cleared are %q", cleared)
	}
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// A writer is a launcher whose runs have written some lines. It is late for who waits for more.
type writer struct {
	launch.Kept
	lines []string
}

func (w writer) Lines(ctx context.Context, _ string, from uint64, follow bool, each func(*rpc.LogLine)) error {
	if follow {
		<-ctx.Done()
		return ctx.Err()
	}
	for n := from; n < uint64(len(w.lines)); n++ {
		each(&rpc.LogLine{Role: "trainer-0", Line: w.lines[n], Number: n})
	}
	return nil
}

// A job that is suspended waits at the next listener, too, and goes on there when somebody lets it. Who reads its log goes on after the last line that it has.
func TestSuspendedJobIsTakenOver(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := durable(t, folder, "keeper", listen.Config{}, nil)
	client := serve(t, first.Manager)
	spec := stepwise(t, "held")
	spec.MaxAhead = 0
	w := walkAlong(t, client, first.begin(t, spec))
	w.to(job.State_WAITING, 1)
	if s, err := client.SuspendJob(bounded(t), &rpc.JobRequest{Job: "held"}); err != nil || s.State != job.State_WAITING || !s.Suspended {
		t.Fatal(s, err)
	}
	if err := listen.HandOver(first.Manager); err != nil {
		t.Fatal(err)
	}
	launcher := writer{launch.Kept{Keeper: noKeeper{}}, []string{"told", "told, too", "not yet"}}
	second := durableIn(t, &harness{store: first.store}, copied(t, folder), "keeper", listen.Config{Kept: &listen.Keeping{Launcher: launcher, Keeper: "keeper"}}, nil)
	if err := listen.TakeOver(bounded(t), second.Manager); err != nil {
		t.Fatal(err)
	}
	j, err := second.Job("held")
	if err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.State != job.State_WAITING || !s.Suspended {
		t.Errorf("taken over: %v", s)
	}
	client = serve(t, second.Manager)
	logs, err := client.Logs(bounded(t), &rpc.LogsRequest{Job: "held", From: 2})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := logs.Recv(); err != nil || l.Number != 2 || l.Line != "not yet" {
		t.Errorf("the next line is %v, %v", l, err)
	}
	if _, err := client.ResumeJob(bounded(t), &rpc.ResumeJobRequest{Job: "held"}); err != nil {
		t.Fatal(err)
	}
	if s, err := client.Finish(bounded(t), &rpc.FinishRequest{Job: "held"}); err != nil || s.State != job.State_SUCCEEDED || s.Attempt != 1 {
		t.Errorf("at the end: %v, %v", s, err)
	}
	modelOf(t, spec.Save)
}
