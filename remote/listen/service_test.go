package listen_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// Stop ends a job before its time; it says so, and it is no failure of a role.
func TestStop(t *testing.T) {
	h := newHarness(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	spec := reading(t)
	spec.Passes = 1 << 20
	j := h.begin(t, spec)
	stream, err := client.Watch(bounded(t), &rpc.JobRequest{Job: j.ID})
	if err != nil {
		t.Fatal(err)
	}
	var last job.State
	stopped := false
	followEvents(t, stream, func(e *job.Event) {
		if e.GetStep() != nil && !stopped {
			stopped = true
			if s, err := client.Stop(bounded(t), &rpc.JobRequest{Job: j.ID}); err != nil || s.State != job.State_STOPPED {
				t.Errorf("%v, %v", s, err)
			}
		}
		if s := e.GetStatus(); s != nil {
			last = s.State
		}
	})
	if err := j.Wait(bounded(t)); last != job.State_STOPPED || !errors.Is(err, fault.Canceled) {
		t.Errorf("the job is %v: %v", last, err)
	}
	if _, err := client.Stop(bounded(t), &rpc.JobRequest{Job: j.ID}); err != nil {
		t.Errorf("stopping a job that has ended: %v", err)
	}
}

// unanswered is the stream of a client that goes when it has sent all: it has gone before the answer, or while the answer is sent.
type unanswered[Req, Res any] struct {
	grpc.ServerStream
	ctx   context.Context
	leave context.CancelFunc // nil: the answer fails
	sent  []*Req
}

var errLost = fault.New(fault.Unavailable, "the connection is lost")

func (s *unanswered[Req, Res]) Context() context.Context { return s.ctx }

func (s *unanswered[Req, Res]) Recv() (*Req, error) {
	if len(s.sent) == 0 {
		return nil, io.EOF
	}
	next := s.sent[0]
	s.sent = s.sent[1:]
	return next, nil
}

func (s *unanswered[Req, Res]) SendAndClose(*Res) error {
	if s.leave == nil {
		return errLost
	}
	s.leave()
	return nil
}

// A job or a state whose id nobody was told does not stay.
func TestAnswerIsLost(t *testing.T) {
	for name, leaves := range map[string]bool{"the client is gone": true, "the answer fails": false} {
		t.Run(name, func(t *testing.T) {
			client := func() (context.Context, context.CancelFunc, error) {
				if !leaves {
					return bounded(t), nil, errLost
				}
				ctx, cancel := context.WithCancel(bounded(t))
				return ctx, cancel, nil
			}
			h := newHarness(t, listen.Config{MaxStates: 1}, nil)
			server := &listen.Server{Manager: h.Manager}
			spec := reading(t)
			spec.Passes, spec.KeepState = 1<<20, true
			ctx, leave, want := client()
			submit := &unanswered[rpc.SubmitRequest, rpc.SubmitResponse]{ctx: ctx, leave: leave}
			err := wire.SendPieces(spec, func(piece []byte) error {
				submit.sent = append(submit.sent, &rpc.SubmitRequest{Piece: slices.Clone(piece)})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Submit(submit); err != want {
				t.Error(err)
			}
			if jobs := h.Jobs(); len(jobs) != 1 || jobs[0].Status().State != job.State_STOPPED {
				t.Errorf("jobs: %v", jobs)
			}
			for range 2 { // there is room for one state
				whole, err := proto.Marshal(&rpc.StateValues{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, leave, want := client()
				write := &unanswered[rpc.Piece, rpc.WriteStateResponse]{ctx: ctx, leave: leave, sent: []*rpc.Piece{{Piece: whole}}}
				if err := server.WriteState(write); err != want {
					t.Error(err)
				}
			}
		})
	}
}

// Finish ends a fed job in good order, and a job that reads its own data before that ends.
func TestFinish(t *testing.T) {
	h := newHarness(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	session := h.begin(t, fed(t))
	s, err := client.Finish(bounded(t), &rpc.FinishRequest{Job: session.ID})
	if err != nil || s.State != job.State_SUCCEEDED {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := client.Finish(bounded(t), &rpc.FinishRequest{Job: session.ID}); !errors.Is(wire.FromStatus("", err), fault.Unavailable) {
		t.Errorf("a session that has ended: %v", err)
	}
	spec := reading(t)
	spec.Passes = 1 << 20
	long := h.begin(t, spec)
	stream, err := client.Watch(bounded(t), &rpc.JobRequest{Job: long.ID})
	if err != nil {
		t.Fatal(err)
	}
	for step := (*job.Step)(nil); step == nil; {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		step = m.Events[len(m.Events)-1].GetStep()
	}
	after := uint64(5)
	if s, err = client.Finish(bounded(t), &rpc.FinishRequest{Job: long.ID, AfterStep: &after}); err != nil || s.State != job.State_SUCCEEDED || s.Steps <= after {
		t.Errorf("a job that reads its own data: %v, %v", s, err)
	}
}

// The listener says who it is and what it has.
func TestDescribeAndList(t *testing.T) {
	h := newHarness(t, listen.Config{}, all(idle))
	client := serve(t, h.Manager)
	d, err := client.Describe(bounded(t), &rpc.DescribeRequest{})
	if err != nil || d.Version != "test" || d.Node != "here" || d.Registry != ops.Fingerprint() {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := client.Status(bounded(t), &rpc.JobRequest{Job: "three"}); err == nil ||
		!strings.HasSuffix(err.Error(), `got job "three", want a job of this listener, which has had none`) {
		t.Errorf("any job: %v", err)
	}
	for _, name := range []string{"one", "two"} {
		h.begin(t, fedAs(t, name))
	}
	list, err := client.List(bounded(t), &rpc.ListRequest{})
	if err != nil || len(list.Jobs) != 2 || list.Jobs[0].Job != "one" || list.Jobs[1].Job != "two" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := client.Status(bounded(t), &rpc.JobRequest{Job: "three"}); !errors.Is(wire.FromStatus("", err), fault.NotFound) ||
		!strings.Contains(err.Error(), "one of one, two") {
		t.Errorf("an unknown job: %v", err)
	}
	stream, err := client.StartRole(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(wire.FromStatus("", err), fault.Unsupported) {
		t.Errorf("a role for a listener of whole jobs: %v", err)
	}
}

// A step for a job that is not there is refused at its first piece.
func TestStepOfAnUnknownJob(t *testing.T) {
	client := serve(t, newHarness(t, listen.Config{}, nil).Manager)
	for name, id := range map[string]*rpc.Identity{"another job": {Job: "other"}, "none": nil} {
		stream, err := client.RunStep(bounded(t))
		if err == nil {
			err = stream.Send(&rpc.Piece{Piece: []byte{0x0a}, Id: id})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(wire.FromStatus("listener", err), fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// followEvents reads the events of a job to their end.
func followEvents(t *testing.T, stream grpc.ServerStreamingClient[rpc.Events], each func(*job.Event)) {
	t.Helper()
	follow(t, stream.Recv, func(m *rpc.Events) {
		if len(m.Events) == 0 {
			t.Error("a message without events")
		}
		for _, e := range m.Events {
			each(e)
		}
	})
}

// follow reads a stream to its end.
func follow[M any](t *testing.T, recv func() (M, error), each func(M)) {
	t.Helper()
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		each(m)
	}
}

// Whoever watches a job is told every step in order, from the first, also when the job has ended. Every role of it ends with status 0.
func TestWatchFromTheFirstEvent(t *testing.T) {
	h := newHarness(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	spec := reading(t)
	spec.Passes = 2
	j := h.begin(t, spec)
	watch := func() (told []string, last *job.JobStatus) {
		t.Helper()
		stream, err := client.Watch(bounded(t), &rpc.JobRequest{Job: j.ID})
		if err != nil {
			t.Fatal(err)
		}
		followEvents(t, stream, func(e *job.Event) {
			if s := e.GetStatus(); s != nil {
				last = s
				told = append(told, s.State.String())
				return
			}
			told = append(told, fmt.Sprintf("step %d of pass %d: %d rows, %d values", e.GetStep().Step, e.GetStep().Pass, e.GetStep().Rows,
				len(e.GetStep().Fetched)))
		})
		return told, last
	}
	during, last := watch()
	after, _ := watch()
	want := []string{"STARTING", "RUNNING"}
	for step := range 8 {
		want = append(want, fmt.Sprintf("step %d of pass %d: 5 rows, 1 values", step, step/4))
	}
	want = append(want, "SUCCEEDED")
	if !slices.Equal(during, want) || !slices.Equal(after, want) {
		t.Errorf("told while it ran\n%q and afterwards\n%q, want\n%q", during, after, want)
	}
	if last.Steps != 8 || last.Records != 40 || last.Passes != 2 || last.Seconds <= 0 || last.Failure != nil || len(last.Roles) != 5 {
		t.Errorf("the last status is %v", last)
	}
	status, err := client.Status(bounded(t), &rpc.JobRequest{Job: j.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Roles {
		if r.State != job.State_SUCCEEDED || r.ExitCode != 0 {
			t.Errorf("%v %d: %v", r.Role, r.Index, r)
		}
	}
}

// Logs are those of all roles, or of one.
func TestLogs(t *testing.T) {
	h := newHarness(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	j := h.begin(t, reading(t))
	read := func(role string, followed bool) (roles, lines []string) {
		t.Helper()
		stream, err := client.Logs(bounded(t), &rpc.LogsRequest{Job: j.ID, Role: role, Follow: followed})
		if err != nil {
			t.Fatal(err)
		}
		follow(t, stream.Recv, func(l *rpc.LogLine) {
			if roles = append(roles, l.Role); strings.Contains(l.Line, "role ends") {
				lines = append(lines, l.Role)
			}
		})
		slices.Sort(roles)
		slices.Sort(lines)
		return slices.Compact(roles), lines
	}
	want := []string{"coordinator", "pserver-0", "pserver-1", "trainer-0", "trainer-1"}
	if roles, ended := read("", true); !slices.Equal(roles, want) || !slices.Equal(ended, want) {
		t.Errorf("lines of %v; %v have ended", roles, ended)
	}
	if roles, _ := read("trainer-1", false); !slices.Equal(roles, want[4:]) {
		t.Errorf("lines of %v where those of trainer-1 were asked for", roles)
	}
}

// wordy is a coordinator that has more entries than fit into one message of the transport.
type wordy struct {
	rpc.UnimplementedCoordinatorServer
}

const wordyEntries = 300

func (wordy) Queues(m *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	r := &rpc.QueuesResponse{Phase: "running", Entries: map[string][]byte{}}
	for i := range wordyEntries {
		if m.Entries {
			r.Entries[fmt.Sprintf("data/d/files/%d", i)] = make([]byte, 100_000)
		}
	}
	return wire.Send(stream, r)
}

// The listener passes on what is larger than one message of the transport.
func TestShowOfManyEntries(t *testing.T) {
	var h *harness
	h = newHarness(t, listen.Config{}, func(name string) run {
		if name != "coordinator" {
			return idle
		}
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			return serveCoordinator(ctx, h.store, spec, wordy{})
		}
	})
	client := serve(t, h.Manager)
	j := h.begin(t, reading(t))
	var d *rpc.JobDetails
	if err := wire.Retry(bounded(t), func(id.Retry) (err error) { // until the job runs
		d, err = wire.Show(bounded(t), "listener", client, &rpc.JobRequest{Job: j.ID, Entries: true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(d.Queues.Entries) != wordyEntries || len(d.Queues.Entries["data/d/files/7"]) != 100_000 {
		t.Errorf("%d entries", len(d.Queues.Entries))
	}
}
