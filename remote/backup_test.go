package remote_test

import (
	"fmt"
	"path/filepath"
	"slices"
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
// forward state.
func readingThatPauses(t testing.TB) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, backupRows)))
	hidden := pauses(layers.BatchNorm(layers.FC(v[0], 10, layers.Act("tanh"))))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), v[1]), layers.Name("loss"))
	optimizer.Momentum(0.05, 0.9).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// A decision is what a job says of one round.
type decision struct {
	rows    int64
	dropped []int
	loss    *tensor.Tensor
}

// replay trains on the reference what a job has decided: which contributions counted in each round. The records of the others are trained at the end of
// their pass. It returns how many rounds each pass has.
func replay(t *testing.T, want *reference.Executor, m testkit.Model, records, passes, trainers int, rounds []decision) {
	t.Helper()
	feed := func(numbers []int) executor.Feed {
		x, y := make([]float32, 0, len(numbers)*testkit.Width), make([]float32, 0, len(numbers))
		for _, number := range numbers {
			i := 2 * number // the files have every other sample
			if half := (records + 1) / 2; number >= half {
				i = 2*(number-half) + 1
			}
			f := testkit.Random(t, tensor.Float32, uint64(i), testkit.Width).Float32s()
			x, y = append(x, f...), append(y, 2*f[0]-f[1]+0.5*f[2]*f[3])
		}
		xs, err := tensor.FromSlice(x, int64(len(numbers)), testkit.Width)
		if err != nil {
			t.Fatal(err)
		}
		ys, err := tensor.FromSlice(y, int64(len(numbers)), 1)
		if err != nil {
			t.Fatal(err)
		}
		names, err := executor.ReadVariables(m.Program)
		if err != nil {
			t.Fatal(err)
		}
		return executor.Feed{names[0]: xs, names[1]: ys}
	}
	at := 0
	want.Drop(func(round uint64) []int { return rounds[round].dropped })
	for range passes {
		left := make([]int, records)
		for i := range left {
			left[i] = i
		}
		for len(left) > 0 { // a segment
			var owed []int
			for batch := range slices.Chunk(left, backupRows) {
				if at == len(rounds) {
					t.Fatalf("%d rounds, and more records are left", at)
				}
				n, counts := len(batch), int64(len(batch))
				for _, p := range rounds[at].dropped {
					gone := batch[n*p/trainers : n*(p+1)/trainers]
					owed, counts = append(owed, gone...), counts-int64(len(gone))
				}
				if counts != rounds[at].rows {
					t.Errorf("round %d: %d rows, without trainers %v, want %d", at, rounds[at].rows, rounds[at].dropped, counts)
				}
				got, err := want.Run(bounded(t), m.Program, feed(batch), m.Loss)
				if err != nil {
					t.Fatalf("round %d: %v", at, err)
				}
				if !testkit.Same(got[0], rounds[at].loss) {
					t.Errorf("round %d: loss %s, want %s", at, testkit.Show(rounds[at].loss), testkit.Show(got[0]))
				}
				at++
			}
			slices.Sort(owed)
			left = owed
		}
	}
	if at != len(rounds) {
		t.Errorf("%d rounds, want %d", len(rounds), at)
	}
}

// A job with a backup trainer goes on without a trainer that does not come: round after round counts without it. Each record counts once in each pass, and the
// job equals the reference that is told which contributions counted.
func TestBackupTrainers(t *testing.T) {
	t.Parallel()
	const records, passes, trainers, without = 203, 2, 3, 10
	m := readingThatPauses(t)
	r := newRig(t)
	spec := shortLived()
	spec.Trainers, spec.Pservers, spec.BackupTrainers, spec.MinBlockSize = trainers, 2, 1, 8
	e := executorOf(t, r.listener(), spec)
	saved := filepath.Join(t.TempDir(), "model")
	j, err := e.Submit(bounded(t), m.Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), records), Passes: passes, Save: saved, Fetch: []string{m.Loss}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trainer-0", "trainer-1"} {
		r.resume(name, r.waitPaused(name))
	}
	late := r.waitPaused("trainer-2")
	var rounds []decision
	_, err = j.Follow(bounded(t), func(s executor.StepResult) error {
		rounds = append(rounds, decision{s.Rows, s.Dropped, s.Fetched[0].Clone()})
		if len(rounds) == without {
			r.resume("trainer-2", late)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range rounds[:without] {
		if !slices.Equal(d.dropped, []int{2}) {
			t.Errorf("round %d counts without trainers %v, want the one that does not come", i, d.dropped)
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
	if status.Records != records*passes {
		t.Errorf("%d records are trained, want %d", status.Records, records*passes)
	}
	want, err := reference.New(m.Program, trainers)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	replay(t, want, m, records, passes, trainers, rounds)
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
			inShort(t, name, "a trainer", "the pserver that decides", "nobody, with devices")
			trainWithBackups(t, lost)
		})
	}
}

// trainWithBackups trains until roles are lost in the middle of a pass, and on to the end of a later one.
func trainWithBackups(t *testing.T, lost []string) {
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
	l := r.listener()
	e := executorOf(t, l, spec)
	killed, passes, dropped := false, -1, 0
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), records), Passes: 100000},
		func(s executor.StepResult) error {
			dropped += len(s.Dropped)
			switch {
			case !killed && len(kept(t, dir)) > 1 && dropped > 0:
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
					r.await("another "+name, func() bool { return r.handles[name] != old })
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

// A job that resumes from a checkpoint in the middle of a pass trains what its ledger lacks of the pass: what was dropped, and what comes after.
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
	for _, e := range kept(t, dir)[:3] {
		again := spec()
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
