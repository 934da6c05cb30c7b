package chaos_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/wire"
)

// What every job under test trains.
const (
	batch  = 16
	passes = 2
)

// records is how many a job trains in each pass: enough for every disturbance to find it at work, and no multiple of the batch.
func records() int { return 1501*(*faults) + 1501 }

// rounds is how many a job has.
func rounds() uint64 { return uint64(passes * ((records() + batch - 1) / batch)) }

// model shuffles, so that a trainer which comes back must find its place in the order.
func model(t testing.TB, o *optimizer.Optimizer) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), batch)))
	hidden := layers.FC(v[0], 40, layers.Act("tanh"))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), v[1]), layers.Name("loss"))
	o.Minimize(loss)
	return testkit.Built(t, m, loss)
}

// spec is a job of these trainers, whose members are missed soon and started again as often as needed.
func spec(trainers, most int32, mode job.Mode) *remote.JobSpec {
	return &remote.JobSpec{Trainers: trainers, TrainersMax: most, Pservers: 2, MinBlockSize: 64, Mode: mode, RecordsPerTask: 100, MaxRestarts: 1000,
		Lease: durationpb.New(lease), RoundDeadline: durationpb.New(30 * time.Second), StartDeadline: durationpb.New(time.Minute)}
}

// An outcome is what a job has left behind.
type outcome struct {
	steps   []executor.StepResult // as they were seen, without what was fetched
	saved   string
	details *rpc.JobDetails
	hits    int // disturbances that happened
}

// run trains the model under a plan of disturbances.
func (r *rig) run(m testkit.Model, s *remote.JobSpec, data map[string][]string, plan []disturbance) outcome {
	t := r.t
	t.Helper()
	ctx := bounded(t)
	e, err := remote.NewExecutor(r.listener.Address(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	out := outcome{saved: filepath.Join(t.TempDir(), "saved")}
	j, err := e.Submit(ctx, m.Program, executor.TrainOptions{Data: data, Passes: passes, Fetch: []string{m.Loss}, Save: out.saved})
	if err != nil {
		t.Fatal(err)
	}
	r.job = j.ID
	watching, unwatch := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer unwatch()
	beside.Go(func() { r.redirect(watching, j.ID) })

	var seen atomic.Uint64 // steps
	moved := make(chan struct{}, 1)
	var hits atomic.Int64
	beside.Go(func() { r.disturb(watching, plan, &seen, moved, &hits) })
	_, err = j.Follow(ctx, func(step executor.StepResult) error {
		step.Fetched = nil
		out.steps = append(out.steps, step)
		seen.Store(uint64(len(out.steps)))
		select {
		case moved <- struct{}{}:
		default:
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the job has failed: %v\nunder %v", err, plan)
	}
	out.hits = int(hits.Load())
	if out.details, err = wire.Show(ctx, "listener", r.client, &rpc.JobRequest{Job: j.ID}); err != nil {
		t.Fatal(err)
	}
	return out
}

// disturb carries out a plan, one disturbance after the other, each when the job has come as far as it says.
func (r *rig) disturb(ctx context.Context, plan []disturbance, seen *atomic.Uint64, moved <-chan struct{}, hits *atomic.Int64) {
	for _, d := range plan {
		for seen.Load() < d.after {
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
		if !pass(ctx, d.delay) {
			return
		}
		r.t.Logf("at step %d: %v", seen.Load(), d)
		end, err := r.begin(d)
		if err != nil {
			r.t.Logf("%v: %v", d, err) // a role that is between two lives cannot be hit
		} else {
			hits.Add(1)
		}
		pass(ctx, d.lasts)
		end()
	}
}

// pass lets time pass, which is what a disturbance is made of, and reports whether ctx still goes on.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
