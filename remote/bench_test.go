package remote_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkSyncTasks measures what tasks cost the rounds of a sync job: two trainers and two pservers, processes all, train a pass over 20,000
// records in batches of 16, with durable queues in an etcd server of this process. A round of records_per_task=1 needs 16 tasks. The time goes from
// the first step that is seen to the last.
func BenchmarkSyncTasks(b *testing.B) {
	const records, batch = 20000, 16
	data := testkit.Samples(b, b.TempDir(), records)
	m := testkit.Reading(b, batch, optimizer.SGD(0.01))
	for _, size := range []int64{1, 10, 100} {
		b.Run(fmt.Sprintf("records_per_task=%d", size), func(b *testing.B) {
			l := newRig(b).listener()
			rounds, took := 0, time.Duration(0)
			for range b.N {
				var first, last time.Time
				e := executorOf(b, l, &remote.JobSpec{Trainers: 2, Pservers: 2, RecordsPerTask: size})
				summary, err := e.Train(bounded(b), m.Program, executor.TrainOptions{Data: data, Passes: 1, Fetch: []string{m.Loss}, Ahead: -1},
					func(executor.StepResult) error {
						if last = time.Now(); first.IsZero() {
							first = last
						}
						return nil
					})
				if err != nil || summary.Steps != records/batch {
					b.Fatal(summary, err)
				}
				rounds, took = rounds+int(summary.Steps)-1, took+last.Sub(first)
			}
			b.ReportMetric(float64(rounds)/took.Seconds(), "rounds/s")
			b.ReportMetric(float64(rounds)*batch/float64(size)/took.Seconds(), "tasks/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRound measures a step of a whole job whose roles share this process: MLP 784-200-200-10, batches of 128 rows, SGD, over each
// transport. CPU is the time of all of it on all cores, with reading, computing, reports and the executor's side.
func BenchmarkRound(b *testing.B) {
	const records, batch, width = 1280, 128, 784
	data := testkit.Records(b, b.TempDir(), records, func(i int) []*tensor.Tensor {
		y, err := tensor.FromSlice([]int64{int64(i % 10)})
		if err != nil {
			b.Fatal(err)
		}
		return []*tensor.Tensor{testkit.Random(b, tensor.Float32, uint64(i), width), y}
	})
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(width)), layers.Field("y", layers.Dims(1), layers.DType(tensor.Int64)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, batch)))
	h := layers.FC(layers.FC(v[0], 200, layers.Act("relu")), 200, layers.Act("relu"))
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(h, 10), v[1])
	loss := layers.Mean(cost, layers.Name("loss"))
	optimizer.SGD(0.01).Minimize(loss)
	model := testkit.Built(b, m, loss)
	for _, shape := range []struct{ trainers, pservers int32 }{{2, 2}, {8, 4}} {
		for _, name := range append(jobspec.Transports(), "tcp in clear text") {
			b.Run(fmt.Sprintf("%dx%d/%s", shape.trainers, shape.pservers, name), func(b *testing.B) {
				name, clear := strings.CutSuffix(name, " in clear text")
				var options []remote.Option
				if clear {
					options = append(options, remote.WithoutSecurity())
				}
				transport, _ := jobspec.ParseTransport(name)
				e := executorOf(b, listener(b, options...), &remote.JobSpec{Trainers: shape.trainers, Pservers: shape.pservers, Transport: transport})
				passes := max(2, b.N/(records/batch))
				var first, last time.Time
				var cpu, used time.Duration
				steps := 0
				_, err := e.Train(bounded(b), model.Program, executor.TrainOptions{Data: data, Passes: passes, Fetch: []string{model.Loss}, Ahead: -1},
					func(executor.StepResult) error {
						last, used = time.Now(), processTime(b)
						if steps++; first.IsZero() {
							first, cpu = last, used
						}
						return nil
					})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(last.Sub(first).Seconds()*1e3/float64(steps-1), "ms/step")
				b.ReportMetric((used-cpu).Seconds()*1e3/float64(steps-1), "CPU-ms/step")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkSharedTotals measures what sharing totals adds to a round: the model of BenchmarkRound with other losses, on two trainers and two pservers that are processes.
// A mean is one call less than the quotient of two means, which is one less than a sum of rows divided by a count, whose mean is divided by another.
func BenchmarkSharedTotals(b *testing.B) {
	const records, batch, width = 1280, 128, 784
	data := testkit.Records(b, b.TempDir(), records, func(i int) []*tensor.Tensor {
		y, err := tensor.FromSlice([]int64{int64(i % 10)})
		if err != nil {
			b.Fatal(err)
		}
		return []*tensor.Tensor{testkit.Random(b, tensor.Float32, uint64(i), width), y}
	})
	for name, loss := range map[string]func(cost, weight layers.Variable) layers.Variable{
		"0 places": func(cost, _ layers.Variable) layers.Variable { return layers.Mean(cost, layers.Name("loss")) },
		"1 place": func(cost, weight layers.Variable) layers.Variable {
			return layers.Div(layers.Mean(layers.Mul(cost, weight)), layers.Scale(layers.Mean(weight), 1, 1), layers.Name("loss"))
		},
		"2 places": func(cost, weight layers.Variable) layers.Variable {
			sum := layers.ReduceSum(layers.Div(layers.Mul(cost, weight), layers.Scale(layers.ReduceSum(weight), 1, 1)))
			return layers.Div(sum, layers.Scale(layers.Mean(layers.Square(weight)), 1, 1), layers.Name("loss"))
		},
	} {
		b.Run(name, func(b *testing.B) {
			m := layers.NewModel().Seed(3)
			r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(width)), layers.Field("y", layers.Dims(1), layers.DType(tensor.Int64)))
			v := layers.Read(layers.DoubleBuffer(layers.Batch(r, batch)))
			h := layers.FC(layers.FC(v[0], 200, layers.Act("relu")), 200, layers.Act("relu"))
			cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(h, 10), v[1])
			l := loss(cost, layers.Cast(v[1], tensor.Float32))
			optimizer.SGD(0.01).Minimize(l)
			model := testkit.Built(b, m, l)
			e := executorOf(b, newRig(b).listener(), &remote.JobSpec{Trainers: 2, Pservers: 2})
			var first, last time.Time
			steps := 0
			_, err := e.Train(bounded(b), model.Program, executor.TrainOptions{Data: data, Passes: max(2, b.N/(records/batch)), Ahead: -1}, func(executor.StepResult) error {
				last = time.Now()
				if steps++; first.IsZero() {
					first = last
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(last.Sub(first).Seconds()*1e3/float64(steps-1), "ms/step")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processTime is the CPU time of this process so far.
func processTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScaleServers measures how long a job of two trainers makes no step while its pservers change from two to four and back: the longest time between
// two steps around the change, less that of an ordinary step. SGD; all rows of the state change in every round.
func BenchmarkScaleServers(b *testing.B) {
	for _, megabytes := range []int64{10, 100, 1000} {
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) {
			const width = 256
			m := layers.NewModel().Seed(3)
			r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(width)), layers.Field("y", layers.Dims(1)))
			v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 2)))
			wide := layers.FC(v[0], megabytes<<20/4/width)
			loss := layers.Mean(layers.SquareErrorCost(layers.FC(wide, 1), v[1]), layers.Name("loss"))
			optimizer.SGD(1e-9).Minimize(loss)
			model := testkit.Built(b, m, loss)
			data := testkit.Records(b, b.TempDir(), 200, func(i int) []*tensor.Tensor {
				return []*tensor.Tensor{testkit.Random(b, tensor.Float32, uint64(i), width), testkit.Random(b, tensor.Float32, uint64(i), 1)}
			})
			e := executorOf(b, newRig(b).listener(), &remote.JobSpec{Trainers: 2, Pservers: 2})
			ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
			defer cancel()
			var last time.Time
			var ordinary, longest []time.Duration
			changing := make(chan error, 1)
			busy, changes, quietly := false, 0, 0
			_, err := e.Train(ctx, model.Program, executor.TrainOptions{Data: data, Passes: 100000, Ahead: 1}, func(s executor.StepResult) error {
				took := time.Since(last)
				last = time.Now()
				if s.Step < 3 {
					return nil
				}
				select {
				case err := <-changing:
					busy, quietly = false, 0
					changes++
					if err != nil || changes == 2*b.N {
						return cmp.Or(err, executor.ErrStop)
					}
				default:
				}
				if busy {
					longest[len(longest)-1] = max(longest[len(longest)-1], took)
					return nil
				}
				ordinary = append(ordinary, took)
				if quietly++; quietly == 5 {
					busy, longest = true, append(longest, 0)
					servers := []int{4, 2}[changes%2]
					go func() {
						jobs, err := e.Client().Jobs(ctx)
						if err == nil {
							_, err = remote.ScaleServers(ctx, e.Client(), jobs[len(jobs)-1].Job, servers)
						}
						changing <- err
					}()
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			slices.Sort(ordinary)
			slices.Sort(longest)
			step := ordinary[len(ordinary)/2]
			b.ReportMetric(float64(step.Milliseconds()), "ms/step")
			b.ReportMetric(float64((longest[len(longest)/2] - step).Milliseconds()), "ms-pause")
			b.ReportMetric(0, "ns/op")
		})
	}
}
