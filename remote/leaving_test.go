package remote_test

import (
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
)

// A pserver that is told to end (SIGTERM), as where its node is drained, ends when a checkpoint has what it has: the job goes on from a step that is not before those that
// were told by then, though its own next checkpoint
// is far, repeats the round at most that was open when it ended, and ends with the bits of the undisturbed job.
func TestToldServerIsSaved(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]string{
		"one":                {"pserver-1"},
		"that of the ledger": {"pserver-0"},
		"both":               {"pserver-0", "pserver-1"},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "that of the ledger", "both")
			tellServers(t, told)
		})
	}
}

// tellServers tells pservers to end, twice, in a job whose own checkpoints are far from each other.
func tellServers(t *testing.T, told []string) {
	m, data := dense(t)
	dir, save := t.TempDir(), t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.RoundDeadline = durationpb.New(2 * time.Minute) // a third of it is the time for the checkpoint, which no test should reach
	spec.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 1 << 40, Keep: 100}
	spec.MaxRestarts = 1 // such an end is no failure, and does not count: the second one of a server would end the job
	last, from, attempt, times, passes, repeated := uint64(0), uint64(0), 0, 0, 0, 0
	summary, err := executorOf(t, r.listener(), spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save},
		func(s executor.StepResult) error {
			if s.Attempt != attempt {
				attempt, from = s.Attempt, s.Step
				if list := kept(t, dir); s.Step < last || len(list) == 0 || list[0].Steps < s.Step {
					t.Errorf("attempt %d goes on with step %d after servers were told to end at step %d; checkpoints %v", attempt, s.Step, last, list)
				}
			}
			if s.Repeated {
				repeated++
			}
			switch {
			case times < 2 && s.Attempt >= times && s.Step > from+20:
				times, last = times+1, s.Step
				for _, name := range told {
					r.signal(name, syscall.SIGTERM)
				}
			case times == 2 && s.Attempt >= times && s.Step > from+20 && (s.Step+1)%5 == 0:
				passes = s.Pass + 1
				return executor.ErrStop
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if repeated > times { // trainers had told the round that was held
		t.Errorf("%d steps are repeated after %d checkpoints", repeated, times)
	}
	if n := int64(70 * passes); summary.Records != n {
		t.Errorf("%d records are trained in %d passes, want %d", summary.Records, passes, n)
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

// So does one of an async job. By the ledger each record counts once per pass.
func TestToldServerOfAsyncJobIsSaved(t *testing.T) {
	t.Parallel()
	m := testkit.ReadingLine(t, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true)))
	data, dir := testkit.LineFiles(t, t.TempDir(), 1009), t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Mode, spec.RecordsPerTask = job.Mode_ASYNC, 20
	spec.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 1 << 40}
	told, steps, again := -1, 0, 0
	l := r.listener()
	_, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: t.TempDir()},
		func(s executor.StepResult) error {
			if steps++; s.Attempt > 0 {
				again++
			}
			switch {
			case again >= 20 && s.Pass > 1:
				return executor.ErrStop
			case told < 0 && steps > 30:
				told = steps
				r.signal("pserver-1", syscall.SIGTERM)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if list := kept(t, dir); len(list) == 0 || list[len(list)-1].Steps < uint64(told) {
		t.Errorf("the pserver was told to end at step %d; checkpoints %v", told, list)
	}
	passes := lastLedger(t, l).GetPasses()
	if len(passes) < 2 {
		t.Errorf("the ledger is %v", passes)
	}
	for i, p := range passes {
		if whole := p.Records == 1009 || i == len(passes)-1 && p.Records < 1009; !whole || p.Again != 0 { // training was stopped in the last one
			t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
		}
	}
}
