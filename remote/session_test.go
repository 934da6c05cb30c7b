package remote_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A lateListener has a first job whose coordinator fails at a call that the test names. The listener knows of the end of the job later: when it has
// been asked three times. Its other jobs work.
type lateListener struct {
	hanging
	t      *testing.T
	model  testkit.Model
	reads  bool // the first job fails at a call that reads, and not at a step that trains
	mu     sync.Mutex
	jobs   int
	steps  map[string]uint64
	failed bool
	asked  int
}

var errLate = fault.E(fault.ShapeMismatch, fault.At("coordinator"), fault.Got("the failure of the first job"))

func (l *lateListener) Submit(stream grpc.ClientStreamingServer[rpc.SubmitRequest, rpc.SubmitResponse]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs++
	return stream.SendAndClose(&rpc.SubmitResponse{Job: strings.Repeat("i", l.jobs)})
}

func (l *lateListener) RunStep(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	run, id := &rpc.StepRun{}, ""
	if err := wire.ReceiveFrom("the user", stream, run, wire.MaxStep, func(who *rpc.Identity) error { id = who.Job; return nil }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	trains := len(run.Feed) > 0
	if id == "i" && !run.GiveUp && trains != l.reads {
		l.failed = true
	}
	if id == "i" && l.failed {
		return errLate
	}
	done := &rpc.StepDone{Steps: l.steps[id], Step: &job.Step{Step: run.Step}}
	if trains {
		l.steps[id]++
	}
	for _, name := range run.Fetch {
		v, _ := l.model.Program.Global().Var(name)
		value := testkit.Random(l.t, v.DType, 1, v.Dims...)
		done.Step.Fetched = append(done.Step.Fetched, &job.Value{Name: name, Stream: tensor.AppendStream(nil, value)})
	}
	return wire.Send(stream, done)
}

func (l *lateListener) Status(_ context.Context, m *rpc.JobRequest) (*job.JobStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &job.JobStatus{Job: m.Job, State: job.State_RUNNING}
	if m.Job == "i" && l.failed {
		if l.asked++; l.asked > 3 {
			s.State, s.Failure = job.State_FAILED, wire.FailureOf(errLate)
		}
	}
	return s, nil
}

// A call that hears of the failure of its job before the listener does waits for the end of the job. So the next call has another job.
func TestFailureThatTheListenerHearsLater(t *testing.T) {
	for name, reads := range map[string]bool{"a step": false, "a call that reads": true} {
		t.Run(name, func(t *testing.T) {
			m := testkit.Fed(t, optimizer.SGD(0.05))
			l := &lateListener{t: t, model: m, reads: reads, steps: map[string]uint64{}}
			address, _ := serveListener(t, l)
			e, err := remote.NewExecutor(address, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			step := func() error {
				_, err := e.Run(bounded(t), m.Program, testkit.Batch(t, m.Program, 1, 4))
				return err
			}
			test := m.Program.CloneForTest()
			read := func() error {
				_, err := e.Run(bounded(t), test, testkit.Batch(t, test, 2, 4), m.Loss)
				return err
			}
			call := step
			if reads {
				if err := step(); err != nil {
					t.Fatal(err)
				}
				call = read
			}
			if err := call(); !errors.Is(err, fault.ShapeMismatch) || !strings.Contains(err.Error(), "the failure of the first job") {
				t.Errorf("the call that fails: %v", err)
			}
			if l.asked <= 3 {
				t.Error("the call that fails does not wait for the end of its job")
			}
			if err := call(); err != nil {
				t.Errorf("the call after it: %v", err)
			}
			if l.jobs != 2 {
				t.Errorf("%d jobs, want 2", l.jobs)
			}
		})
	}
}
