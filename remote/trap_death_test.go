package remote_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
)

// Whoever is lost is started again, and the job computes what it would have computed.
func TestDeathsAreMended(t *testing.T) {
	t.Parallel()
	for name, strike := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := submit(t, shortLived())
			member := strike(s)
			for who, starts := range s.mustEqualUndisturbed() {
				want := int32(1)
				if who == member || strings.HasPrefix(member, "pserver") { // which begins the job anew
					want = 2
				}
				if starts != want {
					t.Errorf("%s was started %d times, want %d", who, starts, want)
				}
			}
			s.gone()
		})
	}
}

// The end of a process is known before its lease ends: a member that is killed in the
// middle of a round is out of the membership, and back, within it.
func TestDeathsAreKnownBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"trainer while sending", "coordinator"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shortLived()
			spec.Lease = durationpb.New(time.Hour) // far beyond the patience of the test
			s := submit(t, spec)
			deaths[name](s)
			s.mustEqualUndisturbed()
			s.gone()
		})
	}
}

// A job that allows no restarts ends at once, and names who was lost.
func TestDeathsWithoutRestarts(t *testing.T) {
	t.Parallel()
	for name, strike := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shortLived()
			spec.MaxRestarts = -1
			s := submit(t, spec)
			s.mustMiss(strike(s))
		})
	}
}

// In async mode a trainer that is lost leaves its tasks to the others: the job ends, and no more than its last batch is counted twice.
func TestTrainerKilledInAsync(t *testing.T) {
	t.Parallel()
	spec := shortLived()
	spec.Mode = job.Mode_ASYNC
	s := submit(t, spec)
	deaths["trainer while sending"](s)
	s.flow()
	if _, err := s.follow(); err != nil {
		t.Fatal(err)
	}
	d, err := s.client.Show(bounded(t), s.id)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Ledger.GetPasses()) != struckPasses {
		t.Errorf("the ledger is %v", d.Ledger)
	}
	for _, p := range d.Ledger.GetPasses() {
		if p.Records != struckRecords || p.Again > 8 {
			t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
		}
	}
}

// A role that never comes is named when the start deadline has passed.
func TestMissingRole(t *testing.T) {
	t.Parallel()
	for role, member := range map[string]string{"trainer-1": "trainer 1", "pserver-1": "pserver 1"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.hold(role)
			spec := shortLived()
			spec.StartDeadline = durationpb.New(4 * time.Second) // long enough for the others to start on a busy machine
			e := executorOf(t, r.listener(), spec)
			_, err := e.Train(bounded(t), pausing(t).Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 8)}, nil)
			if err == nil || !strings.Contains(err.Error(), member) {
				t.Errorf("the job ends with %v, want one that names %s", err, member)
			}
			r.gone()
		})
	}
}
