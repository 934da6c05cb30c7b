package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/view"
	"github.com/edl-go/edl/tensor"
)

// fakeSource is a listener with jobs that the test writes.
type fakeSource struct {
	mu     sync.Mutex
	jobs   []*rpc.JobDetails
	events map[string][]*job.Event
	lines  []line
	asked  int
	broken error
}

func (f *fakeSource) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeSource) Jobs(_ context.Context, live bool) (all []*job.JobStatus, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	for _, d := range f.jobs {
		if !live || !view.Ended(d.Status) {
			all = append(all, proto.CloneOf(d.Status))
		}
	}
	return all, f.broken
}

func (f *fakeSource) Known(_ context.Context, id string) (*rpc.JobDetails, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.jobs {
		if d.Status.Job == id {
			return proto.CloneOf(d), nil
		}
	}
	return nil, errors.New("no such job")
}

func (f *fakeSource) Programs(context.Context, string) (*rpc.Programs, error) { return nil, nil }

// WatchScalars tells the events of a job as they are when it is called, and waits for ctx if the job goes on.
func (f *fakeSource) WatchScalars(ctx context.Context, id string, from uint64, each func(uint64, []*job.Event) error) error {
	f.mu.Lock()
	all := slices.Clone(f.events[id])
	goes := slices.ContainsFunc(f.jobs, func(d *rpc.JobDetails) bool { return d.Status.Job == id && d.Status.State == job.State_RUNNING })
	f.mu.Unlock()
	if from < uint64(len(all)) {
		if err := each(from, all[from:]); err != nil {
			return err
		}
	}
	if !goes {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeSource) Logs(_ context.Context, _, _ string, _ bool, each func(role, line string) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lines {
		if err := each(l.Role, l.Text); err != nil {
			return err
		}
	}
	return nil
}

// hostileName is a name that would run, or break out, if it were HTML, JSON or a label as it is.
const hostileName = `</script><img src=x onerror=alert(1)>"'` + "\n\u2028\x7f"

// newFake has a job that runs with two trainers, one that has succeeded, and one with a hostile name that has failed.
func newFake(t *testing.T) *fakeSource {
	t.Helper()
	role := func(r job.Role, index uint32, state job.State) *job.RoleStatus {
		return &job.RoleStatus{Role: r, Index: index, State: state, Starts: 1, Pid: int32(1000 + index)}
	}
	times := func(r job.Role, index uint32, names ...string) *rpc.RoleTimes {
		m := &job.RoundTimes{First: 1, Last: 100, Rounds: 100, Median: int64(2 * time.Millisecond), Worst: int64(5 * time.Millisecond)}
		for i, name := range names {
			m.Phases = append(m.Phases, &job.PhaseTime{Name: name, Median: 1, Worst: 2, Total: int64(i + 1)})
		}
		return &rpc.RoleTimes{Role: r, Index: index, Rounds: m}
	}
	running := &rpc.JobDetails{
		Status: &job.JobStatus{Job: "digits", State: job.State_RUNNING, Mode: job.Mode_SYNC, Passes: 10, Pass: 2, Steps: 300, Records: 4800, Seconds: 60, Trainers: 2, Owner: "alice",
			Roles: []*job.RoleStatus{role(job.Role_COORDINATOR, 0, job.State_RUNNING), role(job.Role_PSERVER, 0, job.State_RUNNING),
				role(job.Role_TRAINER, 0, job.State_RUNNING), role(job.Role_TRAINER, 1, job.State_RUNNING)},
			Placement: []*job.ServerLoad{{Server: 0, Bytes: 4096, Slices: 3}}},
		Spec: &job.JobSpec{Trainers: 2, Pservers: 1},
		Queues: &rpc.QueuesResponse{Generation: 3, Phase: "running", Queues: []*rpc.QueueStatus{{Dataset: "train", Pass: 2, Passes: 10, Todo: 5, Pending: 1, Done: 4, Records: 1600, Retried: 16,
			DiscardedTasks: []*rpc.DiscardedTask{{Id: 7, Pass: 1, Failures: 3, Reason: hostileName, Records: []*rpc.RecordRange{{From: 3, To: 9}}}}}},
			Checkpoint: &job.CheckpointStatus{Store: "/data", Name: "k-200", Steps: 200, Bytes: 4096, CreatedMs: 1_700_000_000_000}},
		Ledger: &rpc.LedgerResponse{Passes: []*rpc.PassLedger{{Pass: 0, Records: 1600}}},
		Tables: []*rpc.TableUse{{Name: "emb", Rows: 10, Room: 20, Values: 640, Slots: 0, Structure: 64}},
		Times: []*rpc.RoleTimes{times(job.Role_PSERVER, 0, "wait", "receive", "merge", "apply", "push"),
			times(job.Role_TRAINER, 0, "read", "compute", "send", "wait", "receive", "other"), times(job.Role_TRAINER, 1, "read", "compute", "send", "wait", "receive", "other")},
	}
	over := &rpc.JobDetails{Status: &job.JobStatus{Job: "over", State: job.State_SUCCEEDED, Passes: 1, Steps: 10, Records: 160, Seconds: 2, Trainers: 1}, Spec: &job.JobSpec{Trainers: 1}}
	hostile := &rpc.JobDetails{Status: &job.JobStatus{Job: hostileName, State: job.State_FAILED, Owner: hostileName, Failure: &job.Failure{Kind: 1, Message: hostileName},
		Roles: []*job.RoleStatus{{Role: job.Role_TRAINER, Node: hostileName}}}, Spec: &job.JobSpec{}}
	f := &fakeSource{jobs: []*rpc.JobDetails{over, hostile, running}, events: map[string][]*job.Event{}, lines: []line{{"trainer-0", "role starts"}, {"trainer-1", hostileName}}}
	for step := range uint64(300) {
		f.events["digits"] = append(f.events["digits"], stepOf(t, step, float32(1)/float32(step+1)))
	}
	for step := range uint64(10) {
		f.events["over"] = append(f.events["over"], stepOf(t, step, 0.5))
	}
	return f
}

// stepOf is a step that has fetched a loss.
func stepOf(t *testing.T, step uint64, loss float32) *job.Event {
	t.Helper()
	value, err := tensor.FromSlice([]float32{loss}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &job.Event{What: &job.Event_Step{Step: &job.Step{Step: step, Rows: 16, Fetched: []*job.Value{{Name: "loss", Stream: tensor.AppendStream(nil, value)}}}}}
}

// stall makes a pserver of the job that runs wait for trainer 1 for so long.
func (f *fakeSource) stall(since time.Time) {
	f.change(func() {
		f.jobs[2].Waits = []*job.Wait{{Who: "pserver 0", What: "round 301", By: []string{"trainer 1"}, Since: timestamppb.New(since)},
			{Who: "trainer 0", What: "the parameters of round 301", By: []string{"pserver 0"}, Since: timestamppb.New(since)}}
	})
}

// A site is a server of a test, on a loopback address.
type site struct {
	*Server
	url    string
	tokens *credential.Tokens
}

func newSite(t *testing.T, source Source, debug bool) *site {
	t.Helper()
	tokens := credential.OpenTokens(filepath.Join(t.TempDir(), credential.TokenFile))
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Server: New(Config{Source: source, Tokens: tokens, Authority: authority, Address: "127.0.0.1:7164", Version: "v1", Debug: debug}), tokens: tokens}
	s.hub.every = 20 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.url = "http://" + l.Addr().String()
	return s
}

// lookAgain waits for a look that has begun after it was called.
func (s *site) lookAgain(t *testing.T) {
	t.Helper()
	for range 2 {
		next := s.hub.next()
		s.hub.rouse()
		select {
		case <-next:
		case <-time.After(patience):
			t.Fatal("the hub does not look")
		}
	}
}

// get asks for a path and returns the answer, whose body is closed at the end of the test.
func (s *site) get(t *testing.T, path, authorization string) *http.Response {
	t.Helper()
	return s.ask(t, http.MethodGet, path, authorization)
}

// ask is get with a method.
func (s *site) ask(t *testing.T, method, path, authorization string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		q.Header.Set("Authorization", authorization)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a
}

// recorded is the answer of a handler without a connection.
func recorded(s *Server, path, token string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	q := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	s.handler.ServeHTTP(w, q)
	return w
}

// change does something while nothing of a hub changes.
func (h *hub) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}
