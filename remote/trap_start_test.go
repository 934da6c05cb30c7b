package remote_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// trainOn trains m on a job of processes and returns the values that it saves. Every role must have ended with status 0.
func trainOn(t *testing.T, e *remote.Executor, m testkit.Model, run executor.TrainOptions, started func(id string)) (executor.Summary, *job.JobStatus) {
	t.Helper()
	j, err := e.Submit(bounded(t), m.Program, run)
	if err != nil {
		t.Fatal(err)
	}
	if started != nil {
		started(j.ID)
	}
	summary, err := j.Follow(bounded(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	status, err := e.Client().Status(bounded(t), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Roles {
		if r.State != job.State_SUCCEEDED || r.ExitCode != 0 {
			t.Errorf("%v %d: %v, exit code %d", r.Role, r.Index, r.State, r.ExitCode)
		}
	}
	return summary, status
}

// mustEqualReference compares what a job of some trainers has saved with what the reference computes.
func mustEqualReference(t *testing.T, m testkit.Model, trainers int32, run executor.TrainOptions) {
	t.Helper()
	want, err := reference.New(m.Program, int(trainers))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	saved := run.Save
	run.Save = ""
	if _, err := want.Train(bounded(t), m.Program, run, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// Trap 1: trainers that get different numbers of rows, or of tasks, finish without a hang and without losing a gradient, and servers end by themselves.
func TestUnequalData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		records, batch int
		spec           *remote.JobSpec
	}{
		"a rest":               {35, 16, &remote.JobSpec{Trainers: 3, Pservers: 2, MinBlockSize: 4}},
		"fewer than trainers":  {6, 3, &remote.JobSpec{Trainers: 4, Pservers: 2, MinBlockSize: 4}},
		"one record":           {1, 8, &remote.JobSpec{Trainers: 3, Pservers: 2}},
		"async":                {35, 4, &remote.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, RecordsPerTask: 20}},
		"async without a task": {5, 2, &remote.JobSpec{Trainers: 3, Pservers: 1, Mode: job.Mode_ASYNC, RecordsPerTask: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testkit.Reading(t, c.batch, optimizer.Adam(0.01))
			run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), c.records), Passes: 2, Save: t.TempDir()}
			r := newRig(t)
			summary, status := trainOn(t, executorOf(t, r.listener(), c.spec), m, run, nil)
			if summary.Records != int64(2*c.records) || status.Refused != 0 {
				t.Errorf("%d records trained, want %d; %d messages refused", summary.Records, 2*c.records, status.Refused)
			}
			if c.spec.Mode == job.Mode_SYNC {
				mustEqualReference(t, m, c.spec.Trainers, run)
			}
		})
	}
}

// Trap 2: a role that is started when all others already wait for it changes nothing.
func TestLateStarters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late   []string
		others []string // wait before any late one starts
	}{
		"pservers":    {[]string{"pserver-0", "pserver-1"}, []string{"coordinator", "trainer-0", "trainer-1"}},
		"a trainer":   {[]string{"trainer-1"}, []string{"coordinator", "pserver-0", "pserver-1", "trainer-0"}},
		"coordinator": {[]string{"coordinator"}, []string{"pserver-0", "pserver-1", "trainer-0", "trainer-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testkit.Reading(t, 8, optimizer.Momentum(0.05, 0.9))
			run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 30), Save: t.TempDir()}
			r := newRig(t)
			r.hold(c.late...)
			e := executorOf(t, r.listener(), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
			trainOn(t, e, m, run, func(id string) {
				for _, role := range c.others {
					logged(t, e, id, role, "role starts")
				}
				if name == "a trainer" {
					waitsForTrainers(t, r, id)
				}
				for _, role := range c.late {
					r.release(role)
				}
			})
			mustEqualReference(t, m, 2, run)
		})
	}
}

var errFound = errors.New("found")

// logged waits until a role has written a line that contains text.
func logged(t *testing.T, e *remote.Executor, id, role, text string) {
	t.Helper()
	found := false
	err := e.Client().Logs(bounded(t), id, role, true, func(_, line string) error {
		if found = strings.Contains(line, text); found {
			return errFound
		}
		return nil
	})
	if !found {
		t.Fatalf("%s does not log %q: %v", role, text, err)
	}
}

// waitsForTrainers asks the coordinator until it says that it waits for trainer 1.
func waitsForTrainers(t *testing.T, r *rig, id string) {
	t.Helper()
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: r.etcd, Prefix: cluster.Prefix(id)})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	address, err := registry.Coordinator(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := bounded(t)
	for {
		q, err := wire.Queues(ctx, rpc.NewCoordinatorClient(conn), &rpc.QueuesRequest{Job: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range q.Waits {
			if slices.Contains(w.By, "trainer 1") {
				return
			}
		}
	}
}
