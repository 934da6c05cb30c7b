package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// An endless is a job that trains until the benchmark ends.
type endless struct {
	*rig
	id    string
	steps chan time.Time // when steps were seen; the reader drains it
}

func newEndless(b *testing.B, trainers int32, passes int, checkpoints *job.Checkpoints) *endless {
	b.Helper()
	s := spec(trainers, trainers, job.Mode_SYNC)
	s.Checkpoints = checkpoints
	return endlessOf(b, s, passes, model(b, momentum()), testkit.Samples(b, b.TempDir(), records()))
}

// endlessOf is newEndless of any job.
func endlessOf(b *testing.B, s *remote.JobSpec, passes int, m testkit.Model, data map[string][]string) *endless {
	b.Helper()
	r := newRig(b)
	e, err := remote.NewExecutor(r.listener.Address(), s)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	j, err := e.Submit(ctx, m.Program, executor.TrainOptions{Data: data, Passes: passes, Fetch: []string{m.Loss}})
	if err != nil {
		b.Fatal(err)
	}
	job := &endless{rig: r, id: j.ID, steps: make(chan time.Time, 1<<16)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = j.Follow(ctx, func(executor.StepResult) error {
			select {
			case job.steps <- time.Now():
			default:
			}
			return nil
		})
	}()
	b.Cleanup(func() { cancel(); <-ended; e.Close() })
	job.next(time.Now())
	return job
}

// next waits for the first step that was seen after a moment.
func (s *endless) next(after time.Time) time.Time {
	timeout := time.After(patience)
	for {
		select {
		case at := <-s.steps:
			if at.After(after) {
				return at
			}
		case <-timeout:
			s.t.Fatal("no step is seen any more")
		}
	}
}

// A gap is a pause between two steps that were seen.
type gap struct {
	end  time.Time
	took time.Duration
}

// gaps lists the pauses since a moment, up to the first step that was seen after another one.
func (s *endless) gaps(since, until time.Time) (all []gap) {
	last := since
	timeout := time.After(patience)
	for {
		select {
		case at := <-s.steps:
			if at.Before(since) {
				continue
			}
			all = append(all, gap{at, at.Sub(last)})
			if last = at; at.After(until) {
				return all
			}
		case <-timeout:
			s.t.Fatal("no step is seen any more")
		}
	}
}

// longest returns the longest of some pauses.
func longest(all []gap) (most gap) {
	for _, g := range all {
		if g.took > most.took {
			most = g
		}
	}
	return most
}

// restarted waits until a role has been started again, and returns when.
func (s *endless) restarted(name string, starts int) time.Time {
	ctx := bounded(s.t)
	for ctx.Err() == nil {
		s.mu.Lock()
		now := s.starts[name]
		s.mu.Unlock()
		if now > starts {
			return time.Now()
		}
		pass(ctx, time.Millisecond)
	}
	s.t.Fatalf("%s is not started again", name)
	return time.Time{}
}

// report gives the median and the 99th percentile of some durations.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) float64 { return took[min(len(took)-1, int(q*float64(len(took))))].Seconds() * 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkKill measures the time from kill -9 of a role to the next step that is seen after the role has come back; the job is of a fixed number of
// trainers, so that no step can be made without it. A pserver comes back with the state of a checkpoint.
func BenchmarkKill(b *testing.B) {
	for _, name := range []string{"trainer-1", "coordinator", "pserver-1"} {
		b.Run(name, func(b *testing.B) {
			s := newEndless(b, 2, 1<<20, &job.Checkpoints{Store: b.TempDir(), Rounds: 500})
			var took []time.Duration
			for range *kills {
				s.mu.Lock()
				starts := s.starts[name]
				s.mu.Unlock()
				pass(b.Context(), time.Second+time.Duration(rand.Int64N(int64(50*time.Millisecond)))) // or the pause before the next start grows
				killed := time.Now()
				if err := s.signal(name, syscall.SIGKILL); err != nil {
					b.Fatal(err)
				}
				took = append(took, s.next(s.restarted(name, starts)).Sub(killed))
			}
			report(b, took)
		})
	}
}

// BenchmarkKillWithStandby measures the time from kill -9 of a pserver that has a standby in step to the step that ends the pause.
func BenchmarkKillWithStandby(b *testing.B) {
	s := spec(2, 2, job.Mode_SYNC)
	s.Standby = 1
	j := endlessOf(b, s, 1<<20, model(b, momentum()), testkit.Samples(b, b.TempDir(), records()))
	var took []time.Duration
	process := "pserver-1" // that serves
	for range *kills {
		j.inStep(1)
		j.mu.Lock()
		starts := j.starts["standby-1"]
		j.mu.Unlock()
		pass(b.Context(), time.Second+time.Duration(rand.Int64N(int64(50*time.Millisecond))))
		j.mu.Lock()
		next := j.handles["standby-1"] // takes over
		j.mu.Unlock()
		killed := time.Now()
		if err := j.signal(process, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		took = append(took, longest(j.gaps(killed, j.restarted("standby-1", starts))).end.Sub(killed))
		process = "serving"
		j.mu.Lock()
		j.handles[process] = next
		j.mu.Unlock()
	}
	report(b, took)
}

// inStep waits until the standby of a pserver may take over.
func (s *endless) inStep(index uint32) {
	ctx := bounded(s.t)
	for ctx.Err() == nil {
		d, err := wire.Show(ctx, "listener", s.client, &rpc.JobRequest{Job: s.id})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range d.Status.Roles {
			if r.Role == job.Role_STANDBY && r.Index == index && r.InStep {
				return
			}
		}
		pass(ctx, 5*time.Millisecond)
	}
	s.t.Fatalf("standby %d is not in step", index)
}

// BenchmarkScale measures how long a job pauses whose state changes from 2 to 4 pservers and back: a distributed table of 4 Mi rows of 32 with Adagrad, which is
// 1 GB, and a dense parameter of 256 MB with SGD, of which every element changes in every round.
func BenchmarkScale(b *testing.B) {
	const rows, width = 4 << 20, 8192
	for _, model := range []struct {
		name string
		dims int64
		of   func(id layers.Variable) layers.Variable
	}{
		{"table", 1, func(id layers.Variable) layers.Variable {
			return layers.Embedding(id, rows, 32, layers.Sparse(), layers.Distributed(), layers.Param(layers.ParamAttr{Initializer: layers.Constant(0.5)}))
		}},
		{"dense", width, func(id layers.Variable) layers.Variable {
			return layers.FC(layers.Cast(id, tensor.Float32), width, layers.Param(layers.ParamAttr{Initializer: layers.Constant(0.5)}))
		}},
	} {
		b.Run(model.name, func(b *testing.B) {
			m := layers.NewModel()
			r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(model.dims), layers.DType(tensor.Int64)))
			v := layers.Read(layers.DoubleBuffer(layers.Batch(r, batch)))
			loss := layers.Mean(layers.Square(model.of(v[0])), layers.Name("loss"))
			if model.dims == 1 {
				optimizer.Adagrad(0.01).Minimize(loss)
			} else {
				optimizer.SGD(1e-20).Minimize(loss)
			}
			data := testkit.Records(b, b.TempDir(), records(), func(i int) []*tensor.Tensor {
				ids := make([]int64, model.dims)
				for j := range ids {
					ids[j] = int64(i+j) * 7919 % rows
				}
				id, err := tensor.FromSlice(ids)
				if err != nil {
					b.Fatal(err)
				}
				return []*tensor.Tensor{id}
			})
			of := spec(2, 2, job.Mode_SYNC)
			of.Lease = durationpb.New(20 * time.Second) // plays no part, unless the machine has so much other work that roles seem lost
			scaleOften(b, endlessOf(b, of, 1<<20, testkit.Built(b, m, loss), data))
		})
	}
}

// clock shows when something was seen as the logs of roles do.
const clock = "15:04:05.000"

// scaleOften reports how long the job paused to change its number of pservers: the longest pause that ended after the change was durable. Steps that took long
// while the state was copied ahead are told apart.
func scaleOften(b *testing.B, s *endless) {
	var took []time.Duration
	for i := range *kills {
		pass(b.Context(), time.Second)
		began := time.Now()
		if _, err := s.client.Scale(bounded(b), &rpc.ScaleRequest{Job: s.id, Pservers: int32(4 - i%2*2)}); err != nil {
			b.Fatal(err)
		}
		answered, changed := time.Now(), s.lastMove()
		all := s.gaps(began, answered)
		at := slices.IndexFunc(all, func(g gap) bool { return g.end.After(changed) })
		pause := longest(all[at:])
		b.Logf("to %d pservers in %v, the steps paused for %v up to %v; while the state was copied ahead, for %v at most", 4-i%2*2, answered.Sub(began),
			pause.took, pause.end.UTC().Format(clock), longest(all[:at]).took)
		took = append(took, pause.took)
	}
	report(b, took)
}

// BenchmarkScaleTrainers measures how long a job pauses that gets a third trainer, and gives it back.
func BenchmarkScaleTrainers(b *testing.B) {
	s := endlessOf(b, spec(2, 3, job.Mode_SYNC), 1<<20, model(b, momentum()), testkit.Samples(b, b.TempDir(), records()))
	var took []time.Duration
	for i := range *kills {
		pass(b.Context(), time.Second)
		began, trainers := time.Now(), 3-i%2
		if _, err := s.client.Scale(bounded(b), &rpc.ScaleRequest{Job: s.id, Trainers: int32(trainers)}); err != nil {
			b.Fatal(err)
		}
		s.shared(trainers)
		pause := longest(s.gaps(began, time.Now()))
		b.Logf("to %d trainers, the steps paused for %v", trainers, pause.took)
		took = append(took, pause.took)
	}
	report(b, took)
}

// BenchmarkStopToWhy measures the time from SIGSTOP of a trainer until `edl why` names it as lost or silent.
func BenchmarkStopToWhy(b *testing.B) {
	s := newEndless(b, 2, 1<<20, nil)
	var took []time.Duration
	for range *kills {
		s.mu.Lock()
		starts := s.starts["trainer-1"]
		s.mu.Unlock()
		stopped := time.Now()
		if err := s.signal("trainer-1", syscall.SIGSTOP); err != nil {
			b.Fatal(err)
		}
		s.named("trainer 1")
		took = append(took, time.Since(stopped))
		s.next(s.restarted("trainer-1", starts))
	}
	report(b, took)
}

// named asks why until the first wait names a role.
func (s *endless) named(who string) {
	ctx := bounded(s.t)
	for ctx.Err() == nil {
		answer, err := s.client.Why(ctx, &rpc.JobRequest{Job: s.id})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(answer.Waits) > 0 && strings.Contains(fmt.Sprint(answer.Waits[0].By), who) {
			return
		}
		pass(ctx, 5*time.Millisecond)
	}
	s.t.Fatalf("why does not name %s", who)
}

// trainersByRound returns how many trainers may have shared each round. The report of a step dies with a trainer that has not delivered it: such a
// step is not seen, and belongs to the generation of the one before or of the one after.
func trainersByRound(t *testing.T, steps []executor.StepResult) [][]int {
	seen := make([]int, rounds())
	for _, s := range steps {
		seen[s.Step] = s.Trainers
	}
	all := [][]int{nil}
	for round, n := range seen {
		options := []int{n}
		if n == 0 {
			before, after := 0, 0
			for r := round; r >= 0 && before == 0; r-- {
				before = seen[r]
			}
			for r := round; r < len(seen) && after == 0; r++ {
				after = seen[r]
			}
			if options = []int{before}; after != before {
				options = append(options, after)
			}
		}
		var longer [][]int
		for _, h := range all {
			for _, n := range options {
				longer = append(longer, append(slices.Clone(h), n))
			}
		}
		if all = longer; len(all) > 256 {
			t.Fatalf("only %d of %d steps were seen", len(steps), rounds())
		}
	}
	return all
}

// inFiles counts the records of a dataset, from its files.
func inFiles(t testing.TB, data map[string][]string) int64 {
	t.Helper()
	total := int64(0)
	for _, globs := range data {
		d, err := dataset.Open(bounded(t), globs)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range d.Records(bounded(t), 0, d.NumRecords()) {
			if err != nil {
				t.Fatal(err)
			}
			total++
		}
	}
	return total
}

// checkLedger adds the ledger up against the files: each record once in each pass, and at most again counted more than once over all passes.
func checkLedger(t testing.TB, l *rpc.LedgerResponse, data map[string][]string, again int64) {
	t.Helper()
	total, doubled := inFiles(t, data), int64(0)
	if len(l.GetPasses()) != passes {
		t.Fatalf("the ledger has %d passes, want %d: %v", len(l.GetPasses()), passes, l)
	}
	for _, p := range l.Passes {
		if p.Records != total {
			t.Errorf("pass %d has trained %d of %d records", p.Pass, p.Records, total)
		}
		doubled += p.Again
	}
	if doubled > again {
		t.Errorf("%d records were trained more than once, want at most %d", doubled, again)
	}
}
