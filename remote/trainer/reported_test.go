package trainer

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// Whatever a trainer has fetched is reported before it takes its leave, however far the reports are behind: at the end of the data, and drained.
func TestStepsAreReportedBeforeLeaving(t *testing.T) {
	for name, last := range map[string]uint64{"at the end": 8, "drained": 4} {
		for _, mode := range []job.Mode{job.Mode_SYNC, job.Mode_ASYNC} {
			m := testkit.Reading(t, 5, optimizer.SGD(0.05))
			spec := &job.JobSpec{Trainers: 1, Pservers: 1, Mode: mode, Fetch: []string{m.Loss}}
			c := newCrew(t, m, testkit.Samples(t, t.TempDir(), 40), spec, queue.Policy{Passes: 1, RecordsPerTask: 40, MaxFailures: 3})
			c.conductor.hold = make(chan struct{})
			var once sync.Once
			c.call = func(_ uint32, _ int, when string, round uint64) {
				if when == "in recv" && round == last {
					once.Do(func() {
						if name == "drained" {
							c.drainTrainer(0)
						}
						close(c.conductor.hold)
					})
				}
			}
			if err := c.train(bounded(t), 1); err != nil && !(name == "drained" && errors.Is(err, fault.Drained)) {
				t.Fatalf("%s, %v: %v", name, mode, err)
			}
			if c.conductor.known != int(last) {
				t.Errorf("%s, %v: %d of %d steps were reported before the trainer left", name, mode, c.conductor.known, last)
			}
		}
	}
}

// parameterOf names a variable that trainers receive.
func parameterOf(m testkit.Model) string {
	for _, op := range m.Program.Global().Ops {
		if p := op.Inputs["Param"]; len(p) > 0 {
			return p[0]
		}
	}
	return ""
}

// checkReports checks that no record was reported twice, and, where whole is set, that all were.
func (l lawCase) checkReports(t *testing.T, c *crew, whole bool) {
	t.Helper()
	type step struct {
		rank  uint32
		round uint64
	}
	if late := c.conductor.late; len(late) > 0 {
		t.Errorf("%d reports came too late, such as %v", len(late), late[0].Id)
	}
	seen := map[step]bool{}
	trained := make([][]int, l.passes)
	for pass := range trained {
		trained[pass] = make([]int, l.records)
	}
	for _, m := range c.conductor.reports {
		if i := slices.IndexFunc(m.Fetched, func(v *job.Value) bool { return v.Name != l.model.Loss }); m.Pending && i >= 0 {
			t.Errorf("round %d, of which it is not known whether it has committed, is reported with %s, as it was before", m.Id.Round, m.Fetched[i].Name)
		}
	}
	for _, m := range c.conductor.committed() {
		s := step{m.Id.Rank, m.Id.Round}
		if seen[s] {
			t.Errorf("%+v was reported twice", s)
		}
		seen[s] = true
		for _, r := range m.Records {
			for i := r.From; i < r.To; i++ {
				trained[m.Pass][i]++
			}
		}
	}
	for pass, counts := range trained {
		if slices.Max(counts) > 1 || whole && slices.Min(counts) == 0 {
			t.Errorf("records were reported in pass %d: %v", pass, counts)
		}
	}
}
