package listen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// heard is a watcher of a job that runs, and what it logs.
func heard(t *testing.T, mode job.Mode) (*watcher, *bytes.Buffer) {
	log := &bytes.Buffer{}
	m := NewManager(Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	j := newJob(m, "heard", &job.JobSpec{Mode: mode, Trainers: 2, Pservers: 1}, &plan{}, &jobState{})
	j.roles = newJobRun(j, nil, nil, 2)
	return newWatcher(j, nil), log
}

// tell sends steps from the coordinator of a fence, each in a message of its own. number is that of the event of the first step.
func (w *watcher) tell(ctx context.Context, fence, number uint64, steps ...uint64) (err error) {
	for i, step := range steps {
		err = errors.Join(err, w.take(ctx, message(fence, number+uint64(i), step)))
	}
	return err
}

// tellTogether is tell with one message.
func (w *watcher) tellTogether(ctx context.Context, fence, number uint64, steps ...uint64) (err error) {
	return w.take(ctx, message(fence, number, steps...))
}

// message is one of a coordinator, with steps.
func message(fence, number uint64, steps ...uint64) *rpc.WatchResponse {
	m := &rpc.WatchResponse{Fence: fence, Number: number}
	for _, step := range steps {
		m.Events = append(m.Events, &job.Event{What: &job.Event_Step{Step: &job.Step{Step: step, Rows: 1}}})
	}
	return m
}

// toldOn returns the steps that the job has told on.
func toldOn(j *Job) string {
	var steps []uint64
	_ = j.events.Read(context.Background(), 0, false, func(_ uint64, e *job.Event) error {
		if s := e.GetStep(); s != nil {
			steps = append(steps, s.Step)
		}
		return nil
	})
	return fmt.Sprintf("%v of %d", steps, j.Status().Steps)
}

// Whatever is told, and by whom, and in how many messages: each step is told on once.
func TestTake(t *testing.T) {
	type say struct {
		fence, number uint64
		steps         []uint64
	}
	for name, c := range map[string]struct {
		said          []say
		sync, async   string
		stale, missed bool
	}{
		"one coordinator":     {said: []say{{5, 0, []uint64{0, 1, 2}}}, sync: "[0 1 2] of 3", async: "[0 1 2] of 3"},
		"one after the other": {said: []say{{5, 0, []uint64{0, 1}}, {6, 0, []uint64{2, 3}}}, sync: "[0 1 2 3] of 4", async: "[0 1 2 3] of 4"},
		"the last step again": {said: []say{{5, 0, []uint64{0, 1}}, {6, 0, []uint64{1, 2}}}, sync: "[0 1 2] of 3", async: "[0 1 2 3] of 4"},
		"some were forgotten": {said: []say{{5, 0, []uint64{0, 1}}, {5, 7, []uint64{7, 8}}}, sync: "[0 1 7 8] of 9", async: "[0 1 7 8] of 9",
			missed: true},
		"the first were forgotten": {said: []say{{5, 4, []uint64{4}}}, sync: "[4] of 5", async: "[4] of 5", missed: true},
		"again what is known":      {said: []say{{5, 0, []uint64{0, 1}}, {5, 1, []uint64{1}}}, sync: "[0 1] of 2", async: "[0 1] of 2", stale: true},
		"late, by one that was followed": {said: []say{{5, 0, []uint64{0, 1}}, {6, 0, []uint64{2}}, {5, 2, []uint64{2}}, {6, 1, []uint64{3}}},
			sync: "[0 1 2 3] of 4", async: "[0 1 2 3] of 4", stale: true},
		// The process of the second one has been started when the first one's last steps are read: they are the first one's.
		"late, but before the next": {said: []say{{5, 0, []uint64{0}}, {5, 1, []uint64{1, 2}}, {6, 0, []uint64{3}}}, sync: "[0 1 2 3] of 4",
			async: "[0 1 2 3] of 4"},
	} {
		for mode, want := range map[job.Mode]string{job.Mode_SYNC: c.sync, job.Mode_ASYNC: c.async} {
			for how, tell := range map[string]func(w *watcher, ctx context.Context, fence, number uint64, steps ...uint64) error{
				"one by one": (*watcher).tell, "together": (*watcher).tellTogether,
			} {
				w, log := heard(t, mode)
				var err error
				for _, s := range c.said {
					err = errors.Join(err, tell(w, t.Context(), s.fence, s.number, s.steps...))
				}
				if got := toldOn(w.job); got != want || errors.Is(err, fault.Stale) != c.stale || !c.stale && err != nil {
					t.Errorf("%s, %v, %s: told on %s, %v, want %s", name, mode, how, got, err, want)
				}
				if said := strings.Contains(log.String(), "missed="); said != c.missed {
					t.Errorf("%s, %v, %s: logged %s", name, mode, how, log)
				}
			}
		}
	}
}

// Of an attempt that has ended nothing counts for the next one: no step that is still on its way, and not that all has been told.
func TestTakeOfAnEarlierAttempt(t *testing.T) {
	w, _ := heard(t, job.Mode_SYNC)
	old, cut := context.WithCancel(t.Context())
	w.cut = cut
	if err := w.tell(old, 5, 0, 0, 1); err != nil {
		t.Fatal(err)
	}
	ended := func(fence, number uint64, state job.State) bool {
		e := &job.Event{What: &job.Event_Status{Status: &job.JobStatus{State: state}}}
		if err := w.take(t.Context(), &rpc.WatchResponse{Events: []*job.Event{e}, Fence: fence, Number: number}); err != nil {
			t.Error(err)
		}
		select {
		case <-w.told():
			return true
		default:
			return false
		}
	}
	if !ended(5, 2, job.State_SUCCEEDED) {
		t.Error("the end of the first attempt was not heard")
	}
	w.job.withLock(func() { w.job.startOver(w) })
	if err := w.tell(old, 5, 3, 57); !errors.Is(err, context.Canceled) {
		t.Errorf("a step of the first attempt: %v", err)
	}
	if err := w.tell(t.Context(), 6, 0, 0); err != nil {
		t.Error(err)
	}
	if got := toldOn(w.job); got != "[0 1 0] of 1" {
		t.Errorf("told on %s", got)
	}
	if ended(6, 1, job.State_FAILED) || ended(7, 0, job.State_FAILED) || !ended(8, 0, job.State_SUCCEEDED) {
		t.Error("all has been told when a coordinator says that the job has ended well, and not before")
	}
}

// The last steps may come in one message with the end. Who hears that all has been told finds them told on.
func TestTakeOfTheLastSteps(t *testing.T) {
	w, _ := heard(t, job.Mode_SYNC)
	m := message(5, 0, 0, 1)
	m.Events = append(m.Events, &job.Event{What: &job.Event_Status{Status: &job.JobStatus{State: job.State_SUCCEEDED}}})
	told := make(chan string)
	all := w.told()
	go func() {
		<-all
		told <- toldOn(w.job)
	}()
	if err := w.take(t.Context(), m); err != nil {
		t.Error(err)
	}
	if got := <-told; got != "[0 1] of 2" {
		t.Errorf("told on %s", got)
	}
}

// late takes what the service streams.
type late struct {
	grpc.ServerStreamingServer[rpc.Events]
	ctx   context.Context
	steps []uint64
}

func (l *late) Context() context.Context { return l.ctx }

func (l *late) Send(m *rpc.Events) error {
	for _, e := range m.Events {
		l.steps = append(l.steps, e.GetStep().GetStep())
	}
	return nil
}

// Who watches a job that has told more than is kept is told what is kept.
func TestWatchTooLate(t *testing.T) {
	w, _ := heard(t, job.Mode_SYNC)
	const steps = maxEvents + 10
	for step := range uint64(steps) {
		w.job.events.Add(&job.Event{What: &job.Event_Step{Step: &job.Step{Step: step}}})
	}
	w.job.events.End()
	w.job.manager.jobs["heard"] = w.job
	l := &late{ctx: t.Context()}
	if err := (&Server{Manager: w.job.manager}).Watch(&rpc.JobRequest{Job: "heard"}, l); err != nil || len(l.steps) != maxEvents/2+10 ||
		l.steps[len(l.steps)-1] != steps-1 {
		t.Errorf("%d steps, %v", len(l.steps), err)
	}
}

// What a process tells of the end is void when another has been asked in its place, or its attempt has ended, while the answer was on its way.
func TestLateWordOfTheEnd(t *testing.T) {
	for name, followed := range map[string]func(l *finalReports, m cluster.Member){
		"by another process": func(l *finalReports, m cluster.Member) {
			l.ask(m, "the next", func(ctx context.Context) (func(), error) { <-ctx.Done(); return nil, ctx.Err() })
		},
		"by another attempt": func(l *finalReports, _ cluster.Member) { l.job.withLock(l.forget) },
	} {
		w, _ := heard(t, job.Mode_SYNC)
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		l, coordinator := newFinalReports(ctx, w.job, nil, &group), cluster.Member{Role: job.Role_COORDINATOR}
		told, answer := make(chan struct{}), make(chan struct{})
		l.ask(coordinator, "the first", func(context.Context) (func(), error) {
			close(told)
			<-answer
			return func() { w.job.reports.queues = &rpc.QueuesResponse{Generation: 7} }, nil
		})
		<-told
		first := l.asked[coordinator].answered
		followed(l, coordinator)
		close(answer)
		<-first
		w.job.withLock(func() {
			if q := w.job.reports.queues; q != nil {
				t.Errorf("followed %s, the end is as the first one told it: %v", name, q)
			}
		})
		cancel()
		group.Wait()
	}
}

// A lateCoordinator is one whose answer of before the end is read after its last word.
type lateCoordinator struct {
	rpc.CoordinatorClient
}

func (lateCoordinator) Queues(context.Context, *rpc.QueuesRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.Piece], error) {
	return nil, status.Error(codes.Unavailable, "it has ended")
}

// The last word of a process stays, when a probe reads after it what the process has said before.
func TestLastWordStays(t *testing.T) {
	w, _ := heard(t, job.Mode_SYNC)
	j, coordinator := w.job, cluster.Member{Role: job.Role_COORDINATOR}
	var group sync.WaitGroup
	l := newFinalReports(t.Context(), j, nil, &group)
	j.roles.finals = l
	last := &rpc.QueuesResponse{Generation: 7}
	enter, err := askServer(t.Context(), j, &peers{coordinator: lateCoordinator{}}, coordinator)
	if err == nil {
		t.Fatal("a coordinator that has ended answers")
	}
	l.ask(coordinator, "the last queues", func(context.Context) (func(), error) {
		return func() { j.reports.queues = last }, nil
	})
	group.Wait()
	j.withLock(func() {
		enter()
		if j.reports.queues != last {
			t.Errorf("the queues are %v, want %v", j.reports.queues, last)
		}
	})
	j.datasets = []*rpc.Dataset{}
	if enter, err = askServer(t.Context(), j, &peers{coordinator: lateCoordinator{}}, coordinator); err == nil {
		t.Fatal("a coordinator that has ended answers")
	}
	j.withLock(func() {
		if enter(); j.reports.queues == last {
			t.Error("what a probe has asked after the last word is void")
		}
	})
}

// told is a coordinator that notes what it is told of steps.
type told struct {
	rpc.CoordinatorClient
	acknowledged chan *rpc.AcknowledgeRequest
	finish       chan *rpc.FinishDataRequest
}

func (c told) Acknowledge(ctx context.Context, m *rpc.AcknowledgeRequest, _ ...grpc.CallOption) (*rpc.AcknowledgeResponse, error) {
	select {
	case c.acknowledged <- m:
	case <-ctx.Done(): // the same was said twice
	}
	return &rpc.AcknowledgeResponse{}, nil
}

func (c told) Finish(_ context.Context, m *rpc.FinishDataRequest, _ ...grpc.CallOption) (*rpc.FinishDataResponse, error) {
	c.finish <- m
	return &rpc.FinishDataResponse{}, nil
}

// What a listener says of steps names their history: a coordinator that has gone back meanwhile would else take them for its own.
func TestWordsNameTheHistory(t *testing.T) {
	w, _ := heard(t, job.Mode_SYNC)
	j, c := w.job, told{acknowledged: make(chan *rpc.AcknowledgeRequest), finish: make(chan *rpc.FinishDataRequest)}
	j.roles.watcher = w
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { j.acks.passOn(ctx, c, w) })
	group.Go(func() { j.finishing.passOn(ctx, c, w) })
	defer group.Wait()
	defer cancel()
	check := func(attempt int32, steps, history uint64) {
		t.Helper()
		if err := j.acks.add(&rpc.AcknowledgeRequest{Attempt: attempt, Steps: steps}); err != nil {
			t.Fatal(err)
		}
		if m := <-c.acknowledged; m.Steps != steps || m.History == nil || *m.History != history {
			t.Errorf("the coordinator is told %v, want history %d", m, history)
		}
	}
	if err := w.tell(ctx, 1, 0, 0, 1, 2); err != nil {
		t.Fatal(err)
	}
	check(0, 3, 0)
	j.roles.went = &rpc.GoBackResponse{Progress: &job.Progress{Steps: 1}}
	j.roles.wentBack()
	w.job.acks.again() // the stream of steps is opened again: what was told before is not said to the next history
	m := message(2, 0, 1)
	m.History = 1
	if err := w.take(ctx, m); err != nil {
		t.Fatal(err)
	}
	check(1, 2, 1)
	j.finishing.want(nil, false)
	if m := <-c.finish; m.History == nil || *m.History != 1 {
		t.Errorf("the coordinator is asked to end by %v, want history 1", m)
	}
}
