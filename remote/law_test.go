package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// drawCluster draws the shape of a synchronous cluster.
func drawCluster(t *rapid.T, s subject) *remote.JobSpec {
	transport := job.Transport(rapid.IntRange(0, len(job.Transport_name)-1).Draw(t, "transport"))
	spec := &remote.JobSpec{
		MergeHosts:    rapid.Bool().Draw(t, "merge hosts") && transport != job.Transport_GRPC && !s.sparse,
		Trainers:      rapid.Int32Range(1, 4).Draw(t, "trainers"),
		Devices:       rapid.Int32Range(1, 3).Draw(t, "devices"),
		Pservers:      rapid.Int32Range(1, 4).Draw(t, "pservers"),
		MinBlockSize:  rapid.SampledFrom([]int64{1, 2, 5, 12, 8192}).Draw(t, "min block"),
		NoSlice:       rapid.IntRange(0, 9).Draw(t, "no slice") == 0,
		SplitMethod:   rapid.SampledFrom([]string{transpiler.RoundRobin, transpiler.HashName}).Draw(t, "split method"),
		Workers:       rapid.Int32Range(1, 2).Draw(t, "workers"),
		Transport:     transport,
		DayRounds:     rapid.Int64Range(1, 4).Draw(t, "rounds of a day"),
		RoundDeadline: durationpb.New(patience),
		NoFiniteCheck: true, // a random model may diverge; then it does so everywhere

		CompressGradients:  rapid.SampledFrom([]string{"none", "bf16", "fp16", "topk:0.25:1", "topk:0.01:1"}).Draw(t, "gradients"),
		CompressParameters: rapid.SampledFrom([]string{"none", "bf16", "fp16"}).Draw(t, "parameters"),
	}
	if spec.MergeHosts {
		spec.CompressGradients, spec.CompressParameters = "none", "none"
	}
	if s.distributed {
		spec.CompressParameters = "none"
	}
	return spec
}

// oracleFor is the reference executor that trains as a cluster of a spec does.
func oracleFor(p *program.Program, spec *remote.JobSpec) (*reference.Executor, error) {
	e, err := reference.New(p, int(spec.Trainers), executor.WithDayRounds(spec.DayRounds))
	if err != nil {
		return nil, err
	}
	e.Devices(func(uint64) int { return int(spec.Devices) })
	if strings.HasPrefix(spec.CompressGradients, "topk") { // from each slice by itself
		cut, err := transpiler.Transpile(context.Background(), p, transpiler.Config{Trainers: int(spec.Trainers), PServers: int(spec.Pservers),
			Mode: map[job.Mode]transpiler.Mode{job.Mode_ASYNC: transpiler.Async}[spec.Mode], MinBlockSize: spec.MinBlockSize, NoSlice: spec.NoSlice,
			SplitMethod: spec.SplitMethod, CompressGradients: spec.CompressGradients})
		if err != nil {
			return nil, err
		}
		e.Slice(cut.Placement.Rows)
	}
	return e, e.Compress(spec.CompressGradients, spec.CompressParameters)
}

// The law: whatever the program, the cluster and the batches, a synchronous job that is fed computes every value that the reference computes, bit for
// bit.
func TestLawOfFedJobs(t *testing.T) {
	l := listener(t)
	rapid.Check(t, func(r *rapid.T) {
		s := drawModel(r, nil)
		spec := drawCluster(r, s)
		batches := rapid.SliceOfN(rapid.Int64Range(1, 9), 1, 4).Draw(r, "rows")
		spec.Save = scratch(r)
		want, err := oracleFor(s.Program, spec)
		if err != nil {
			r.Fatal(err)
		}
		defer want.Close()
		if err := checkFedLaw(l, s, spec, batches, want); err != nil {
			r.Fatal(err)
		}
	})
}

// A job of one trainer computes what this machine alone computes, in async mode too. What compresses equals the reference of one trainer.
func TestLawOfOneTrainer(t *testing.T) {
	l := listener(t)
	rapid.Check(t, func(r *rapid.T) {
		s := drawModel(r, nil)
		spec := drawCluster(r, s)
		spec.Trainers, spec.Mode, spec.Save = 1, rapid.SampledFrom([]job.Mode{job.Mode_SYNC, job.Mode_ASYNC}).Draw(r, "mode"), scratch(r)
		spec.MergeHosts = spec.MergeHosts && spec.Mode == job.Mode_SYNC
		if s.inputs[0].name == keysName && clipsByGlobalNorm(s.Program) { // which trainers of async jobs would do, that know no rows of keys
			spec.Mode = job.Mode_SYNC
		}
		if spec.Mode == job.Mode_ASYNC && clipsByGlobalNorm(s.Program) { // a trainer clips before it rounds, where the reference rounds first as in sync mode
			spec.CompressGradients = "none"
			if s.sparse { // which devices cannot clip
				spec.Devices = 1
			}
		}
		var want oracle = executor.New(executor.WithoutFiniteCheck())
		if compresses := []string{spec.CompressGradients, spec.CompressParameters}; spec.Devices > 1 || !slices.Equal(compresses, []string{"none", "none"}) {
			reference, err := oracleFor(s.Program, spec)
			if err != nil {
				r.Fatal(err)
			}
			want = reference
		}
		defer want.Close()
		if err := checkFedLaw(l, s, spec, rapid.SliceOfN(rapid.Int64Range(1, 9), 1, 4).Draw(r, "rows"), want); err != nil {
			r.Fatal(err)
		}
	})
}

// clipsByGlobalNorm reports whether gradients are scaled by a norm of all of them.
func clipsByGlobalNorm(p *program.Program) bool {
	return slices.ContainsFunc(p.Global().Ops, func(op *program.Op) bool { return op.Type == "squared_l2_norm" })
}

// An oracle computes on this machine what a job must compute.
type oracle interface {
	executor.Executor
	Scope() *executor.Scope
}

// scratch is a directory that ends with a case.
func scratch(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "law-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// checkFedLaw trains batches of the given numbers of rows on a cluster and by the oracle,
// and returns the first difference in what is fetched or saved.
func checkFedLaw(l *remote.Listener, s subject, spec *remote.JobSpec, batches []int64, oracle oracle) error {
	ctx, cancel := context.WithTimeout(context.Background(), sized(20*time.Minute, patience))
	defer cancel()
	cluster, err := remote.NewExecutor(l.Address(), spec)
	if err != nil {
		return err
	}
	defer cluster.Close()
	for step, rows := range batches {
		feed := testkit.Batch(panics{}, s.Program, uint64(step), rows)
		want, err := oracle.Run(ctx, s.Program, feed, s.fetch...)
		if err != nil {
			return fmt.Errorf("oracle, step %d: %w", step, err)
		}
		got, err := cluster.Run(ctx, s.Program, feed, s.fetch...)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if err := testkit.Difference(named(s.fetch, got), named(s.fetch, want)); err != nil {
			return fmt.Errorf("fetched in step %d of %d rows: %w", step, rows, err)
		}
	}
	if err := cluster.Close(); err != nil {
		return err
	}
	return testkit.Difference(testkit.Saved(panics{}, spec.Save, s.Program), testkit.Persistables(oracle.Scope(), s.Program))
}

// named gives fetched values their names.
func named(names []string, values []*tensor.Tensor) map[string]*tensor.Tensor {
	all := map[string]*tensor.Tensor{}
	for i, name := range names {
		all[name] = values[i]
	}
	return all
}

// panics is the testkit.TB of code that has no test at hand; rapid reports a panic as it reports a failure.
type panics struct{}

func (panics) Helper()                           {}
func (panics) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// The law for jobs that read their own data: shuffled, in batches that the files do not fill, over several passes.
func TestLawOfReadingJobs(t *testing.T) {
	l := listener(t)
	rapid.Check(t, func(r *rapid.T) {
		buffer, size, doubled := rapid.SampledFrom([]int{0, 7, 1000}).Draw(r, "shuffle"), rapid.IntRange(1, 20).Draw(r, "batch"),
			rapid.Bool().Draw(r, "double buffer")
		s := drawModel(r, func(reader layers.Reader) layers.Reader {
			if buffer > 0 {
				reader = layers.Shuffle(reader, buffer, 11)
			}
			if reader = layers.Batch(reader, size); doubled {
				reader = layers.DoubleBuffer(reader)
			}
			return reader
		})
		spec := drawCluster(r, s)
		spec.RecordsPerTask = rapid.SampledFrom([]int64{0, 1, 7, 100}).Draw(r, "records per task")
		dir := scratch(r)
		data := testkit.Records(r, dir, rapid.IntRange(1, 45).Draw(r, "records"), func(i int) []*tensor.Tensor {
			var sample []*tensor.Tensor
			for k, in := range s.inputs {
				sample = append(sample, in.sample(r, k, i))
			}
			return sample
		})
		run := executor.TrainOptions{Data: data, Passes: rapid.IntRange(1, 3).Draw(r, "passes"), Fetch: s.fetch}
		if err := checkReadingLaw(l, s, spec, run, dir, drawServers(r)); err != nil {
			r.Fatal(err)
		}
	})
}

// drawServers draws a schedule: to how many pservers a job changes after which steps.
func drawServers(t *rapid.T) map[int]int32 {
	return rapid.MapOfN(rapid.IntRange(1, 12), rapid.Int32Range(1, 4), 0, 3).Draw(t, "pservers after steps")
}

// changeServers changes the number of pservers of the job of an executor that runs. A job that is about to end may refuse.
func changeServers(ctx context.Context, e *remote.Executor, servers int32) error {
	jobs, err := e.Client().Jobs(ctx)
	if err != nil {
		return err
	}
	_, err = remote.ScaleServers(ctx, e.Client(), jobs[len(jobs)-1].Job, int(servers))
	if errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unsupported) {
		return nil
	}
	return err
}

// checkReadingLaw trains a dataset on a cluster, whose number of pservers changes, and by the reference, and returns the first difference in the steps or in what is saved.
func checkReadingLaw(l *remote.Listener, s subject, spec *remote.JobSpec, run executor.TrainOptions, dir string, servers map[int]int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	oracle, err := oracleFor(s.Program, spec)
	if err != nil {
		return err
	}
	defer oracle.Close()
	cluster, err := remote.NewExecutor(l.Address(), spec)
	if err != nil {
		return err
	}
	defer cluster.Close()
	var want []executor.StepResult
	wantSummary, err := oracle.Train(ctx, s.Program, run, func(r executor.StepResult) error {
		want = append(want, r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	run.Save = filepath.Join(dir, "saved")
	steps := 0
	summary, err := cluster.Train(ctx, s.Program, run, func(r executor.StepResult) error {
		w := want[steps]
		steps++
		if r.Step != w.Step || r.Pass != w.Pass || r.Rows != w.Rows {
			return fmt.Errorf("step %d of pass %d with %d rows, want step %d of pass %d with %d", r.Step, r.Pass, r.Rows, w.Step, w.Pass, w.Rows)
		}
		if err := testkit.Difference(named(s.fetch, r.Fetched), named(s.fetch, w.Fetched)); err != nil {
			return fmt.Errorf("fetched in step %d of %d rows: %w", r.Step, r.Rows, err)
		}
		if n := servers[steps]; n > 0 {
			return changeServers(ctx, cluster, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	wantSummary.Elapsed, summary.Elapsed = 0, 0
	if summary != wantSummary {
		return fmt.Errorf("%+v, want %+v", summary, wantSummary)
	}
	return testkit.Difference(testkit.Saved(panics{}, run.Save, s.Program), testkit.Persistables(oracle.Scope(), s.Program))
}
