package coordinator

import (
	"context"
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"google.golang.org/grpc"
)

// watcher takes what a call of Watch sends.
type watcher struct {
	grpc.ServerStreamingServer[rpc.WatchResponse]
	ctx    context.Context
	events []event
	calls  int // of Send
}

// event is one of a message.
type event struct {
	fence, number, step uint64
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(m *rpc.WatchResponse) error {
	w.calls++
	for i, e := range m.Events {
		w.events = append(w.events, event{m.Fence, m.Number + uint64(i), e.GetStep().GetStep()})
	}
	return nil
}

// A watcher that comes back goes on where it was. One that was away for longer than steps are kept, and one that comes late, goes on with the oldest
// step that is kept, whose number tells how many it has missed. A position in what another coordinator told means nothing here.
func TestWatchFromAPosition(t *testing.T) {
	const steps = maxEvents + 10
	s := New(Config{})
	s.lead.Fence = 7
	close(s.led)
	for step := range uint64(steps) {
		s.steps.log.Add(&job.Event{What: &job.Event_Step{Step: &job.Step{Step: step}}})
	}
	s.steps.log.End()
	const oldest = maxEvents / 2
	for name, c := range map[string]struct{ fence, from, want uint64 }{
		"comes back":             {7, steps - 5, steps - 5},
		"has all":                {7, steps, steps},
		"was away for long":      {7, 3, oldest},
		"comes late":             {0, 0, oldest},
		"of another":             {6, steps - 5, oldest},
		"of one that is to come": {8, steps - 5, oldest},
	} {
		w := &watcher{ctx: t.Context()}
		if err := s.Watch(&rpc.WatchRequest{Fence: c.fence, From: c.from}, w); err != nil || len(w.events) != int(steps-c.want) || w.calls > 100 {
			t.Errorf("one that %s: %d events in %d messages, %v, want %d", name, len(w.events), w.calls, err, steps-c.want)
		}
		for i, e := range w.events {
			if want := c.want + uint64(i); e != (event{7, want, want}) {
				t.Fatalf("one that %s: event %d is %v, want number %d", name, i, e, want)
			}
		}
	}
}

// Until a coordinator knows which one it is it tells nothing.
func TestWatchBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(Config{}).Watch(&rpc.WatchRequest{}, &watcher{ctx: ctx}); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
}

// A request that fails when it has changed everything that a transaction has leaves nothing of that to the requests after it.
func TestFailedRequestChangesNothing(t *testing.T) {
	first, second := uint32(1), uint32(2)
	elect := func(rank *uint32, err error) *op {
		return &op{apply: func(t *txn) error {
			t.saver = rank
			t.queues["d"] = nil
			t.notes = append(t.notes, note{})
			t.then(func() {})
			if err := t.put(saverKey, &state.Saver{Rank: *rank}); err != nil {
				return err
			}
			return err
		}}
	}
	for name, before := range map[string][]*op{"alone": nil, "after another": {elect(&first, nil)}} {
		txn := &txn{queues: map[string]*queue.Queue{}, keys: map[string]bool{}}
		for _, o := range before {
			txn.apply(o)
		}
		saver, n := txn.saver, len(before)
		failing := elect(&second, fault.New(fault.Internal, "failed"))
		if txn.apply(failing); failing.err == nil {
			t.Errorf("%s: the request did not fail", name)
		}
		if txn.saver != saver || len(txn.changes) != n || len(txn.notes) != n || len(txn.after) != n || len(txn.queues) != n || len(txn.keys) != n {
			t.Errorf("%s: the request that failed has left %+v", name, txn)
		}
		var last []cluster.Change = distinct(txn.changes)
		if len(last) != n {
			t.Errorf("%s: %d changes are written", name, len(last))
		}
	}
}

// ShowQueues is Queues for a test in this process, where time is made up and no connection can be.
func (s *Server) ShowQueues(ctx context.Context, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	return s.overview.queues(ctx, m)
}

// WrittenSteps is how many steps were written.
func WrittenSteps(s *Server) (n uint64) {
	s.locked(func() { n = s.steps.written() })
	return n
}
