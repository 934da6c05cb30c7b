package remote_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// The law across a cut: whatever the program, its tables and its data, a job that goes on from any checkpoint of another job, on a cluster of any other shape,
// ends with the bits of a job that was never interrupted. Only the number of trainers enters, as it does in the law itself: it groups sums.
// Distributed tables are among the parameters; elsewhere they were saved apart from the rest (PaddlePaddle/Paddle#11410).
func TestLawOfResumedJobs(t *testing.T) {
	checkResumedJobs(t)
}

// Keys of tables that grow have the same rows with the same bits on any other shape of cluster.
func TestLawOfResumedJobsWithTablesThatGrow(t *testing.T) {
	checkResumedJobs(t, keysName)
}

// checkResumedJobs checks the law for models of which one of kinds goes in, if there are any.
func checkResumedJobs(t *testing.T, kinds ...string) {
	l := listener(t)
	rapid.Check(t, func(r *rapid.T) {
		buffer, size := rapid.SampledFrom([]int{0, 7, 1000}).Draw(r, "shuffle"), rapid.IntRange(1, 20).Draw(r, "batch")
		s := drawModel(r, func(reader layers.Reader) layers.Reader {
			if buffer > 0 {
				reader = layers.Shuffle(reader, buffer, 11)
			}
			return layers.Batch(reader, size)
		}, kinds...)
		first, second := drawCluster(r, s), drawCluster(r, s)
		// What is rounded is part of the result. Residuals of topk are in no checkpoint.
		first.CompressGradients = rapid.SampledFrom([]string{"none", "bf16", "fp16"}).Draw(r, "rounded gradients")
		first.MergeHosts, second.MergeHosts = false, second.MergeHosts && first.CompressGradients == "none" && first.CompressParameters == "none"
		second.CompressGradients, second.CompressParameters = first.CompressGradients, first.CompressParameters
		second.DayRounds = first.DayRounds
		dir := scratch(r)
		first.Checkpoints = &job.Checkpoints{Store: filepath.Join(dir, "cuts"), Rounds: rapid.Uint64Range(1, 7).Draw(r, "every"), Keep: 100}
		data := testkit.Records(r, dir, rapid.IntRange(1, 45).Draw(r, "records"), func(i int) []*tensor.Tensor {
			var sample []*tensor.Tensor
			for k, in := range s.inputs {
				sample = append(sample, in.sample(r, k, i))
			}
			return sample
		})
		c := interrupted{l: l, subject: s, first: first, second: second, data: data, dir: dir,
			cuts: rapid.IntRange(1, 3).Draw(r, "checkpoints"), from: rapid.IntRange(0, 99).Draw(r, "the one to go on from"),
			more: rapid.IntRange(1, 2).Draw(r, "more passes")}
		if err := c.check(); err != nil {
			r.Fatal(err)
		}
	})
}

// interrupted is a job that is stopped when it has some checkpoints, and another one that goes on from one of them.
type interrupted struct {
	l             *remote.Listener
	subject       subject
	first, second *remote.JobSpec
	data          map[string][]string
	dir           string
	cuts, from    int
	more          int // passes that the second job trains after the pass in which the first one stopped
}

func (c *interrupted) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store := c.first.Checkpoints.Store
	passes := 0
	_, err := c.train(ctx, c.first, executor.TrainOptions{Passes: 100000}, func(r executor.StepResult) error {
		if passes = r.Pass + 1 + c.more; len(complete(ctx, store)) < c.cuts {
			return nil
		}
		return executor.ErrStop
	})
	if err != nil {
		return fmt.Errorf("the first job: %w", err)
	}
	list := complete(ctx, store)
	from := list[c.from%len(list)]
	c.second.Resume = store + "@" + from.Name
	run := executor.TrainOptions{Passes: passes, Save: filepath.Join(c.dir, "saved")}
	next := from.Steps
	summary, err := c.train(ctx, c.second, run, func(r executor.StepResult) error {
		if r.Step != next {
			return fmt.Errorf("step %d, want %d", r.Step, next)
		}
		next++
		return nil
	})
	if err != nil {
		return fmt.Errorf("from step %d: %w", from.Steps, err)
	}
	oracle, err := oracleFor(c.subject.Program, c.second)
	if err != nil {
		return err
	}
	defer oracle.Close()
	oracle.Vary(func(round uint64) int {
		if round < from.Steps {
			return int(c.first.Trainers)
		}
		return int(c.second.Trainers)
	})
	oracle.Devices(func(round uint64) int {
		if round < from.Steps {
			return int(c.first.Devices)
		}
		return int(c.second.Devices)
	})
	want, err := oracle.Train(ctx, c.subject.Program, executor.TrainOptions{Data: c.data, Passes: passes}, nil)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	if steps := from.Steps + summary.Steps; steps != want.Steps || next != steps {
		return fmt.Errorf("the job that goes on from step %d ends after step %d, and has told of %d; want %d", from.Steps, steps, next, want.Steps)
	}
	err = testkit.Difference(testkit.Saved(panics{}, run.Save, c.subject.Program), testkit.Persistables(oracle.Scope(), c.subject.Program))
	if err != nil {
		return fmt.Errorf("from step %d of %d: %w", from.Steps, want.Steps, err)
	}
	return nil
}

func (c *interrupted) train(ctx context.Context, spec *remote.JobSpec, run executor.TrainOptions, each func(executor.StepResult) error) (executor.Summary, error) {
	e, err := remote.NewExecutor(c.l.Address(), spec)
	if err != nil {
		return executor.Summary{}, err
	}
	defer e.Close()
	run.Data = c.data
	return e.Train(ctx, c.subject.Program, run, each)
}
