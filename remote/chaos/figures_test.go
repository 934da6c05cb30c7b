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

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
)

// An endless is a job that trains until the benchmark ends.
type endless struct {
	*rig
	id    string
	steps chan time.Time // when steps were seen; the reader drains it
}

func newEndless(b *testing.B, trainers int32, passes int, checkpoints *job.Checkpoints) *endless {
	b.Helper()
	r := newRig(b)
	s := spec(trainers, trainers, job.Mode_SYNC)
	s.Checkpoints = checkpoints
	e, err := remote.NewExecutor(r.listener.Address(), s)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := model(b, momentum())
	j, err := e.Submit(ctx, m.Program, executor.TrainOptions{Data: testkit.Samples(b, b.TempDir(), records()), Passes: passes, Fetch: []string{m.Loss}})
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
