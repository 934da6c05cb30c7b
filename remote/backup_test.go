package remote_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// backupRows is the batch of the jobs with backup trainers.
const backupRows = 12

// readingThatPauses reads testkit.Samples in order, and stops in the backward pass of each step until the rig lets it go on. Its moving statistics are
// forward state. The rate is small, because what is owed makes batches of few rows.
func readingThatPauses(t testing.TB) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, backupRows)))
	hidden := pauses(layers.BatchNorm(layers.FC(v[0], 10, layers.Act("tanh"))))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), v[1]), layers.Name("loss"))
	optimizer.Momentum(0.01, 0.9).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// lookingUp is a model that looks rows of a table up, has a sparse gradient and pauses as readingThatPauses does, with its data.
func lookingUp(t *testing.T, records int) (testkit.Model, map[string][]string) {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, backupRows)))
	rows := pauses(layers.Embedding(v[0], 40, 6, layers.Sparse()))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), v[1]), layers.Name("loss"))
	optimizer.Adagrad(0.05).Minimize(loss)
	data := testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i * i % 40)})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id, testkit.Random(t, tensor.Float32, uint64(i), 1)}
	})
	return testkit.Built(t, m, loss), data
}

// A job with a backup trainer goes on without a trainer that does not come: round after round counts without it. Each record counts once in each pass, and the
// job equals the reference that is told which contributions counted.
func TestBackupTrainers(t *testing.T) {
	t.Parallel()
	const records = 203
	dense := readingThatPauses(t)
	samples := testkit.Samples(t, t.TempDir(), records)
	table, rows := lookingUp(t, records)
	for name, c := range map[string]struct {
		model    testkit.Model
		data     map[string][]string
		compress string
	}{
		"dense":             {dense, samples, "none"},
		"rounded gradients": {dense, samples, "bf16"},
		"sparse gradients":  {table, rows, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "sparse gradients")
			trainWithoutOne(t, c.model, c.data, records, c.compress)
		})
	}
}

// trainWithoutOne trains two passes, the first rounds of which one of three trainers misses.
func trainWithoutOne(t *testing.T, m testkit.Model, data map[string][]string, records int, compress string) {
	const passes, trainers, without = 2, 3, 10
	r := newRig(t)
	spec := shortLived()
	spec.Trainers, spec.Pservers, spec.BackupTrainers, spec.MinBlockSize, spec.CompressGradients = trainers, 2, 1, 8, compress
	e := executorOf(t, r.listener(), spec)
	saved := filepath.Join(t.TempDir(), "model")
	j, err := e.Submit(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: saved, Fetch: []string{m.Loss}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trainer-0", "trainer-1"} {
		r.resume(name, r.waitPaused(name))
	}
	late := r.waitPaused("trainer-2")
	var rounds []testkit.Decision
	_, err = j.Follow(bounded(t), func(s executor.StepResult) error {
		rounds = append(rounds, testkit.Decision{Rows: s.Rows, Dropped: s.Dropped, Loss: s.Fetched[0].Clone()})
		if len(rounds) == without {
			r.resume("trainer-2", late)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range rounds[:without] {
		if !slices.Equal(d.Dropped, []int{2}) {
			t.Errorf("round %d counts without trainers %v, want the one that does not come", i, d.Dropped)
		}
	}
	status, err := e.Client().Status(bounded(t), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range status.Roles {
		if role.State != job.State_SUCCEEDED {
			t.Errorf("%v %d: %v", role.Role, role.Index, role.State)
		}
	}
	if status.Records != int64(records*passes) {
		t.Errorf("%d records are trained, want %d", status.Records, records*passes)
	}
	want, err := reference.New(m.Program, trainers)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := want.Compress(compress, "none"); err != nil {
		t.Fatal(err)
	}
	testkit.ReplayDecisions(bounded(t), t, want, m, data, passes, trainers, rounds)
	if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// Whoever is lost: a pass of a job with a backup trainer has each record once. What was dropped before is trained all the same, also where the job has gone back
// to a checkpoint.
func TestBackupTrainersWhenRolesAreLost(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{"a trainer": {"trainer-1"}, "the coordinator": {"coordinator"}, "a pserver": {"pserver-1"},
		"the pserver that decides": {"pserver-0"}, "nobody, with devices": nil,
		"nobody, with another number of pservers": {}} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "a trainer", "nobody, with devices")
			trainWithBackups(t, lost, false)
		})
	}
	for name, lost := range map[string][]string{"a pserver": {"pserver-1"}, "the pserver that decides": {"pserver-0"}, "all pservers": {"pserver-0", "pserver-1"},
		"a standby and a trainer": {"standby-0", "trainer-2"}} {
		t.Run(name+", with standbys", func(t *testing.T) {
			inShort(t, name, "the pserver that decides")
			trainWithBackups(t, lost, true)
		})
	}
}

// trainWithBackups trains until roles are lost in the middle of a pass, and on to the end of a later one.
func trainWithBackups(t *testing.T, lost []string, standbys bool) {
	const records = 70
	m := testkit.Reading(t, backupRows, optimizer.Momentum(0.05, 0.9))
	dir := t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Trainers, spec.Pservers, spec.BackupTrainers, spec.MinBlockSize = 3, 2, 1, 8
	spec.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 3}
	if lost == nil {
		spec.Devices = 2
	}
	if standbys {
		spec.Standby = 1
	}
	l := r.listener()
	e := executorOf(t, l, spec)
	w := &watched{t: t, client: e.Client()}
	killed, passes, dropped, last := false, -1, 0, -1
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), records), Passes: 100000},
		func(s executor.StepResult) error {
			if int(s.Step) != last+1 && standbys {
				t.Errorf("step %d after step %d", s.Step, last)
			}
			dropped, last = dropped+len(s.Dropped), int(s.Step)
			inStep := true
			if standbys {
				_, inStep = w.roles()
			}
			switch {
			case !killed && len(kept(t, dir)) > 1 && dropped > 0 && inStep:
				killed, passes = true, s.Pass+3
				if lost != nil && len(lost) == 0 {
					jobs, err := e.Client().Jobs(bounded(t))
					if err == nil {
						_, err = remote.ScaleServers(bounded(t), e.Client(), jobs[0].Job, 3)
					}
					if err != nil {
						return err
					}
				}
				for _, name := range lost {
					old := r.handle(name)
					r.signal(name, syscall.SIGKILL)
					if !standbys { // else nobody takes the name of a pserver
						r.await("another "+name, func() bool { return r.handles[name] != old })
					}
				}
			case killed && s.Pass >= passes:
				return executor.ErrStop
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ledger := lastLedger(t, l)
	for _, p := range ledger.Passes[:len(ledger.Passes)-1] {
		if p.Records != records || p.Again != 0 {
			t.Errorf("pass %d: %d records, and %d again, want %d once", p.Pass, p.Records, p.Again, records)
		}
	}
	if len(ledger.Passes) < passes {
		t.Errorf("the ledger has %d passes, want at least %d", len(ledger.Passes), passes)
	}
}

// A pserver is lost when one trainer has declared a round and waits for the decision. Those who count send their contributions to the standby again, which decides, or
// applies what pserver 0 has decided: no step is repeated, and the job equals the reference that is told which contributions counted.
func TestStandbyInARoundWithBackups(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"pserver-0", "pserver-1"} {
		t.Run(lost, func(t *testing.T) {
			inShort(t, lost, "pserver-0")
			loseBeforeTheDecision(t, lost)
		})
	}
}

func loseBeforeTheDecision(t *testing.T, lost string) {
	const records, passes, trainers, without = 120, 2, 3, 5
	m, data := lookingUp(t, records)
	r := newRig(t)
	spec := shortLived()
	spec.Trainers, spec.Pservers, spec.BackupTrainers, spec.Standby, spec.MinBlockSize = trainers, 2, 1, 1, 8
	e := executorOf(t, r.listener(), spec)
	saved := filepath.Join(t.TempDir(), "model")
	j, err := e.Submit(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: saved, Fetch: []string{m.Loss}})
	if err != nil {
		t.Fatal(err)
	}
	first, second, late := r.waitPaused("trainer-0"), r.waitPaused("trainer-1"), r.waitPaused("trainer-2")
	w := &watched{t: t, client: e.Client(), id: j.ID}
	for inStep := false; !inStep; {
		_, inStep = w.roles()
	}
	goOn(first)
	for waits := false; !waits; {
		answer, err := e.Client().Why(bounded(t), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		waits = strings.Contains(answer.String(), "what counts in round 0")
	}
	r.signal(lost, syscall.SIGKILL)
	r.resume("trainer-1", second)
	r.resume("trainer-0", r.waitPaused("trainer-0"))
	var rounds []testkit.Decision
	_, err = j.Follow(bounded(t), func(s executor.StepResult) error {
		if int(s.Step) != len(rounds) || s.Attempt != 0 {
			t.Errorf("step %d of attempt %d after %d steps", s.Step, s.Attempt, len(rounds))
		}
		rounds = append(rounds, testkit.Decision{Rows: s.Rows, Dropped: s.Dropped, Loss: s.Fetched[0].Clone()})
		if len(rounds) == without {
			r.resume("trainer-2", late)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.New(m.Program, trainers)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	testkit.ReplayDecisions(bounded(t), t, want, m, data, passes, trainers, rounds)
	if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// A job that resumes from a checkpoint in the middle of a pass trains what its ledger lacks of the pass: what was dropped, and what comes after. So does one
// without backup trainers, and an async one.
func TestBackupTrainersResume(t *testing.T) {
	t.Parallel()
	const records = 70
	passes := 0
	m := testkit.Reading(t, backupRows, optimizer.Momentum(0.05, 0.9))
	data, dir := testkit.Samples(t, t.TempDir(), records), t.TempDir()
	l := listener(t)
	spec := func() *remote.JobSpec {
		return &remote.JobSpec{Trainers: 3, Pservers: 2, BackupTrainers: 1, MinBlockSize: 8, Checkpoints: &job.Checkpoints{Store: dir, Rounds: 3, Keep: 100}}
	}
	_, err := executorOf(t, l, spec()).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000}, func(s executor.StepResult) error {
		if passes = s.Pass + 2; s.Pass > 0 && len(kept(t, dir)) > 3 {
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range kept(t, dir)[:3] {
		again := spec()
		switch i {
		case 1:
			again.BackupTrainers = 0
		case 2:
			again.BackupTrainers, again.Mode = 0, job.Mode_ASYNC
		}
		again.Resume, again.Trainers, again.Pservers, again.Checkpoints = dir+"@"+e.Name, 4, 1, &job.Checkpoints{None: true}
		if _, err := executorOf(t, l, again).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
			t.Fatal(err)
		}
		ledger := lastLedger(t, l)
		if len(ledger.Passes) != passes {
			t.Errorf("after %s the ledger has %d passes, want %d", e.Name, len(ledger.Passes), passes)
		}
		for _, p := range ledger.Passes {
			if p.Records != records || p.Again != 0 {
				t.Errorf("after %s pass %d: %d records, and %d again, want %d once", e.Name, p.Pass, p.Records, p.Again, records)
			}
		}
	}
}

// BenchmarkBackupTrainers measures a job of 4 trainers whose backward pass takes 5 ms, and of one of them 10 times as long where there is a straggler. Records
// count when their round does. The time goes from the first step that is seen to the last.
func BenchmarkBackupTrainers(b *testing.B) {
	const records, each = 100 * backupRows, 5 * time.Millisecond
	m, data := readingThatPauses(b), testkit.Samples(b, b.TempDir(), records)
	for name, c := range map[string]struct {
		backup    int32
		straggler time.Duration
	}{"all the same": {0, each}, "all the same, one backup": {1, each}, "one straggler": {0, 10 * each}, "one straggler, one backup": {1, 10 * each}} {
		b.Run(name, func(b *testing.B) {
			steps, rows, took := 0, int64(0), time.Duration(0)
			for range b.N {
				r := newRig(b)
				e := executorOf(b, r.listener(), &remote.JobSpec{Trainers: 4, Pservers: 2, BackupTrainers: c.backup, MinBlockSize: 8, Checkpoints: &job.Checkpoints{None: true}})
				j, err := e.Submit(bounded(b), m.Program, executor.TrainOptions{Data: data, Passes: 1, Fetch: []string{m.Loss}})
				if err != nil {
					b.Fatal(err)
				}
				ended := make(chan struct{})
				for rank := range 4 {
					computes := each
					if rank == 3 {
						computes = c.straggler
					}
					pauses := r.pauses(r.handle(fmt.Sprint("trainer-", rank)).Pid())
					r.served.Go(func() {
						for {
							select {
							case conn := <-pauses:
								time.AfterFunc(computes, func() { goOn(conn) })
							case <-ended:
								return
							}
						}
					})
				}
				var first, last time.Time
				_, err = j.Follow(bounded(b), func(s executor.StepResult) error {
					if last = time.Now(); first.IsZero() {
						first = last
						return nil
					}
					steps, rows = steps+1, rows+s.Rows
					return nil
				})
				close(ended)
				if err != nil {
					b.Fatal(err)
				}
				took += last.Sub(first)
			}
			b.ReportMetric(float64(steps)/took.Seconds(), "rounds/s")
			b.ReportMetric(float64(rows)/took.Seconds(), "records/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
