package remote_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/wire"
)

// hanging is a listener whose steps have no end, and whose jobs have.
type hanging struct {
	rpc.UnimplementedListenerServer
	entered chan struct{}
}

func (h *hanging) Describe(context.Context, *rpc.DescribeRequest) (*rpc.DescribeResponse, error) {
	return &rpc.DescribeResponse{Registry: ops.Fingerprint()}, nil
}

func (h *hanging) Submit(stream grpc.ClientStreamingServer[rpc.SubmitRequest, rpc.SubmitResponse]) error {
	return stream.SendAndClose(&rpc.SubmitResponse{Job: "hanging"})
}

func (h *hanging) RunStep(stream grpc.BidiStreamingServer[rpc.Piece, rpc.Piece]) error {
	close(h.entered)
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (h *hanging) Finish(context.Context, *rpc.FinishRequest) (*job.JobStatus, error) {
	return &job.JobStatus{}, nil
}

// serveListener serves until the test ends or stop is called.
func serveListener(t *testing.T, l rpc.ListenerServer) (address string, stop func()) {
	t.Helper()
	port, err := wire.Listen(bounded(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := wire.NewServer()
	rpc.RegisterListenerServer(service, l)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := wire.Serve(ctx, service, port, time.Second); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return port.Addr().String(), stop
}

// Closing an executor ends the step that is under way, whatever its deadline, and no step begins after it.
func TestCloseDuringAStep(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.05))
	h := &hanging{entered: make(chan struct{})}
	address, _ := serveListener(t, h)
	e, err := remote.NewExecutor(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	var feed executor.Feed = testkit.Batch(t, m.Program, 0, 4)
	ran := make(chan error, 1)
	go func() {
		_, err := e.Run(context.Background(), m.Program, feed, m.Loss)
		ran <- err
	}()
	<-h.entered
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	for what, ended := range map[string]chan error{"step": ran, "executor": closed} {
		select {
		case err := <-ended:
			if what == "step" != errors.Is(err, fault.Canceled) {
				t.Errorf("the end of the %s: %v", what, err)
			}
		case <-bounded(t).Done():
			t.Fatalf("the %s does not end", what)
		}
	}
	if _, err := e.Run(context.Background(), m.Program, feed, m.Loss); !errors.Is(err, fault.Canceled) {
		t.Errorf("a step after the end: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// Calls to a listener that has ended fail at once, whatever their deadline: nobody waits for another one that would not know the job.
func TestCallsToAListenerThatHasEnded(t *testing.T) {
	address, stop := serveListener(t, &hanging{})
	c, err := remote.Dial(bounded(t), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop()
	for what, call := range map[string]func() error{
		"logs": func() error {
			return c.Logs(bounded(t), "hanging", "", true, func(string, string) error { return nil })
		},
		"watch":  func() error { _, err := c.Watch(bounded(t), "hanging", nil); return err },
		"submit": func() error { _, err := c.Submit(bounded(t), &remote.JobSpec{}); return err },
		"stop":   func() error { return c.Stop(bounded(t), "hanging") },
	} {
		want := "listener " + address + ": connection refused"
		if err := call(); !errors.Is(err, fault.Unavailable) || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}
