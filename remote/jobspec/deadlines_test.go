package jobspec_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// The time limits stand in the order that their comments promise, whatever the user says.
func TestDeadlinesInOrder(t *testing.T) {
	times := []time.Duration{0, time.Millisecond, 300 * time.Millisecond, 2 * time.Second, time.Minute, 366 * 24 * time.Hour}
	for _, start := range times {
		for _, round := range times {
			for _, lease := range times {
				d := jobspec.DeadlinesOf(&job.JobSpec{StartDeadline: durationpb.New(start), RoundDeadline: durationpb.New(round),
					Lease: durationpb.New(lease)})
				for _, c := range []struct {
					less, more time.Duration
					says       string
				}{
					{0, d.Start, "there is a start deadline"}, {0, d.Round, "there is a round deadline"}, {0, d.Lease, "there is a lease"},
					{0, d.LeaseCheck, "leases are looked at"},
					{d.Start, d.Gather, "a role that cannot reach the registry fails before the coordinator gives up waiting for it"},
					{d.Start, d.Connect, "and before a trainer gives up"},
					{d.Gather, d.Idle, "the coordinator gives up before a pserver"},
					{d.Round, d.TrainerRound, "a pserver gives up a round before a trainer"},
					{d.Rejoin, d.TrainerRound, "the coordinator goes on without a member before the others give up"},
					{d.Drain, d.DrainGrace, "the listener kills before the launcher"},
					{d.RoleDrain, d.LauncherStop, "a role ends its drain before its launcher kills it"},
					{d.ServerDrain + d.ServerGrace + d.LastReport, d.NodeStop, "a pserver that waits for a checkpoint ends before it is killed"},
					{d.LastReport, d.RoleDrain, "a role that drains can still report how it ends"},
					{d.LauncherStop, d.NodeStop, "a role whose listener is gone ends before one that its listener waits for"},
					{d.StopGrace, d.NodeStop, "a node leaves it to the listener to kill a role of a job that is stopped"},
					{d.WaitEvery, d.WaitReported, "a wait is reported soon after it counts"},
					{d.WaitReported, d.WaitLogged, "a wait is reported before it is logged"},
					{d.Leave, d.StopGrace, "a trainer that is stopped has time for its last message"},
					{d.ServerGrace, d.StopGrace, "a server that is stopped has time for calls in flight"},
					{d.Probe, d.ProbeEvery, "a probe ends before the next begins"},
					{d.Linger + d.ServerGrace, d.Release, "a pserver may outlive a coordinator that lingers"},
					{d.DataSilence, d.TrainerRound, "a data connection is given up before the round is"},
					{2 * d.DataSilence, max(d.Round, 5*time.Second), "a round that lasts has time for another connection"},
					{time.Second, d.DataSilence, "a kernel can probe a connection at least once before it is given up"},
					{d.Report + 2*d.Tell + 3*4*time.Millisecond, 100 * time.Millisecond, "a terminal shows a step while its reader waits"},
				} {
					if c.less >= c.more {
						t.Errorf("start %v, round %v, lease %v: %s: %v is not less than %v", start, round, lease, c.says, c.less, c.more)
					}
				}
			}
		}
	}
}

// Steps do not wait for others where somebody may wait for them.
func TestTell(t *testing.T) {
	for _, c := range []struct {
		spec *job.JobSpec
		want bool
	}{
		{&job.JobSpec{}, true}, {&job.JobSpec{MaxAhead: 1 << 20}, true}, {&job.JobSpec{MaxAhead: 1}, false}, {&job.JobSpec{MaxAhead: 50}, false},
		{&job.JobSpec{Fed: true}, false},
	} {
		if d := jobspec.DeadlinesOf(c.spec); (d.Tell > 0) != c.want || (d.Report > 0) != c.want {
			t.Errorf("%v: steps wait %v and %v for others", c.spec, d.Report, d.Tell)
		}
	}
}

// The reports of many trainers do not grow into more messages a second than one coordinator should take, and not so old that a reader would notice.
func TestReportsOfManyTrainers(t *testing.T) {
	for _, c := range []struct {
		trainers, most int32
		want           time.Duration
	}{{1, 0, 20 * time.Millisecond}, {20, 20, 20 * time.Millisecond}, {2, 40, 40 * time.Millisecond}, {50, 50, 45 * time.Millisecond}, {1000, 1000, 45 * time.Millisecond}} {
		d := jobspec.DeadlinesOf(&job.JobSpec{Trainers: c.trainers, TrainersMax: c.most})
		if d.Report != c.want || d.Report+2*d.Tell >= 88*time.Millisecond {
			t.Errorf("%d to %d trainers: reports wait %v, want %v; then %v twice", c.trainers, c.most, d.Report, c.want, d.Tell)
		}
	}
}

// The defaults of the deadlines are those of the spec.
func TestDeadlinesDefaults(t *testing.T) {
	spec := &job.JobSpec{}
	open := jobspec.DeadlinesOf(spec)
	jobspec.Complete(spec)
	if complete := jobspec.DeadlinesOf(spec); open != complete {
		t.Errorf("an open spec has %+v, a complete one %+v", open, complete)
	}
	if open != jobspec.DeadlinesOf(nil) {
		t.Error("no spec has other deadlines than an open one")
	}
}
