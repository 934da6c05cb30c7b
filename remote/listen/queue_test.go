package listen_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// A job that does not fit waits, says for what, and starts when there is room. A job that waits can be stopped, and one that never fits is refused.
func TestJobsWaitForCores(t *testing.T) {
	h := newHarness(t, listen.Config{Cores: 2000}, all(idle))
	client := serve(t, h.Manager)
	first, second, third := h.begin(t, fedAs(t, "first")), h.begin(t, fedAs(t, "second")), h.begin(t, fedAs(t, "third"))
	eventually(t, func() bool {
		return second.Status().State == job.State_WAITING && third.Status().State == job.State_WAITING
	})
	if s := second.Status(); s.Waiting != "2 cores; free: 0 of 2 cores" || s.Before != 0 || third.Status().Before != 1 {
		t.Errorf("the second waits for %q behind %d, the third behind %d", s.Waiting, s.Before, third.Status().Before)
	}
	if s := first.Status(); s.Promised.GetMillicores() != 2000 {
		t.Errorf("the first has %v", s.Promised)
	}
	r, err := client.Why(bounded(t), &rpc.JobRequest{Job: "third"})
	if err != nil || len(r.Waits) != 1 || !strings.Contains(r.Waits[0].What, "1 job is before it") || r.Waits[0].Since == nil {
		t.Errorf("the third waits: %v, %v", r, err)
	}
	if _, err := client.Checkpoint(bounded(t), &rpc.JobRequest{Job: "third"}); err == nil {
		t.Error("a job that waits makes a checkpoint")
	}
	if err := second.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if s := second.Status(); s.State != job.State_STOPPED || len(s.Roles) > 0 {
		t.Errorf("stopped while it waits: %v", s)
	}
	if err := first.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(third.Status().Roles) == 5 }) // a coordinator, two pservers, two trainers
	if s := third.Status(); s.State != job.State_STARTING || s.Waiting != "" {
		t.Errorf("the third: %v", s)
	}
	large := fedAs(t, "large")
	large.Trainers = 3
	if _, err := h.Start(bounded(t), large); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "at most the 2 cores") {
		t.Errorf("a job that never fits: %v", err)
	}
	if _, err := h.Job("large"); err == nil {
		t.Error("a job that was refused is there")
	}
}

// What a spec says of roles counts; without it a trainer has a core for each worker, and servers none.
func TestNeedsOfSpec(t *testing.T) {
	h := newHarness(t, listen.Config{Cores: 8000, Memory: 1 << 34}, all(idle))
	promised := func(change func(*job.JobSpec)) *job.Needs {
		t.Helper()
		spec := fed(t)
		spec.Standby = 1
		change(spec)
		j := h.begin(t, spec)
		defer func() {
			if err := j.Stop(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}()
		return j.Status().Promised
	}
	if n := promised(func(*job.JobSpec) {}); n.GetMillicores() != 2000 || n.GetMemory() < 7*64<<20 || n.GetMemory() > 8*64<<20 {
		t.Errorf("by default: %v", n)
	}
	if n := promised(func(s *job.JobSpec) { s.Workers = 3 }); n.GetMillicores() != 6000 {
		t.Errorf("three workers: %v", n)
	}
	if n := promised(func(s *job.JobSpec) {
		s.TrainerNeeds = &job.Needs{Millicores: new(int64(500)), Memory: 1 << 20}
		s.PserverNeeds = &job.Needs{Millicores: new(int64(250)), Memory: 1 << 21}
	}); n.GetMillicores() != 2*500+4*250 || n.GetMemory() != 64<<20+2<<20+4<<21 {
		t.Errorf("as it says: %v", n)
	}
}

// A job that is evaluated takes the memory of whole batches of held-back data in each trainer, too.
func TestNeedsOfAnEvaluation(t *testing.T) {
	h := newHarness(t, listen.Config{Memory: 1 << 40}, all(idle))
	const rows = 1 << 20
	promised := func(evaluation *job.Evaluation) int64 {
		t.Helper()
		spec := reading(t)
		spec.Trainers, spec.Evaluation = 2, evaluation
		j := h.begin(t, spec)
		defer func() {
			if err := j.Stop(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}()
		return j.Status().Promised.GetMemory()
	}
	m := testkit.Reading(t, rows, optimizer.SGD(0.05))
	p, err := m.Program.CloneForTest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	more := promised(&job.Evaluation{Program: p, Loss: m.Loss, Data: []*job.DataBinding{{Dataset: testkit.Dataset, Globs: testkit.Samples(t, t.TempDir(), 5)[testkit.Dataset]}}}) - promised(nil)
	if more < 2*rows*4 || more > 2*rows*4*64 {
		t.Errorf("an evaluation of %d rows a batch takes %d bytes more in 2 trainers", rows, more)
	}
}

// Only admins let their jobs come before those of others.
func TestPriorityIsOfAdmins(t *testing.T) {
	h := newHarness(t, listen.Config{}, all(idle))
	spec := fed(t)
	spec.Priority = 5
	if j := h.begin(t, spec); j.Status().Priority != 5 {
		t.Errorf("%v", j.Status())
	}
	spec = fed(t)
	spec.Priority = 101
	if _, err := h.Start(bounded(t), spec); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a priority out of bounds: %v", err)
	}
}

// An elastic job gets what is free, and gives it back to a job that waits. What the user asks for bounds it.
func TestElasticJobsGiveBack(t *testing.T) {
	sharing := schedule.DefaultPolicy()
	sharing.Calm = time.Nanosecond
	h := newHarness(t, listen.Config{Cores: 3000, Sharing: sharing}, all(idle))
	spec := reading(t)
	spec.Trainers, spec.TrainersMax, spec.Checkpoints = 1, 8, &job.Checkpoints{None: true}
	elastic := h.begin(t, spec)
	trainers := func(n int) func() bool {
		return func() bool {
			running := 0
			for _, r := range elastic.Status().Roles {
				if r.Role == job.Role_TRAINER && r.State == job.State_RUNNING {
					running++
				}
			}
			return running == n && int(elastic.Status().Trainers) == n
		}
	}
	eventually(t, trainers(3))
	other := reading(t)
	other.Trainers, other.Checkpoints = 2, &job.Checkpoints{None: true}
	waits := h.begin(t, other)
	eventually(t, trainers(1))
	eventually(t, func() bool { return waits.Status().State == job.State_STARTING })
	if err := waits.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, trainers(3))
	if err := elastic.Scale(bounded(t), 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, trainers(2))
}

// A job that waits goes on waiting at the next listener, also when the jobs before it are lost with their keeper, and then it runs.
func TestWaitingJobsAreTakenOver(t *testing.T) {
	folder, left := t.TempDir(), filepath.Join(t.TempDir(), "left")
	first := durable(t, folder, "first", listen.Config{Cores: 2000}, all(idle))
	spec := reading(t)
	spec.Name, spec.Checkpoints = "runs", &job.Checkpoints{None: true}
	runs := first.begin(t, spec)
	eventually(t, func() bool { return len(runs.Status().Roles) == 5 })
	spec = reading(t)
	spec.Name = "waits"
	first.begin(t, spec)
	told, err := states(serve(t, first.Manager), "waits", job.State_WAITING) // what is told is in the journal
	if err != nil || len(told) != 1 {
		t.Fatalf("told: %v, %v", told, err)
	}
	if err := os.CopyFS(left, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	second := durable(t, left, "second", listen.Config{Cores: 2000}, nil)
	if err := listen.TakeOver(bounded(t), second.Manager); err != nil {
		t.Fatal(err)
	}
	taken, err := second.Job("waits")
	if err != nil {
		t.Fatal(err)
	}
	if err := taken.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	lost, err := second.Job("runs")
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Wait(bounded(t)); !errors.Is(err, fault.LostMember) {
		t.Errorf("the job that ran without its keeper: %v", err)
	}
	if told, err = states(serve(t, second.Manager), "waits", job.State_SUCCEEDED); err != nil || len(told) != 4 || told[0] != job.State_WAITING || told[1] != job.State_STARTING {
		t.Errorf("told: %v, %v", told, err)
	}
}

// states returns the states of a job that were told, up to one of them.
func states(client rpc.ListenerClient, id string, last job.State) (told []job.State, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	events, err := client.Watch(ctx, &rpc.JobRequest{Job: id})
	for err == nil {
		var some *rpc.Events
		if some, err = events.Recv(); err != nil {
			break
		}
		for _, e := range some.Events {
			if s := e.GetStatus(); s != nil {
				if told = append(told, s.State); s.State == last {
					return told, nil
				}
			}
		}
	}
	return told, err
}
