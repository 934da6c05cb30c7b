package remote_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
)

// A job with standbys goes on when it loses pservers: each step is told once, in its order, and in one attempt, each record is trained once, and the parameters
// have the bits of the undisturbed job. Nothing else is started again.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string][]string{
		"one":                {"pserver-1"},
		"that of the ledger": {"pserver-0"},
		"all":                {"pserver-0", "pserver-1"},
		"the standby":        {"standby-0"},
		"one and a standby":  {"pserver-0", "standby-1"},
	} {
		t.Run(name, func(t *testing.T) { loseWithStandby(t, kill, false) })
	}
}

// A generation that ends while trainers send a round again may cost the rounds since the last checkpoint, and never a bit.
func TestStandbyAndOthersAreLost(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"trainer-1", "coordinator", "standby-1"} {
		t.Run(other, func(t *testing.T) { loseWithStandby(t, []string{other, "pserver-1"}, true) })
	}
}

// A watched job tells which processes its roles have.
type watched struct {
	t      *testing.T
	client *remote.Client
	id     string
}

// roles returns the processes of roles, and whether every pserver has a standby in step.
func (w *watched) roles() (pids map[string]int, inStep bool) {
	if w.id == "" {
		jobs, err := w.client.Jobs(bounded(w.t))
		if err != nil || len(jobs) != 1 {
			w.t.Fatal(jobs, err)
		}
		w.id = jobs[0].Job
	}
	d, err := w.client.Show(bounded(w.t), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	pids, inStep = map[string]int{}, true
	for _, r := range d.Status.Roles {
		pids[cluster.Member{Role: r.Role, Index: int(r.Index)}.ID()] = int(r.Pid)
		inStep = inStep && (r.Role != job.Role_STANDBY || r.InStep)
	}
	return pids, inStep
}

// loseWithStandby kills roles three times. again says that the job may begin again.
func loseWithStandby(t *testing.T, kill []string, again bool) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	data, save := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Standby = 1
	l := r.listener()
	e := executorOf(t, l, spec)
	w := &watched{t: t, client: e.Client()}
	times, next, passes, last := 0, uint64(0), 0, uint64(0)
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save}, func(s executor.StepResult) error {
		if !again && (s.Step != next || s.Attempt != 0 || s.Repeated) {
			t.Errorf("step %d of attempt %d is told, repeated: %v; want step %d", s.Step, s.Attempt, s.Repeated, next)
		}
		next = s.Step + 1
		pids, inStep := w.roles()
		switch {
		case times < 3 && s.Step > last+10 && inStep && !slices.ContainsFunc(kill, func(name string) bool { return pids[name] == 0 }):
			times, last = times+1, s.Step
			for _, name := range kill {
				if err := syscall.Kill(pids[name], syscall.SIGKILL); err != nil {
					t.Error(name, err)
				}
			}
		case times == 3 && s.Step > last+20 && (s.Step+1)%5 == 0:
			passes = s.Pass + 1
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.New(m.Program, int(spec.Trainers))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, save, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}
