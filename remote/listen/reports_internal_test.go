package listen

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// An answer of the coordinator that was under way while a checkpoint was made does not hide it, and neither does the next coordinator, which has made none. A newer
// checkpoint does.
func TestReportsKnowTheLastCheckpoint(t *testing.T) {
	at := func(steps uint64) *rpc.QueuesResponse {
		return &rpc.QueuesResponse{Phase: "running", Checkpoint: &job.CheckpointStatus{Name: "one", Steps: steps}}
	}
	r := newReports()
	if r.enterSaved(&job.CheckpointStatus{Steps: 7}); r.queues.GetCheckpoint().GetSteps() != 7 {
		t.Errorf("before the first answer of a coordinator: %v", r.queues)
	}
	for i, c := range []struct {
		answer *rpc.QueuesResponse
		want   uint64
	}{{&rpc.QueuesResponse{Phase: "running"}, 7}, {at(3), 7}, {at(7), 7}, {at(9), 9}, {at(9), 9}, {&rpc.QueuesResponse{Phase: "running", Checkpoint: &job.CheckpointStatus{Store: "s"}}, 9}} {
		if r.enterQueues(c.answer); r.queues.Phase != "running" || r.queues.Checkpoint.GetSteps() != c.want {
			t.Errorf("answer %d: %v, want %d steps", i, r.queues, c.want)
		}
	}
	before := r.queues
	r.enterSaved(&job.CheckpointStatus{Steps: 12})
	if r.queues.Checkpoint.Steps != 12 || before.Checkpoint.Steps != 9 {
		t.Errorf("after another checkpoint: %v; the answer that others may read: %v", r.queues, before)
	}
}

// The steps of a status are never behind those of the checkpoint beside it: their reports may still be on their way, or their trainers are gone. Steps before the job count in both.
func TestStepsAreNotBehindTheCheckpoint(t *testing.T) {
	j := &Job{done: make(chan struct{}), record: record{status: &job.JobStatus{State: job.State_FAILED, EarlierSteps: 10, Steps: 20}, reports: newReports()}}
	close(j.done)
	for _, c := range []struct{ saved, want uint64 }{{0, 20}, {5, 20}, {30, 20}, {37, 27}} {
		j.reports.enterSaved(&job.CheckpointStatus{Name: "one", Steps: c.saved})
		if s := j.Status(); s.Steps != c.want || j.status.Steps != 20 {
			t.Errorf("with a checkpoint after %d steps: %d steps beside 10 earlier ones, want %d; told are %d", c.saved, s.Steps, c.want, j.status.Steps)
		}
	}
	before := j.reports.queues
	if j.reports.forgetSaved(); j.Status().Steps != 20 || j.reports.saved != nil || before.Checkpoint.Steps != 37 {
		t.Errorf("the job has gone back to another checkpoint: %v, and %v that others may read", j.Status(), before)
	}
}

// A job that is suspended waits until the steps of its checkpoint are told, if anybody is left who tells them.
func TestSuspensionHearsOfAllSteps(t *testing.T) {
	j := &Job{limits: jobspec.Deadlines{LastReports: time.Minute}, events: eventlog.New[*job.Event](4), record: record{next: 3}}
	awaitTold(t.Context(), j, 3)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		awaitTold(t.Context(), j, 5)
	}()
	for next := uint64(4); next <= 5; next++ {
		select {
		case <-heard:
			t.Errorf("step %d of 5 is not told, and nobody waits for it", next)
		default:
		}
		j.withLock(func() { j.next = next })
		j.events.Add(&job.Event{What: &job.Event_Step{Step: &job.Step{Step: next - 1}}})
	}
	<-heard
	j.limits.LastReports = time.Millisecond
	awaitTold(t.Context(), j, 6) // returns, although nobody tells it
	if j.next != 5 {
		t.Errorf("the next step is %d, want 5", j.next)
	}
}

// A listener that has slept until the end of its job hears all steps, however long it reads. When nothing comes any more, it does not wait.
func TestLastStepsAreHeard(t *testing.T) {
	for name, c := range map[string]struct {
		steps uint64
		ends  bool
	}{"all come": {40, true}, "some come": {7, false}, "none comes": {0, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &Job{limits: jobspec.Deadlines{LastReports: time.Second, Start: time.Minute}}
				run := &jobRun{job: j, watcher: newWatcher(j, nil), finals: &finalReports{}}
				go func() {
					for range c.steps {
						time.Sleep(600 * time.Millisecond)
						j.withLock(func() { run.watcher.next++ })
					}
					if c.ends {
						j.withLock(func() { run.watcher.end(&job.JobStatus{State: job.State_SUCCEEDED}) })
					}
				}()
				began := time.Now()
				run.awaitFinals(t.Context())
				if heard := run.watcher.heard(); heard != c.steps {
					t.Errorf("%d steps are heard of %d, after %v", heard, c.steps, time.Since(began))
				}
				if took := time.Since(began); !c.ends && took > time.Duration(c.steps+3)*time.Second {
					t.Errorf("it waits %v for nothing", took)
				}
			})
		})
	}
}

// Of a job that has ended well, the ledger says how many records were trained, and in async mode how many steps: reports of a lost role may be missing, or records
// come twice.
func TestCountsAreThoseOfTheLedger(t *testing.T) {
	ledger := &rpc.LedgerResponse{Passes: []*rpc.PassLedger{{Pass: 0, Records: 100}, {Pass: 1, Records: 100, Again: 7}}, Steps: 30}
	async := &job.JobSpec{Mode: job.Mode_ASYNC}
	for _, c := range []struct {
		spec    *job.JobSpec
		earlier int64
		ledger  *rpc.LedgerResponse
		records int64
		steps   uint64
	}{
		{&job.JobSpec{}, 0, ledger, 207, 16}, {&job.JobSpec{}, 60, ledger, 147, 16}, {&job.JobSpec{Fed: true}, 0, ledger, 190, 16},
		{&job.JobSpec{}, 0, nil, 190, 16}, {&job.JobSpec{}, 0, &rpc.LedgerResponse{}, 190, 16},
		{async, 0, ledger, 207, 20}, {async, 0, nil, 190, 16}, {&job.JobSpec{Mode: job.Mode_ASYNC, PushEvery: 3}, 0, ledger, 207, 20},
		{&job.JobSpec{Mode: job.Mode_ASYNC, Fed: true}, 0, ledger, 190, 16},
	} {
		j := &Job{spec: c.spec, state: &jobState{earlier: c.earlier}, record: record{status: &job.JobStatus{Records: 190, Steps: 16}, begin: 10, next: 26}}
		if countLedger(j, c.ledger); j.status.Records != c.records || j.status.Steps != c.steps {
			t.Errorf("%d records and %d steps, %d records before, want %d and %d", j.status.Records, j.status.Steps, c.earlier, c.records, c.steps)
		}
	}
}

// Why a job does not go on is told without a reason that nobody knows: a standby that has taken the place of its pserver has not failed. A job that starts over
// says from where.
func TestPausedSaysWhy(t *testing.T) {
	m := supervise.New(supervise.Policy{MaxRestarts: 3, PServers: 2, Standbys: true}, 1)
	r := &record{status: &job.JobStatus{}, reports: newReports(), roles: &jobRun{machine: m}}
	step := func(e supervise.Event) supervise.Effects {
		t.Helper()
		out, err := m.Step(time.Second, e)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	says := func(want string) {
		t.Helper()
		if got := r.paused(); !strings.HasPrefix(got, want) || want == "" && got != "" || strings.Contains(got, "nil") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	step(supervise.Began{})
	says("")
	out := step(supervise.Exited{Member: cluster.Member{Role: job.Role_PSERVER, Index: 1}, Err: fault.New(fault.LostMember, "killed"), Trained: true})
	step(supervise.TookOver{TakeOver: out.TakeOver[0]})
	says("standby 1 has taken the place of its pserver, and another one is started")
	step(supervise.Exited{Member: cluster.Member{Role: job.Role_PSERVER, Index: 1}, Err: fault.New(fault.LostMember, "killed"), Trained: true})
	says("the job starts over from its beginning, because parameters are lost: killed")
	r.status.Progress = &job.Progress{Steps: 300}
	says("the job starts over from its state after 300 steps, because")
	r.reports.enterQueues(&rpc.QueuesResponse{Checkpoint: &job.CheckpointStatus{Name: "ckpt", Steps: 700}})
	says("the job starts over from its state after 700 steps, because")
}
