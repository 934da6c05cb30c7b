package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// Trap 1: trainers that get different numbers of rows, or of tasks, finish without a hang
// and without losing a gradient, and servers end by themselves.
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
