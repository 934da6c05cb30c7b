package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// each runs a test for every seed.
func each(t *testing.T, test func(t *testing.T, seed uint64)) {
	for i := range *runs {
		s := *seed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) { test(t, s) })
	}
}

// momentum remembers, so that no update may be lost or doubled.
func momentum() *optimizer.Optimizer { return optimizer.Momentum(0.01, 0.9) }

func anyButScale(k kind, _ string) bool { return !k.scales }

// undisturbed trains the model as the reference executor does, with a number of trainers for each round.
func undisturbed(t *testing.T, m testkit.Model, data map[string][]string, trainers func(round uint64) int) (scope *executor.Scope, loss float32) {
	t.Helper()
	e, err := reference.New(m.Program, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.Vary(trainers)
	_, err = e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Fetch: []string{m.Loss}},
		func(r executor.StepResult) error {
			loss = testkit.Loss(t, r.Fetched[0])
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return e.Scope(), loss
}

// undisturbedBySeed gives the model that a seed draws, and what it has after an undisturbed run of some trainers, which is made once for each model.
func undisturbedBySeed(t *testing.T, data map[string][]string, trainers int) func(seed uint64) (testkit.Model, map[string]*tensor.Tensor) {
	type run struct {
		model testkit.Model
		ends  map[string]*tensor.Tensor
	}
	runs := map[bool]run{}
	return func(seed uint64) (testkit.Model, map[string]*tensor.Tensor) {
		r, done := runs[sharesTotals(seed)]
		if !done {
			r.model = modelOf(t, seed)
			scope, _ := undisturbed(t, r.model, data, func(uint64) int { return trainers })
			r.ends = testkit.Persistables(scope, r.model.Program)
			runs[sharesTotals(seed)] = r
		}
		return r.model, r.ends
	}
}

// A job of a fixed number of trainers pauses while one is missing. It ends with the parameters of the undisturbed run, bit for bit, and has trained
// every record once in every pass.
func TestFixedMembership(t *testing.T) {
	data := testkit.Samples(t, t.TempDir(), records())
	of := undisturbedBySeed(t, data, 3)
	each(t, func(t *testing.T, seed uint64) {
		m, want := of(seed)
		out := newRig(t).run(m, spec(3, 3, job.Mode_SYNC), data, draw(seed, *faults, rounds(), 3, 2, anyButScale))
		if err := testkit.Difference(testkit.Saved(t, out.saved, m.Program), want); err != nil {
			t.Errorf("the parameters differ from those of the undisturbed run: %v", err)
		}
		checkLedger(t, out.details.Ledger, data, 0)
	})
}

// A pserver that is lost loses its part of the parameters. A job without checkpoints starts over from where it began. Another one goes back to its last
// checkpoint, and only the processes that were hit are others. In the end both have saved the same as an undisturbed job.
func TestLostServer(t *testing.T) {
	const more = 6 // times the records of others: the job must not end while a slow disk takes the checkpoint that is asked for
	data := testkit.Samples(t, t.TempDir(), more*records())
	of := undisturbedBySeed(t, data, 2)
	each(t, func(t *testing.T, seed uint64) {
		m, want := of(seed)
		for _, saved := range []bool{false, true} {
			plan := []disturbance{{what: "kill", whom: "pserver-1", after: rounds() / 4}, {what: "kill", whom: "trainer-0", after: rounds() / 2},
				{what: "stop", whom: "pserver-0", after: rounds(), lasts: lease + 2*time.Second}}
			s := spec(2, 2, job.Mode_SYNC)
			if saved {
				plan[0].saved = true
				s.Checkpoints = &job.Checkpoints{Store: t.TempDir(), Rounds: max(1, rounds()/16)}
			}
			r := newRig(t)
			out := r.run(m, s, data, plan)
			if out.hits != len(plan) {
				t.Errorf("%d of %d disturbances happened", out.hits, len(plan))
			}
			for name, n := range map[string]int{"coordinator": 1, "pserver-0": 2, "pserver-1": 2, "trainer-0": 2, "trainer-1": 1} {
				if saved && r.startsOf(name) != n {
					t.Errorf("%s was started %d times, want %d", name, r.startsOf(name), n)
				}
			}
			if err := testkit.Difference(testkit.Saved(t, out.saved, m.Program), want); err != nil {
				t.Errorf("checkpoints %t: the parameters differ from those of the undisturbed run: %v", saved, err)
			}
			checkLedger(t, out.details.Ledger, data, 0)
		}
	})
}

// Pservers are lost and change their number, and the store of checkpoints fails, beside all that happens to other roles. A job with standbys, with checkpoints or
// with both, as the seed says, ends with the parameters of the undisturbed run, bit for bit, and has trained every record once in every pass.
func TestServers(t *testing.T) {
	const more = 3 // times the records of others: many of these faults cost the job no time
	data := testkit.Samples(t, t.TempDir(), more*records())
	of := undisturbedBySeed(t, data, 2)
	each(t, func(t *testing.T, seed uint64) {
		m, want := of(seed)
		standby, saved := seed%3 > 0, seed%3 < 2
		s := spec(2, 2, job.Mode_SYNC)
		r := newRig(t)
		if standby {
			s.Standby = 1
		}
		if saved {
			s.Checkpoints = &job.Checkpoints{Rounds: max(1, rounds()/50)}
			s.Checkpoints.Store, r.suffers = failingStore(t)
		}
		plan := drawOf(slices.Concat(serverKinds, serverKinds, kinds), seed, *faults, more*rounds(), 2, 2, func(k kind, _ string) bool {
			return !k.scales && (standby || !k.standbys) && (saved || !k.store)
		})
		out := r.run(m, s, data, plan)
		t.Logf("standby %v, checkpoints %v: %d of %d disturbances happened", standby, saved, out.hits, len(plan))
		if err := testkit.Difference(testkit.Saved(t, out.saved, m.Program), want); err != nil {
			t.Errorf("the parameters differ from those of the undisturbed run: %v", err)
		}
		checkLedger(t, out.details.Ledger, data, 0)
	})
}

// Rounds of a job with a backup trainer count without the slowest, whoever is lost. Each record counts once in each pass. Where the job goes back to no checkpoint, with
// standbys or because no pserver is lost, and every step was seen, it equals the reference that is told which contributions counted, bit for bit.
func TestBackupTrainers(t *testing.T) {
	m, samples := inOrder(t), testkit.Samples(t, t.TempDir(), records())
	counts, numbers := counting(t, records())
	each(t, func(t *testing.T, seed uint64) {
		s := spec(3, 3, job.Mode_SYNC)
		s.BackupTrainers = 1
		if seed%3 == 0 {
			s.Checkpoints = &job.Checkpoints{Store: t.TempDir(), Rounds: max(1, rounds()/50)}
			plan := drawOf(slices.Concat(serverKinds, kinds), seed, *faults, rounds(), 3, 2, func(k kind, _ string) bool { return !k.scales && !k.standbys && !k.store })
			out := newRig(t).run(counts, s, numbers, plan)
			checkLedger(t, out.details.Ledger, numbers, 0)
			for record, updates := range testkit.Saved(t, out.saved, counts.Program)["updates"].Float32s() {
				if updates != passes {
					t.Fatalf("record %d was applied %v times, want %d", record, updates, passes)
				}
			}
			return
		}
		plan := draw(seed, *faults, rounds(), 3, 2, anyButScale)
		if seed%3 == 1 {
			s.Standby = 1
			plan = drawOf(slices.Concat(serverKinds, serverKinds, kinds), seed, *faults, rounds(), 3, 2, func(k kind, _ string) bool { return !k.scales && !k.store && k.servers == 0 })
		}
		out := newRig(t).run(m, s, samples, plan)
		checkLedger(t, out.details.Ledger, samples, 0)
		var rounds []testkit.Decision
		for _, step := range out.steps {
			if int(step.Step) < len(rounds) { // the job has begun again
				rounds = rounds[:step.Step]
			}
			if int(step.Step) > len(rounds) {
				t.Logf("step %d came after %d steps: the decision on one of them was not seen", step.Step, len(rounds))
				return
			}
			rounds = append(rounds, testkit.Decision{Rows: step.Rows, Dropped: step.Dropped})
		}
		want, err := reference.New(m.Program, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		testkit.ReplayDecisions(bounded(t), t, want, m, samples, passes, 3, rounds)
		if err := testkit.Difference(testkit.Saved(t, out.saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
			t.Errorf("the parameters differ from those of the reference: %v", err)
		}
	})
}

// Nobody dies while etcd is away, for longer than a lease: killed, killed with the loss of all its data, or paused so that it ends all leases itself when it is
// back. The job goes on where it was: nothing begins again, and no role is started twice.
func TestEtcdAway(t *testing.T) {
	m := model(t, momentum())
	data := testkit.Samples(t, t.TempDir(), records())
	scope, _ := undisturbed(t, m, data, func(uint64) int { return 2 })
	want := testkit.Persistables(scope, m.Program)
	for _, what := range []string{"kill", "wipe", "stop"} {
		t.Run(what, func(t *testing.T) {
			plan := []disturbance{{what: what, whom: "etcd", after: rounds() / 4, lasts: 3 * lease / 4},
				{what: what, whom: "etcd", after: rounds() / 2, lasts: 2 * lease}}
			r := newRig(t)
			out := r.run(m, spec(2, 2, job.Mode_SYNC), data, plan)
			if out.hits != len(plan) {
				t.Errorf("%d of %d disturbances happened", out.hits, len(plan))
			}
			if err := testkit.Difference(testkit.Saved(t, out.saved, m.Program), want); err != nil {
				t.Errorf("the parameters differ from those of the undisturbed run: %v", err)
			}
			checkLedger(t, out.details.Ledger, data, 0)
			for _, step := range out.steps {
				if step.Repeated {
					t.Fatalf("step %d is trained again: the history began anew", step.Step)
				}
			}
			for name, n := range r.starts {
				if n != 1 {
					t.Errorf("%s was started %d times", name, n)
				}
			}
		})
	}
}

// An elastic job goes on with those who are left. The law holds for it: the parameters are those of the reference with as many trainers in each
// round, bit for bit.
func TestElasticMembership(t *testing.T) {
	data := testkit.Samples(t, t.TempDir(), records())
	each(t, func(t *testing.T, seed uint64) {
		m := modelOf(t, seed)
		plan := append([]disturbance{{what: "scale to", whom: "4"}},
			draw(seed, *faults, rounds(), 4, 2, func(k kind, whom string) bool { return whom != "coordinator" && whom != "etcd" })...)
		out := newRig(t).run(m, spec(2, 4, job.Mode_SYNC), data, plan)
		checkLedger(t, out.details.Ledger, data, 0)
		saved := testkit.Saved(t, out.saved, m.Program)
		var err error
		for _, trainers := range trainersByRound(t, out.steps) {
			scope, _ := undisturbed(t, m, data, func(round uint64) int { return trainers[round] })
			if err = testkit.Difference(saved, testkit.Persistables(scope, m.Program)); err == nil {
				return
			}
		}
		t.Errorf("the parameters are not those of as many trainers in each round: %v", err)
	})
}

// twice bounds the records that an async job trains more than once, in all passes: a batch for each trainer that is lost. Each fault loses at most
// one trainer, unless it hits what all three of them need.
func twice() int64 { return int64(*faults) * 3 * batch }

// lossBound is how far the loss of what an async run saves may be above that of an undisturbed one.
const lossBound = 1.1

// annealed is a rate that is small at the end of a job. At one rate all along, where a job arrives is a matter of what it trains last: on one
// machine, and every record once, orders of the records alone make a final loss of up to 1.5 times the median.
func annealed() *optimizer.Optimizer {
	n := int(rounds())
	return optimizer.SGD(optimizer.Piecewise([]int{n * 70 / 100, n * 85 / 100}, []float64{0.02, 0.004, 0.0008}))
}

// An async job hands the records of a lost trainer to others. It trains no record less than once, few more than once, and arrives where an
// undisturbed run arrives.
func TestAsync(t *testing.T) {
	m := model(t, annealed())
	data := testkit.Samples(t, t.TempDir(), records())
	calm := newRig(t).run(m, spec(3, 3, job.Mode_ASYNC), data, nil)
	checkLedger(t, calm.details.Ledger, data, 0)
	want := lossOf(t, m, data, calm.saved)
	each(t, func(t *testing.T, seed uint64) {
		out := newRig(t).run(m, spec(3, 3, job.Mode_ASYNC), data, draw(seed, *faults, rounds(), 3, 2, anyButScale))
		checkLedger(t, out.details.Ledger, data, twice())
		got := lossOf(t, m, data, out.saved)
		t.Logf("the loss ends at %v, undisturbed at %v", got, want)
		if !(got <= want*lossBound) {
			t.Errorf("the loss ends at %v, undisturbed at %v", got, want)
		}
	})
}

// The parameters themselves count what was applied to them: of each record the update of every pass, and of few records one more.
func TestAsyncUpdates(t *testing.T) {
	m, data := counting(t, records())
	each(t, func(t *testing.T, seed uint64) {
		out := newRig(t).run(m, spec(3, 3, job.Mode_ASYNC), data, draw(seed, *faults, rounds(), 3, 2, anyButScale))
		checkLedger(t, out.details.Ledger, data, twice())
		checkCounted(t, out, m)
	})
}

// Pservers of async jobs are lost and change their number, and the store of checkpoints fails, beside all that happens to other roles. Jobs with standbys, with
// checkpoints or with both, as the seed says, apply the updates of every record in every pass, and of few records one more.
func TestAsyncServers(t *testing.T) {
	const more = 3
	m, data := counting(t, more*records())
	each(t, func(t *testing.T, seed uint64) {
		standby, saved := seed%3 > 0, seed%3 < 2
		s := spec(2, 2, job.Mode_ASYNC)
		r := newRig(t)
		if standby {
			s.Standby = 1
		}
		if saved {
			s.Checkpoints = &job.Checkpoints{Rounds: max(1, rounds()/50)}
			s.Checkpoints.Store, r.suffers = failingStore(t)
		}
		plan := drawOf(slices.Concat(serverKinds, serverKinds, kinds), seed, *faults, more*rounds(), 2, 2, func(k kind, _ string) bool {
			return !k.scales && (standby || !k.standbys) && (saved || !k.store)
		})
		out := r.run(m, s, data, plan)
		t.Logf("standby %v, checkpoints %v: %d of %d disturbances happened", standby, saved, out.hits, len(plan))
		checkLedger(t, out.details.Ledger, data, twice())
		checkCounted(t, out, m)
	})
}

// checkCounted checks that a job has applied the update of each record in each pass, and few of them once more.
func checkCounted(t *testing.T, out outcome, m testkit.Model) {
	t.Helper()
	more := int64(0)
	for record, updates := range testkit.Saved(t, out.saved, m.Program)["updates"].Float32s() {
		if updates != float32(int64(updates)) || updates < passes {
			t.Fatalf("record %d was applied %v times, want %d or more", record, updates, passes)
		}
		more += int64(updates) - passes
	}
	t.Logf("%d updates of a record were applied twice", more)
	if more > twice() {
		t.Errorf("%d updates of a record were applied twice, want at most %d", more, twice())
	}
}

// counting is a model of one parameter, "updates", with an element for each of so many records, and the records. A step adds one to those of its batch, whatever
// their values, so that neither the order of the updates nor their age matters.
func counting(t testing.TB, records int) (testkit.Model, map[string][]string) {
	t.Helper()
	data := testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id}
	})
	m := layers.NewModel()
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), batch)))
	updates := layers.Embedding(v[0], int64(records), 1, layers.Param(layers.ParamAttr{Name: "updates", Initializer: layers.Constant(0)}))
	loss := layers.ReduceSum(layers.Scale(updates, -1, 0), layers.Name("loss"))
	optimizer.SGD(1).Minimize(loss)
	return testkit.Built(t, m, loss), data
}

// inOrder is a model that does not shuffle: what is owed of a pass is less scattered, and no segment of it begins before the end of the pass.
func inOrder(t testing.TB) testkit.Model {
	t.Helper()
	return testkit.Reading(t, batch, momentum())
}

// lossOf is the mean loss over all records of the parameters that a job has saved.
func lossOf(t *testing.T, m testkit.Model, data map[string][]string, saved string) float64 {
	t.Helper()
	e := executor.New()
	defer e.Close()
	sum, rows := 0.0, int64(0)
	_, err := e.Train(bounded(t), m.Program.CloneForTest(), executor.TrainOptions{Data: data, Passes: 1, Params: saved, Fetch: []string{m.Loss}},
		func(r executor.StepResult) error {
			sum += float64(testkit.Loss(t, r.Fetched[0])) * float64(r.Rows)
			rows += r.Rows
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return sum / float64(rows)
}
