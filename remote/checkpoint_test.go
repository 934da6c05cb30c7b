package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/tensor"
)

// kept are the complete checkpoints in a folder, the newest first.
func kept(t *testing.T, dir string) []checkpoint.Entry {
	t.Helper()
	return complete(t.Context(), dir)
}

func complete(ctx context.Context, dir string) []checkpoint.Entry {
	store, err := checkpoint.Open(ctx, dir)
	if err != nil {
		panic(err)
	}
	defer store.Close()
	all, err := store.List(ctx)
	if err != nil {
		panic(err)
	}
	return slices.DeleteFunc(all, func(e checkpoint.Entry) bool { return !e.Complete })
}

// A job that goes on from any checkpoint of another one, with other numbers of pservers and trainers, ends as if nothing had happened: with its accumulators,
// its schedule, its place in the data, and as many passes in all. It is the same job to who follows it: its first step has the number and the pass that come
// after the checkpoint.
//
// These are what users of other systems report to be missing or wrong: parameters that are loaded in distributed training (PaddlePaddle/Paddle#15154), another
// number of servers (tensorflow/tensorflow#38514, Angel-ML/angel#901, meta-pytorch/torchrec#2534), and a job that is restored and begins with its first pass
// all the same (ray-project/ray#46814).
func TestResumeInAnotherShape(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Adam(optimizer.Exponential(0.02, 3, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	const perPass = 5 // batches of 70 records
	data, dir := testkit.Samples(t, t.TempDir(), 70), t.TempDir()
	l := listener(t)
	passes := 0 // of the first job, when it has some checkpoints
	saves := &remote.JobSpec{Trainers: 2, Pservers: 3, MinBlockSize: 4, Checkpoints: &job.Checkpoints{Store: dir, Rounds: 2, Keep: 100}}
	_, err := executorOf(t, l, saves).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000}, func(r executor.StepResult) error {
		if passes = r.Pass + 2; len(kept(t, dir)) < 4 {
			return nil
		}
		return executor.ErrStop
	})
	if err != nil {
		t.Fatal(err)
	}
	train := func(spec *remote.JobSpec, passes int) (saved string, first *executor.StepResult, err error) {
		saved = t.TempDir()
		_, err = executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes, Save: saved}, func(r executor.StepResult) error {
			if first == nil {
				first = &r
			}
			return nil
		})
		return saved, first, err
	}
	list := kept(t, dir)
	for i, e := range list[:4] {
		spec := &remote.JobSpec{Trainers: int32(2 + i%3), Pservers: int32(1 + i), MinBlockSize: 4, NoSlice: i == 1, Resume: dir + "@" + e.Name}
		what := fmt.Sprintf("from step %d with %d trainers and %d pservers", e.Steps, spec.Trainers, spec.Pservers)
		saved, first, err := train(spec, passes)
		if err != nil {
			t.Fatal(what, err)
		}
		if first.Step != e.Steps || first.Pass != int(e.Steps/perPass) || first.Repeated {
			t.Errorf("%s: the first step is %d of pass %d, repeated: %v", what, first.Step, first.Pass, first.Repeated)
		}
		want, err := reference.New(m.Program, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		want.Vary(func(round uint64) int {
			if round < e.Steps {
				return 2
			}
			return int(spec.Trainers)
		})
		if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: passes}, nil); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	done := &remote.JobSpec{Trainers: 2, Pservers: 1, Resume: dir}
	if first := int(list[0].Steps / perPass); first > 0 {
		if _, _, err := train(done, first); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "passes are done") {
			t.Errorf("a job of %d passes from step %d: %v", first, list[0].Steps, err)
		}
	}
	for _, bad := range []*remote.JobSpec{{Resume: dir + "@99999999"}, {Checkpoints: &job.Checkpoints{}}} {
		if _, _, err := train(bad, 1); !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// A job that loses a pserver goes back to its last checkpoint, and ends with the bits of the undisturbed job. Each record counts once. Only the pserver that
// was lost is another process.
//
// Elsewhere this is planned in stages (PaddlePaddle/Paddle#10376: servers that save, servers that restore, trainers that connect again and know their place in
// the data), closed unsolved (sql-machine-learning/elasticdl#390), or the job begins again beside its checkpoints (ray-project/kuberay#2155).
func TestLostServerGoesBack(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]serverLoss{
		"one":                  {kill: []string{"pserver-1"}},
		"that of the ledger":   {kill: []string{"pserver-0"}},
		"damaged":              {kill: []string{"pserver-1"}, damaged: true},
		"twice":                {kill: []string{"pserver-1"}, times: 2},
		"all":                  {kill: []string{"pserver-0", "pserver-1"}},
		"with the coordinator": {kill: []string{"pserver-1", "coordinator"}, restarts: true},
		"one with tables":      {kill: []string{"pserver-1"}, model: tables},
	} {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "with the coordinator", "one with tables")
			loseServers(t, loss)
		})
	}
}

// A serverLoss says which roles are killed when there are two checkpoints.
type serverLoss struct {
	kill     []string
	damaged  bool                                                  // the newer checkpoint is
	times    int                                                   // how often they are killed; 0: once
	restarts bool                                                  // all roles may start again
	model    func(*testing.T) (testkit.Model, map[string][]string) // nil: dense
}

func (r *rig) pids(names ...string) (pids []int) {
	for _, name := range names {
		pids = append(pids, r.handle(name).Pid())
	}
	return pids
}

func loseServers(t *testing.T, loss serverLoss) {
	if loss.model == nil {
		loss.model = dense
	}
	m, data := loss.model(t)
	dir, save := t.TempDir(), t.TempDir()
	r := newRig(t)
	spec := shortLived()
	spec.Checkpoints = &job.Checkpoints{Store: dir, Rounds: 2}
	others := slices.DeleteFunc([]string{"coordinator", "pserver-0", "pserver-1", "trainer-0", "trainer-1"},
		func(name string) bool { return slices.Contains(loss.kill, name) })
	killed, attempt, again, passes := uint64(0), 0, 0, 0
	var before, after []int
	next := uint64(0)
	l := r.listener()
	e := executorOf(t, l, spec)
	_, err := e.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 100000, Save: save},
		func(s executor.StepResult) error {
			list := kept(t, dir)
			if s.Resumed != (s.Attempt != attempt) {
				t.Errorf("step %d of attempt %d follows one of attempt %d, resumed: %v", s.Step, s.Attempt, attempt, s.Resumed)
			}
			if s.Attempt != attempt {
				if s.Step > killed+1 || !s.Repeated && s.Step <= killed {
					t.Errorf("after step %d attempt %d goes on with step %d, repeated: %v", killed, s.Attempt, s.Step, s.Repeated)
				}
				attempt, next = s.Attempt, s.Step
			}
			if s.Step != next {
				t.Errorf("attempt %d has step %d, want %d", s.Attempt, s.Step, next)
			}
			next++
			switch {
			case again < max(1, loss.times) && len(list) > 1 && s.Step > killed+3:
				before = append(before[:0], r.pids(others...)...)
				again, killed = again+1, s.Step
				if loss.damaged {
					if err := os.WriteFile(filepath.Join(dir, list[0].Name, "shard-1"), []byte("damaged"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				for _, name := range loss.kill {
					r.signal(name, syscall.SIGKILL)
				}
			case s.Attempt >= max(1, loss.times) && s.Step > killed+5 && (s.Step+1)%5 == 0:
				after, passes = r.pids(others...), s.Pass+1
				return executor.ErrStop
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if !loss.restarts && !slices.Equal(before, after) {
		t.Errorf("%v were the processes %v, and are %v after %v were lost", others, before, after, loss.kill)
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

// What cannot be saved at the end is in a last checkpoint, and the error says so.
func TestStateThatCannotBeSavedIsCut(t *testing.T) {
	m := testkit.Reading(t, 16, optimizer.Adam(0.02))
	data := testkit.Samples(t, t.TempDir(), 70)
	for name, mode := range map[string]job.Mode{"sync": job.Mode_SYNC, "async": job.Mode_ASYNC} {
		t.Run(name, func(t *testing.T) {
			dir, save := t.TempDir(), filepath.Join(t.TempDir(), "saved")
			l := listener(t)
			spec := &remote.JobSpec{Name: "late", Mode: mode, Trainers: 2, Pservers: 2, MinBlockSize: 4, Checkpoints: &job.Checkpoints{Store: dir, Rounds: 100000}}
			_, err := executorOf(t, l, spec).Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 3, Save: save}, func(executor.StepResult) error {
				return errors.Join(os.RemoveAll(save), os.WriteFile(save, nil, 0o600)) // is no directory
			})
			list := kept(t, dir)
			if len(list) != 1 {
				t.Fatalf("%d checkpoints after %v", len(list), err)
			}
			if mode == job.Mode_SYNC && list[0].Steps != 15 {
				t.Errorf("the last checkpoint has %d steps", list[0].Steps)
			}
			hint := fmt.Sprintf("edl checkpoint export %s@%s -o DIR", dir, list[0].Name)
			var f *fault.Fault
			if !errors.As(err, &f) || !strings.Contains(err.Error()+f.Hint, hint) {
				t.Errorf("%v, want %s", err, hint)
			}
			client, err := remote.Dial(t.Context(), l.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if answer, err := client.Why(t.Context(), "late"); err != nil || !strings.Contains(answer.GetStatus().String(), hint) {
				t.Errorf("the failed job: %v, %v", answer, err)
			}
			if mode == job.Mode_ASYNC {
				return
			}
			want, err := reference.New(m.Program, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if _, err := want.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 3}, nil); err != nil {
				t.Fatal(err)
			}
			c, err := checkpoint.Find(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for name, w := range testkit.Persistables(want.Scope(), m.Program) {
				got := w.Clone()
				if err := c.Load(t.Context(), name, 0, got); err != nil {
					t.Error(err)
				} else if err := testkit.Difference(map[string]*tensor.Tensor{name: got}, map[string]*tensor.Tensor{name: w}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
