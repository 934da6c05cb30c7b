package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// A watcher reads the events of the coordinators of a job, one coordinator after the other, and enters them into the record. It knows how far it has
// read the events of the last one, so that a broken stream goes on there.
type watcher struct {
	job    *Job
	client rpc.CoordinatorClient

	turn sync.Mutex // held while events are entered and told; before job.mu

	// Guarded by job.mu.
	history uint64             // of the events that count: how often the coordinators of the attempt have gone back to a checkpoint
	fence   uint64             // of the coordinator whose event came last
	next    uint64             // number of its next event
	cut     context.CancelFunc // ends the stream that is read; nil: none
	all     chan struct{}      // closed when a coordinator has said that the job has ended well: no more events come
}

func newWatcher(j *Job, client rpc.CoordinatorClient) *watcher {
	return &watcher{job: j, client: client, all: make(chan struct{})}
}

// watch reads events until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	retry(ctx, w.job, "the steps of the job", func() error {
		ctx, cut := context.WithCancel(ctx)
		defer cut()
		m := &rpc.WatchRequest{Job: w.job.ID}
		w.job.withLock(func() { w.cut, m.Fence, m.From = cut, w.fence, w.next })
		w.job.acks.again()
		stream, err := w.client.Watch(ctx, m, grpc.WaitForReady(true)) // at once when there is a coordinator: its job may be short
		for err == nil {
			var m *rpc.WatchResponse
			if m, err = stream.Recv(); err == nil {
				err = w.take(ctx, m)
			}
		}
		if ctx.Err() != nil {
			return io.EOF
		}
		return err
	})
}

// forget ignores events of an attempt that has ended. job.mu is held.
func (w *watcher) forget() {
	if w.cut != nil {
		w.cut()
	}
	w.all, w.history = make(chan struct{}), 0
}

// told returns a channel that is closed when all events of this attempt have come.
func (w *watcher) told() <-chan struct{} {
	w.job.mu.Lock()
	defer w.job.mu.Unlock()
	return w.all
}

// heard is how many events of its coordinator it has read. It never stays while events come.
func (w *watcher) heard() uint64 {
	w.job.mu.Lock()
	defer w.job.mu.Unlock()
	return w.next
}

// take enters the events of a message of a stream. The stream ends with ctx. Watchers are told the steps before the job can hear of its end: nothing is
// told after that.
func (w *watcher) take(ctx context.Context, m *rpc.WatchResponse) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	j := w.job
	j.telling.Lock()
	defer j.telling.Unlock()
	first := false
	var end *job.JobStatus
	told := make([]*job.Event, 0, len(m.Events))
	j.mu.Lock()
	if ctx.Err() != nil {
		j.mu.Unlock()
		return ctx.Err()
	}
	missed, err := w.place(m)
	if missed > 0 {
		j.miss(missed)
	}
	for _, e := range m.Events {
		if err != nil {
			break
		}
		end = e.GetStatus()
		if step := e.GetStep(); step != nil {
			begins, tell := j.addStep(step)
			if first = first || begins; tell {
				told = append(told, e)
			}
		}
		if v := e.GetEvaluated(); v != nil && j.addEvaluated(v) {
			told = append(told, e)
		}
	}
	j.mu.Unlock()
	if missed > 0 {
		j.manager.cfg.Log.Warn("steps of the job were told and forgotten before they were heard", "job", j.ID, "missed", missed)
	}
	if first {
		var s *job.JobStatus
		j.withLock(func() { s = proto.CloneOf(j.status) })
		told = slices.Insert(told, 0, &job.Event{What: &job.Event_Status{Status: s}})
		j.manager.cfg.Log.Info("job", "job", j.ID, "state", s.State)
	}
	if len(m.Events) > 0 {
		_ = tell(j, false, told...)
	}
	if end != nil {
		j.withLock(func() {
			if err = ctx.Err(); err == nil {
				w.end(end)
			}
		})
	}
	return err
}

// place checks the number of the first event of a message, and returns how many events before it were missed. It refuses events of a coordinator that
// has lost its lock, once its successor has spoken. job.mu is held.
func (w *watcher) place(m *rpc.WatchResponse) (missed uint64, err error) {
	wrong := func(got, want string) error {
		return fault.E(fault.Stale, fault.At("coordinator"), fault.Got(got), fault.Want(want))
	}
	switch {
	case m.History != w.history: // of an earlier one; or of one that the listener is about to hear of
		return 0, wrong(fmt.Sprintf("an event of history %d", m.History), fmt.Sprintf("one of history %d", w.history))
	case m.Fence < w.fence:
		return 0, wrong(fmt.Sprintf("an event of the one of fence %d", m.Fence), fmt.Sprintf("one of fence %d", w.fence))
	case m.Fence > w.fence:
		w.fence, w.next = m.Fence, 0
	}
	if m.Number < w.next {
		return 0, wrong(fmt.Sprintf("event %d", m.Number), fmt.Sprintf("event %d or a later one", w.next))
	}
	missed, w.next = m.Number-w.next, m.Number+uint64(len(m.Events))
	return missed, nil
}

// end takes the last event of a coordinator: a status. job.mu is held.
func (w *watcher) end(s *job.JobStatus) {
	w.job.reported = wire.FaultOf(s.Failure)
	if s.State != job.State_SUCCEEDED {
		return // another coordinator may go on
	}
	select {
	case <-w.all:
	default:
		close(w.all)
	}
}

// finalReports asks the coordinator for the last queues, and pserver 0 for the last ledger. They answer when all trainers have left, before they end
// themselves. Each process of the two roles is asked. Only the answer of the last process counts: an earlier one was lost, or its attempt has ended.
// The goroutine of the jobRun calls the methods.
type finalReports struct {
	ctx   context.Context // ends the calls
	job   *Job
	peers *peers
	group *sync.WaitGroup               // of the goroutines that call
	asked map[cluster.Member]*finalCall // changed with job.mu held

	ledger *rpc.LedgerResponse // the last one; nil: it is not known. Guarded by job.mu
}

// A finalCall is the call to one process.
type finalCall struct {
	cancel   context.CancelFunc // is called with job.mu held. No answer is entered after it
	answered <-chan struct{}
	told     time.Time // when its answer was entered, zero before; guarded by job.mu
}

func newFinalReports(ctx context.Context, j *Job, p *peers, group *sync.WaitGroup) *finalReports {
	return &finalReports{ctx: ctx, job: j, peers: p, group: group, asked: map[cluster.Member]*finalCall{}}
}

// starts calls a process that is being started, if it is of the coordinator or of pserver 0. The answer of the process before does not count any
// more.
func (l *finalReports) starts(m cluster.Member) {
	switch m {
	case cluster.Member{Role: job.Role_COORDINATOR}:
		l.ask(m, "the last queues", func(ctx context.Context) (func(), error) {
			q, err := wire.Queues(ctx, l.peers.coordinator, queuesRequest(l.job.ID, true))
			return func() { l.job.reports.enterQueues(q); enterDropped(&l.job.record, q) }, err
		})
	case cluster.Member{Role: job.Role_PSERVER}:
		l.ask(m, "the last ledger", func(ctx context.Context) (func(), error) {
			first, err := l.peers.of.Server(0)
			if err != nil {
				return nil, err
			}
			ledger, err := wire.Ledger(ctx, m.String(), first, &rpc.LedgerRequest{Job: l.job.ID, Final: true})
			if err == nil && !ledger.Complete {
				l.job.withLock(func() {
					if ctx.Err() == nil {
						l.job.reports.ledger = ledger
					}
				})
				err = fault.E(fault.Unavailable, fault.At(m.String()), fault.Got("the ledger of a process that has ended early"), fault.Want("that of one in its place"))
			}
			return func() { l.job.reports.ledger, l.ledger = ledger, ledger }, err
		})
	}
}

func (l *finalReports) ask(m cluster.Member, what string, ask func(context.Context) (enter func(), err error)) {
	ctx, cancel := context.WithCancel(l.ctx)
	answered := make(chan struct{})
	call := &finalCall{cancel: cancel, answered: answered}
	l.job.withLock(func() {
		if before, ok := l.asked[m]; ok {
			before.cancel()
		}
		l.asked[m] = call
	})
	l.group.Go(func() {
		defer close(answered)
		defer cancel()
		retry(ctx, l.job, what, func() error {
			enter, err := ask(ctx)
			if err != nil {
				return err
			}
			l.job.withLock(func() {
				if ctx.Err() == nil {
					enter()
					call.told = time.Now()
				}
			})
			return nil
		})
	})
}

// told reports whether the last process of a role has told the end after a probe has asked. The answer to the probe is void then: it may have been on its way for long. What a probe
// asks later counts, as a job may go back after that. job.mu is held.
func (l *finalReports) told(m cluster.Member, asked time.Time) bool {
	if l == nil { // the roles have not begun
		return false
	}
	call := l.asked[m]
	return call != nil && call.told.After(asked)
}

// forget gives up the calls of an attempt that has ended. job.mu is held.
func (l *finalReports) forget() {
	for _, q := range l.asked {
		q.cancel()
	}
	clear(l.asked)
	l.ledger = nil
}

// wait waits for the answers of the last processes, or until done is closed.
func (l *finalReports) wait(done <-chan struct{}) {
	for _, q := range l.asked {
		select {
		case <-q.answered:
		case <-done:
		}
	}
}

const (
	firstPause = 5 * time.Millisecond   // between two tries of a call; it doubles
	retryPause = 100 * time.Millisecond // the longest pause; a short job does not last longer
	sayAgain   = 10 * time.Second       // between two log lines about the same error
)

// retry repeats a call, which asks a server for what, until it succeeds or ctx ends. It logs a new error at once, and the same error again after
// sayAgain. It does not log io.EOF.
func retry(ctx context.Context, j *Job, what string, call func() error) {
	var last string
	var said time.Time
	for pause := firstPause; ; pause = min(2*pause, retryPause) {
		err := call()
		if err == nil || ctx.Err() != nil {
			return
		}
		if err = wire.FromStatus("", err); !errors.Is(err, io.EOF) && (err.Error() != last || time.Since(said) > sayAgain) {
			last, said = err.Error(), time.Now()
			level := slog.LevelWarn
			if errors.Is(err, fault.Unavailable) {
				level = slog.LevelInfo // the server is gone, and will be started again
			}
			j.manager.cfg.Log.Log(ctx, level, "asked again for "+what, "job", j.ID, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// subscribe calls told with each value of a channel of the registry, until ctx ends. If the store refuses and the channel is closed, it is opened
// again.
func subscribe[T any](ctx context.Context, j *Job, what string, open func(context.Context) (<-chan T, error), told func(T)) {
	retry(ctx, j, what, func() error {
		channel, err := open(ctx)
		if err != nil {
			return err
		}
		for v := range channel {
			told(v)
		}
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("no more word of it"),
			fault.Hint("look at the rights of the user in etcd"))
	})
}

// acknowledgements passes on to the coordinators of a job how far its follower has come. A coordinator that has followed another is told again, and
// what was said of an attempt that has ended is not passed on.
type acknowledgements struct {
	job     *Job
	changed chan struct{} // holds a value when there is something to pass on

	// Guarded by job.mu.
	attempt   int32
	steps     uint64
	evaluated uint64             // the evaluation after so many steps was acknowledged; 0: none
	cut       context.CancelFunc // ends the call that is under way; nil: none was made
}

func newAcknowledgements(j *Job) *acknowledgements {
	return &acknowledgements{job: j, changed: make(chan struct{}, 1)}
}

// add takes the word of the follower: of an attempt, it has been told all steps below a number, or the evaluation after so many. The word is refused if the attempt has not begun or the
// steps were not told yet. What is said of an earlier attempt comes too late and changes nothing.
func (a *acknowledgements) add(m *rpc.AcknowledgeRequest) error {
	attempt, steps := m.Attempt, max(m.Steps, m.Evaluated)
	a.job.mu.Lock()
	defer a.job.mu.Unlock()
	where := fault.At("job " + a.job.ID)
	switch now := a.job.status.Attempt; {
	case attempt < 0 || attempt > now:
		return fault.E(fault.InvalidArgument, where, fault.Gotf("an acknowledgement of steps of attempt %d", attempt), fault.Wantf("attempt %d", now))
	case attempt == now && steps > a.job.next:
		return fault.E(fault.InvalidArgument, where, fault.Gotf("an acknowledgement of the steps below %d", steps),
			fault.Wantf("at most %d, because no later step was told", a.job.next))
	}
	if attempt > a.attempt {
		a.attempt, a.steps, a.evaluated = attempt, 0, 0
	}
	if attempt == a.attempt {
		a.steps, a.evaluated = max(a.steps, m.Steps), max(a.evaluated, m.Evaluated)
	}
	a.again()
	return nil
}

// again passes on what is known once more: there may be another coordinator.
func (a *acknowledgements) again() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// forget ends the call that is under way: it must not reach the coordinator of the next attempt. job.mu is held.
func (a *acknowledgements) forget() {
	if a.cut != nil {
		a.cut()
	}
}

// passOn works until ctx ends. It names the history of the steps that w enters, so that a coordinator that has gone back does not count steps of the history before.
func (a *acknowledgements) passOn(ctx context.Context, client rpc.CoordinatorClient, w *watcher) {
	for {
		select {
		case <-a.changed:
		case <-ctx.Done():
			return
		}
		retry(ctx, a.job, "the acknowledgement of steps", func() error {
			ctx, cut := context.WithCancel(ctx)
			defer cut()
			a.job.mu.Lock()
			a.cut = cut
			m := &rpc.AcknowledgeRequest{Job: a.job.ID, Steps: a.steps, Attempt: a.attempt, Evaluated: a.evaluated, History: new(w.history)}
			current := a.attempt == a.job.status.Attempt
			a.job.mu.Unlock()
			if !current || m.Steps == 0 && m.Evaluated == 0 {
				return nil
			}
			_, err := client.Acknowledge(ctx, m)
			return err
		})
	}
}
