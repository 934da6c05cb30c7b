package remote_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/checkpoint"
)

// lastLedger is the ledger of the job that was started last.
func lastLedger(t *testing.T, l *remote.Listener) *rpc.LedgerResponse {
	t.Helper()
	c := executorOf(t, l, &remote.JobSpec{}).Client()
	jobs, err := c.Jobs(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Show(bounded(t), jobs[len(jobs)-1].Job)
	if err != nil {
		t.Fatal(err)
	}
	return d.Ledger
}

// An async job with one trainer is cut at any step, between two records of a task that is shuffled. A job that goes on from there, with any number of
// pservers, ends with the bits of the job that was not interrupted: its state, its schedule, its chance and the order of its records are those. A step is a
// batch also where several make one push: the cut lies between two pushes, and counts their steps.
func TestAsyncResumeEqualsUndisturbed(t *testing.T) {
	for name, push := range map[string]int32{"a push each step": 1, "a push each third step": 3} {
		t.Run(name, func(t *testing.T) { asyncResumeEqualsUndisturbed(t, push) })
	}
}

func asyncResumeEqualsUndisturbed(t *testing.T, push int32) {
	m := testkit.ReadingLine(t, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true)))
	data, dir := testkit.LineFiles(t, t.TempDir(), 403), t.TempDir()
	l := listener(t)
	const perPass = (403 + 7) / 8
	train := func(spec *remote.JobSpec, passes int, told func(executor.StepResult) error) (string, executor.Summary) {
		spec.Trainers, spec.Mode, spec.MinBlockSize, spec.RecordsPerTask, spec.PushEvery = 1, job.Mode_ASYNC, 4, 33, push
		save := t.TempDir()
		summary, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: save}, told)
		if err != nil {
			t.Fatal(err)
		}
		return save, summary
	}
	// However fast the machine is, the job goes on until it has some checkpoints.
	_, stopped := train(&remote.JobSpec{Pservers: 3, Checkpoints: &job.Checkpoints{Store: dir, Rounds: 9, Keep: 100}}, 100000, func(executor.StepResult) error {
		if len(kept(t, dir)) < 4 {
			return nil
		}
		return executor.ErrStop
	})
	passes := int(stopped.Steps)/perPass + 2
	// What the stop left is not one of them: its last batch is smaller, because no task followed.
	list := slices.DeleteFunc(kept(t, dir), func(e checkpoint.Entry) bool { return e.Steps == stopped.Steps })
	want, _ := train(&remote.JobSpec{Pservers: 2}, passes, nil)
	for i, e := range []int{0, len(list) / 2, len(list) - 1} {
		e := list[e]
		if e.Steps%perPass%uint64(push) != 0 {
			t.Errorf("a cut after %d steps, between pushes of %d", e.Steps, push)
		}
		saved, summary := train(&remote.JobSpec{Pservers: int32(1 + i), Resume: dir + "@" + e.Name}, passes, nil)
		what := fmt.Sprintf("from step %d with %d pservers", e.Steps, 1+i)
		if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Saved(t, want, m.Program)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if steps := uint64(perPass * passes); summary.Steps != steps-e.Steps {
			t.Errorf("%s: %d steps, want %d", what, summary.Steps, steps-e.Steps)
		}
	}
}

// Jobs with several trainers go on from each other's cuts, in other shapes. By the ledger each record is trained once per pass. A checkpoint of a sync job
// serves an async one, and the other way round.
func TestAsyncResumeInAnotherShape(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.Adam(0.02))
	data, dir := testkit.LineFiles(t, t.TempDir(), 307), t.TempDir()
	l := listener(t)
	const endless = 100000
	resume, passes, trained := "", endless, int64(0)
	for i, spec := range []*remote.JobSpec{{Trainers: 2, Pservers: 2}, {Trainers: 3, Pservers: 1, Mode: job.Mode_ASYNC}, {Trainers: 2, Pservers: 3, Mode: job.Mode_ASYNC},
		{Trainers: 2, Pservers: 1}, {Trainers: 1, Pservers: 2, Mode: job.Mode_ASYNC}} {
		spec.MinBlockSize, spec.RecordsPerTask, spec.Resume = 4, 20, resume
		spec.Checkpoints = &job.Checkpoints{Store: fmt.Sprint(dir, i), Rounds: 7, Keep: 3}
		if i == 4 {
			passes = int(trained)/307 + 2
		}
		steps := 0
		summary, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, func(executor.StepResult) error {
			if steps++; passes < endless || steps < 25 || len(kept(t, spec.Checkpoints.Store)) == 0 {
				return nil
			}
			return executor.ErrStop
		})
		if err != nil {
			t.Fatal(err)
		}
		trained += summary.Records
		if i < 4 {
			resume = spec.Checkpoints.Store
		}
	}
	ledger := lastLedger(t, l)
	if len(ledger.GetPasses()) != passes {
		t.Errorf("the ledger is %v", ledger)
	}
	for _, p := range ledger.GetPasses() {
		if p.Records != 307 || p.Again != 0 {
			t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
		}
	}
}

// An async job that loses a pserver goes back to its last checkpoint. By the ledger each record counts once per pass; only the pserver that was lost is
// another process.
func TestLostServerOfAsyncJob(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string][]string{"one": {"pserver-1"}, "that of the ledger": {"pserver-0"}, "all": {"pserver-0", "pserver-1"},
		"with the coordinator": {"pserver-1", "coordinator"}} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "that of the ledger")
			t.Parallel()
			m := testkit.ReadingLine(t, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true)))
			data, dir := testkit.LineFiles(t, t.TempDir(), 1009), t.TempDir()
			r := newRig(t)
			spec := shortLived()
			spec.Mode, spec.RecordsPerTask = job.Mode_ASYNC, 20
			spec.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 10}
			others := slices.DeleteFunc([]string{"coordinator", "pserver-0", "pserver-1", "trainer-0", "trainer-1"},
				func(name string) bool { return slices.Contains(kill, name) })
			var before, after []int
			killed, again := false, 0
			l := r.listener()
			_, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: t.TempDir()},
				func(s executor.StepResult) error {
					if s.Attempt > 0 {
						again++
					}
					if again >= 20 && s.Pass > 1 {
						after = r.pids(others...)
						return executor.ErrStop
					}
					if !killed && len(kept(t, dir)) > 1 {
						killed = true
						before = r.pids(others...)
						for _, name := range kill {
							r.signal(name, syscall.SIGKILL)
						}
					}
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(kill, "coordinator") && !slices.Equal(before, after) {
				t.Errorf("%v were the processes %v, and are %v after %v were lost", others, before, after, kill)
			}
			passes := lastLedger(t, l).GetPasses()
			if len(passes) < 2 {
				t.Errorf("the ledger is %v", passes)
			}
			for i, p := range passes {
				whole := p.Records == 1009 || i == len(passes)-1 && p.Records < 1009 // training was stopped in the last one
				if !whole || p.Again != 0 {
					t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
				}
			}
		})
	}
}
