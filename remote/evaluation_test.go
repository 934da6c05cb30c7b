package remote_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/jobspec"
)

// A judgedJob trains a model on some records, and is evaluated on others.
type judgedJob struct {
	model testkit.Model
	run   executor.TrainOptions
	spec  *job.Evaluation
}

// Records and rows of a batch of a judged job: the last batch of a pass is smaller, here and of the held-back data.
const (
	judgedRecords  = 60
	heldBack       = 45
	judgedBatch    = 8
	judgedPasses   = 3
	judgedEachPass = (judgedRecords + judgedBatch - 1) / judgedBatch
)

func judged(t *testing.T, every uint64, waits bool) judgedJob {
	t.Helper()
	m := testkit.Reading(t, judgedBatch, optimizer.Momentum(0.05, 0.9))
	p, err := m.Program.CloneForTest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	spec := &job.Evaluation{Program: p, Every: every, Loss: m.Loss, Waits: waits}
	for _, name := range []string{testkit.Dataset} {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: testkit.Samples(t, t.TempDir(), heldBack)[name]})
	}
	return judgedJob{m, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), judgedRecords), Passes: judgedPasses, Ahead: -1}, spec}
}

// outcome is an evaluation as a test compares it: every bit of its numbers.
func outcome(step uint64, rows int64, values []*job.MetricValue) string {
	text := fmt.Sprintf("step %d, %d rows", step, rows)
	for _, v := range values {
		text += fmt.Sprintf(", %s %016x", v.Name, math.Float64bits(v.Value))
	}
	return text
}

// want is the outcomes of one machine that trains as so many trainers do, up to a step.
func (j judgedJob) want(t *testing.T, trainers int, last uint64) []string {
	t.Helper()
	return j.wantOf(t, func(uint64) int { return trainers }, last)
}

// wantOf is want for a number of trainers that changes with the round.
func (j judgedJob) wantOf(t *testing.T, trainers func(round uint64) int, last uint64) (out []string) {
	t.Helper()
	oracle, err := reference.New(j.model.Program, 1)
	if err != nil {
		t.Fatal(err)
	}
	oracle.Vary(trainers)
	defer oracle.Close()
	tests := executor.New(executor.WithScope(oracle.Scope().NewChild()))
	defer tests.Close()
	p := j.model.Program.CloneForTest()
	run := j.run
	run.Save = ""
	_, err = oracle.Train(bounded(t), j.model.Program, run, func(s executor.StepResult) error {
		n := s.Step + 1
		if j.spec.Every == 0 && n%judgedEachPass != 0 || j.spec.Every > 0 && n%j.spec.Every != 0 && n != uint64(judgedEachPass*j.run.Passes) {
			return nil
		}
		score, err := jobspec.EvaluationScore(j.spec)
		if err != nil {
			return err
		}
		data := executor.TrainOptions{Data: jobspec.EvaluationData(j.spec), Passes: 1, Fetch: score.Names()}
		if _, err := tests.Train(bounded(t), p, data, func(s executor.StepResult) error { return score.Add(s.Rows, s.Fetched) }); err != nil {
			return err
		}
		results, err := score.Results()
		if err != nil {
			return err
		}
		var values []*job.MetricValue
		for _, r := range results {
			values = append(values, &job.MetricValue{Name: r.Name, Value: r.Value})
		}
		if out = append(out, outcome(s.Step, score.Rows(), values)); s.Step == last {
			return executor.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const noLast = math.MaxUint64

// The trainers of a sync job evaluate to the bits of one machine, however many they are, after passes and after steps, and whether the job waits for its follower or not.
func TestTrainersEvaluate(t *testing.T) {
	l := listener(t)
	for _, c := range []struct {
		trainers, devices int32
		every             uint64
		waits             bool
	}{{1, 1, 0, false}, {2, 1, 0, true}, {3, 1, 5, false}, {1, 2, 4, true}, {4, 1, 1, false}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			j := judged(t, c.every, c.waits)
			e := executorOf(t, l, &remote.JobSpec{Trainers: c.trainers, Devices: c.devices, Pservers: 2, MinBlockSize: 4})
			var got []string
			steps := uint64(0)
			e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
				if v.Step+1 != steps {
					t.Errorf("the evaluation after step %d is told behind %d steps", v.Step, steps)
				}
				got = append(got, outcome(v.Step, v.Records, v.Values))
				return nil
			})
			_, err := e.Train(bounded(t), j.model.Program, j.run, func(s executor.StepResult) error { steps = s.Step + 1; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if want := j.want(t, int(c.trainers*c.devices), noLast); !slices.Equal(got, want) {
				t.Errorf("the job is evaluated to %q\nwant %q", got, want)
			}
		})
	}
}

// A job that is submitted is evaluated, too. It keeps no state, so it outlives its listener, and whoever attaches to it is told the same outcomes.
func TestSubmittedJobsAreEvaluated(t *testing.T) {
	j := judged(t, 5, false)
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
	var got, attached []string
	e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
		got = append(got, outcome(v.Step, v.Records, v.Values))
		return nil
	})
	submitted, err := e.Submit(bounded(t), j.model.Program, j.run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submitted.Follow(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	again, _, err := remote.AttachJob(bounded(t), e.Client(), submitted.ID)
	if err != nil {
		t.Fatal(err)
	}
	again.OnEvaluated(func(v *job.Evaluated) error {
		attached = append(attached, outcome(v.Step, v.Records, v.Values))
		return nil
	})
	if _, err := again.Follow(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	if want := j.want(t, 2, noLast); !slices.Equal(got, want) || !slices.Equal(attached, want) {
		t.Errorf("the job is evaluated to %q, and to %q for who attaches\nwant %q", got, attached, want)
	}
	if d, err := e.Client().Show(bounded(t), submitted.ID); err != nil || d.Spec.KeepState {
		t.Errorf("%v, %v; want a job that keeps no state", d, err)
	}
}

// A job that is resumed, with another number of trainers, is evaluated from its checkpoint on as one that was never interrupted, and waits for nobody. Whoever follows it is told the steps and the outcomes
// under the numbers that they have in the whole training.
func TestResumedJobsAreEvaluated(t *testing.T) {
	for _, every := range []uint64{0, 5} {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			j := judged(t, every, true)
			j.run.Passes, j.run.Save = 10*judgedPasses, t.TempDir() // there is a checkpoint long before the end
			e := executorOf(t, listener(t, remote.WithDataDir(t.TempDir())), &remote.JobSpec{Name: "judged", Trainers: 2, Pservers: 2, MinBlockSize: 4, Checkpoints: &job.Checkpoints{Rounds: 3, Keep: 100}})
			var store string
			var got []string
			e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
				got = append(got, outcome(v.Step, v.Records, v.Values))
				d, err := e.Client().Show(bounded(t), "judged")
				if err != nil {
					return err
				}
				if store = d.Spec.Checkpoints.Store; len(got) < 2 || len(kept(t, store)) == 0 {
					return nil
				}
				return e.Client().Stop(bounded(t), "judged")
			})
			submitted, err := e.Submit(bounded(t), j.model.Program, j.run)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := submitted.Follow(bounded(t), nil); !errors.Is(err, fault.Canceled) {
				t.Fatalf("the job that was stopped: %v", err)
			}
			from := kept(t, store)[0].Steps
			again, err := remote.Resume(bounded(t), e.Client(), &rpc.ResumeJobRequest{Job: "judged", Trainers: 3})
			if err != nil {
				t.Fatal(err)
			}
			attached, _, err := remote.AttachJob(bounded(t), e.Client(), again.Job)
			if err != nil {
				t.Fatal(err)
			}
			var resumed []string
			attached.OnEvaluated(func(v *job.Evaluated) error {
				resumed = append(resumed, outcome(v.Step, v.Records, v.Values))
				return nil
			})
			if _, err := attached.Follow(bounded(t), nil); err != nil {
				t.Fatal(err)
			}
			want := j.wantOf(t, func(round uint64) int {
				if round < from {
					return 2
				}
				return 3
			}, noLast)
			before := slices.IndexFunc(want, func(o string) bool {
				var step uint64
				_, err := fmt.Sscanf(o, "step %d,", &step)
				return err == nil && step >= from
			})
			if !slices.Equal(resumed, want[before:]) {
				t.Errorf("from step %d the job is evaluated to %q\nwant %q", from, resumed, want[before:])
			}
			if first := j.want(t, 2, noLast); !slices.Equal(got, first[:len(got)]) {
				t.Errorf("until it was stopped the job is evaluated to %q\nwant %q", got, first[:len(got)])
			}
		})
	}
}

// While a job waits for its follower, the follower reads the state after that step, and ends the job with it.
func TestEvaluationEndsTraining(t *testing.T) {
	j := judged(t, 5, true)
	j.run.Save = t.TempDir()
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
	const last = 14
	read, got := t.TempDir(), []string{}
	e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
		got = append(got, outcome(v.Step, v.Records, v.Values))
		if v.Step < last {
			return nil
		}
		if err := e.Save(bounded(t), read, j.model.Program); err != nil {
			t.Error(err)
		}
		return executor.ErrStop
	})
	summary, err := e.Train(bounded(t), j.model.Program, j.run, nil)
	if err != nil || !summary.Stopped || summary.Steps != last+1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if want := j.want(t, 2, last); !slices.Equal(got, want) {
		t.Errorf("the job is evaluated to %q\nwant %q", got, want)
	}
	if err := testkit.Difference(testkit.Saved(t, read, j.model.Program), testkit.Saved(t, j.run.Save, j.model.Program)); err != nil {
		t.Errorf("what the follower has read is not what the job has saved: %v", err)
	}
	status, err := remote.FindJobs(bounded(t), e.Client(), remote.JobFilter{})
	if err != nil || len(status) != 1 || status[0].Evaluated.GetStep() != last {
		t.Errorf("%v, %v", status, err)
	}
}

// Roles that are killed while a job is evaluated change nothing: no outcome is told twice, none is left out, and each has all rows once.
func TestRolesDieWhileTrainersEvaluate(t *testing.T) {
	for _, victims := range [][]string{{"trainer-1", "trainer-0", "trainer-1"}, {"coordinator", "trainer-0", "coordinator"}} {
		t.Run(victims[0], func(t *testing.T) {
			inShort(t, victims[0], "trainer-1")
			j := judged(t, 0, true)
			r := newRig(t)
			e := executorOf(t, r.listener(), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, Lease: durationpb.New(3 * time.Second)})
			var got []string
			e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
				if victim := victims[len(got)]; len(got) < len(victims)-1 {
					began := r.handle(victim)
					r.signal(victim, syscall.SIGKILL)
					r.await("the next "+victim, func() bool { return r.handles[victim] != began })
				}
				got = append(got, outcome(v.Step, v.Records, v.Values))
				return nil
			})
			if _, err := e.Train(bounded(t), j.model.Program, j.run, nil); err != nil {
				t.Fatal(err)
			}
			if want := j.want(t, 2, noLast); !slices.Equal(got, want) {
				t.Errorf("the job is evaluated to %q\nwant %q", got, want)
			}
		})
	}
}

// Standbys that take the place of pservers while a job is evaluated change nothing either.
func TestStandbysTakeOverWhileTrainersEvaluate(t *testing.T) {
	j := judged(t, 0, true)
	spec := shortLived()
	spec.Standby = 1
	e := executorOf(t, newRig(t).listener(), spec)
	w := &watched{t: t, client: e.Client()}
	var got []string
	e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
		if got = append(got, outcome(v.Step, v.Records, v.Values)); len(got) == judgedPasses {
			return nil
		}
		await := func(what string, ok func(pids map[string]int, inStep bool) bool) (pids map[string]int) {
			ctx := bounded(t)
			for inStep := false; ; {
				if pids, inStep = w.roles(); ok(pids, inStep) {
					return pids
				}
				if ctx.Err() != nil {
					t.Fatalf("timed out waiting for %s", what)
				}
			}
		}
		victim := "pserver-" + strconv.Itoa(len(got)-1)
		began := await("standbys", func(_ map[string]int, inStep bool) bool { return inStep })
		w.kill([]string{victim}, began, syscall.SIGKILL)
		await("the next "+victim, func(pids map[string]int, _ bool) bool { return pids[victim] != 0 && pids[victim] != began[victim] })
		return nil
	})
	attempts := 0
	_, err := e.Train(bounded(t), j.model.Program, j.run, func(s executor.StepResult) error {
		attempts = max(attempts, s.Attempt)
		return nil
	})
	if err != nil || attempts > 0 {
		t.Fatalf("%v after %d attempts more", err, attempts)
	}
	if want := j.want(t, int(spec.Trainers), noLast); !slices.Equal(got, want) {
		t.Errorf("the job is evaluated to %q\nwant %q", got, want)
	}
}

// Trainers that join and leave change no outcome: each is that of one machine that trains as many trainers did in each round.
func TestTrainersComeAndGoBetweenEvaluations(t *testing.T) {
	j := judged(t, 2, true)
	j.run.Passes = 5000 // of which few are trained: the job ends when it has had all numbers of trainers
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 1, TrainersMax: 3, Pservers: 2, MinBlockSize: 4})
	var got []string
	var trainers []int // by round
	wanted := []int{1, 3, 2}
	e.EvaluateWith(j.spec, func(v *job.Evaluated) error {
		got = append(got, outcome(v.Step, v.Records, v.Values))
		if trainers[v.Step] != wanted[0] {
			return nil
		}
		if wanted = wanted[1:]; len(wanted) == 0 {
			return executor.ErrStop
		}
		jobs, err := e.Client().Jobs(bounded(t))
		if err == nil {
			_, err = e.Client().Scale(bounded(t), jobs[0].Job, wanted[0])
		}
		return err
	})
	summary, err := e.Train(bounded(t), j.model.Program, j.run, func(s executor.StepResult) error {
		trainers = append(trainers, s.Trainers)
		return nil
	})
	if err != nil || !summary.Stopped || uint64(len(trainers)) != summary.Steps {
		t.Fatalf("%+v with %d steps told, %v", summary, len(trainers), err)
	}
	if want := j.wantOf(t, func(round uint64) int { return trainers[round] }, summary.Steps-1); !slices.Equal(got, want) {
		t.Errorf("the job is evaluated to %q\nwant %q", got, want)
	}
}

// What trainers cannot evaluate is refused before anything starts, with what to do.
func TestEvaluationsThatTrainersCannotDo(t *testing.T) {
	l := listener(t)
	for name, c := range map[string]struct {
		spec   *remote.JobSpec
		change func(*job.Evaluation)
		want   string
	}{
		"async":       {&remote.JobSpec{Mode: job.Mode_ASYNC}, nil, "evaluation of an async job"},
		"backup":      {&remote.JobSpec{Trainers: 3, BackupTrainers: 1}, nil, "evaluation with backup_trainers"},
		"compressed":  {&remote.JobSpec{CompressParameters: "bf16"}, nil, "evaluation with compress_parameters bf16"},
		"no program":  {&remote.JobSpec{}, func(e *job.Evaluation) { e.Program = []byte("none") }, "the evaluation of the job"},
		"no data":     {&remote.JobSpec{}, func(e *job.Evaluation) { e.Data = nil }, "evaluation without data"},
		"no variable": {&remote.JobSpec{}, func(e *job.Evaluation) { e.Metrics = []string{"rmse=nothing,y"} }, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			j := judged(t, 0, false)
			if c.change != nil {
				c.change(j.spec)
			}
			e := executorOf(t, l, c.spec)
			e.EvaluateWith(j.spec, nil)
			_, err := e.Train(bounded(t), j.model.Program, j.run, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error about %q", err, c.want)
			}
		})
	}
}
