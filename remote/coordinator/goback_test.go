package coordinator_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

func (s *fakeServer) Restore(_ context.Context, m *rpc.RestoreRequest, _ ...grpc.CallOption) (*rpc.RestoreResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.hear(m.Id); err != nil {
		return nil, err
	}
	if err := s.refuses[m.Name]; err != nil {
		return nil, err
	}
	s.restored = append(s.restored, m)
	s.round, s.history, s.declared, s.applied = m.Id.Round, m.History, nil, nil
	return &rpc.RestoreResponse{Records: 40}, nil
}

// saved is a job of two trainers and three passes over 20 records, whose checkpoints are in a folder.
func saved(t *testing.T) *home {
	cfg := config(2)
	cfg.Passes, cfg.Checkpoints = 3, coordinator.Checkpoints{Store: t.TempDir(), Run: "run", Every: time.Hour, Keep: 2}
	return newHome(t, cfg)
}

// checkpoint makes a checkpoint at the beginning of a pass, and returns its name.
func (h *home) checkpoint(run string, steps uint64, pass int32) string {
	h.t.Helper()
	ctx := h.t.Context()
	store, err := checkpoint.Open(ctx, h.cfg.Checkpoints.Store)
	if err != nil {
		h.t.Fatal(err)
	}
	defer store.Close()
	name := checkpoint.NewName(run, steps)
	w, err := tensor.FromSlice([]float32{1})
	if err != nil {
		h.t.Fatal(err)
	}
	shard, err := store.WriteShard(ctx, name, 0, []checkpoint.Piece{{Variable: "w", Dims: []int64{1}, Rows: 1, Value: w}})
	if err == nil {
		err = store.Publish(ctx, name, &state.Checkpoint{Progress: &job.Progress{Steps: steps, Pass: pass, Reader: strings.Repeat("0", 64)}, Shards: []*job.Shard{shard}})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return name
}

// complete lists the complete checkpoints.
func (h *home) complete() map[string]bool {
	h.t.Helper()
	store, err := checkpoint.Open(h.t.Context(), h.cfg.Checkpoints.Store)
	if err != nil {
		h.t.Fatal(err)
	}
	defer store.Close()
	list, err := store.List(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range list {
		if e.Complete {
			names[e.Name] = true
		}
	}
	return names
}

func (s running) goBack(history uint64) (*rpc.GoBackResponse, error) {
	m, err := s.client.GoBack(s.home.t.Context(), &rpc.GoBackRequest{Id: firstID(0, 0), History: history})
	return m, wire.FromStatus("coordinator", err)
}

// trained is a coordinator whose job is in pass 2.
func (h *home) trained() running {
	h.t.Helper()
	s := h.start()
	s.joinAll(0, 0, 1)
	s.reportDataset(h.t, 20)
	for pass := range int32(3) {
		for rank := range uint32(2) {
			if _, err := s.client.GetTask(h.t.Context(), &rpc.GetTaskRequest{Id: firstID(rank, uint64(pass)*2), Dataset: "d", Pass: pass, Records: 20}); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	for _, server := range h.servers {
		server.train(5)
	}
	return s
}

// next is the coordinator that follows one which has gone back.
func (h *home) next(s running) running {
	h.t.Helper()
	if err := <-s.ended; !errors.Is(err, coordinator.ErrWentBack) {
		h.t.Fatalf("the coordinator ends with %v", err)
	}
	back, err := coordinator.LastBack(h.t.Context(), h.store.lead().State)
	if err != nil || back == nil {
		h.t.Fatal(back, err)
	}
	h.cfg.Back = back
	return h.start()
}

// A job that has lost a pserver goes on from its last checkpoint with the trainers that it has. What they say of the rounds before does not count.
func TestGoBack(t *testing.T) {
	h := saved(t)
	name := h.checkpoint("run", 2, 1)
	h.checkpoint("run", 0, 0)
	h.checkpoint("another", 9, 2)
	s := h.trained()
	h.servers[1].mu.Lock()
	h.servers[1].gone = true
	h.servers[1].mu.Unlock()
	if err := s.report(t.Context(), &rpc.TrainerStep{Id: firstID(0, 0), Rows: 1, GlobalRows: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Lost(t.Context(), serverMember(1)); err != nil {
		t.Fatal(err)
	}
	freezes := h.servers[0].freezes
	s.lose(1) // nothing begins before it is said where
	answer := make(chan error, 1)
	go func() { _, err := s.goBack(1); answer <- err }()
	s.status(func(q *rpc.QueuesResponse) bool {
		for _, w := range q.Waits {
			if w.What == "the state of the last checkpoint on all pservers" {
				return true
			}
		}
		return false
	})
	h.servers[1].forget()
	h.servers[1].mu.Lock()
	h.servers[1].gone = false
	h.servers[1].mu.Unlock()
	if err := <-answer; !errors.Is(err, fault.Unavailable) {
		t.Errorf("the coordinator that goes back answers %v", err)
	}
	if n := h.servers[0].freezes; n != freezes {
		t.Errorf("%d servers were frozen meanwhile", n-freezes)
	}

	h.live.set(1, incarnation(1))
	s = h.next(s)
	for i, server := range h.servers {
		if m := server.restored; len(m) != 1 || m[0].Name != name || m[0].Id.Round != 2 || m[0].Id.Generation != 1 || m[0].History != 1 {
			t.Errorf("pserver %d was restored by %v", i, m)
		}
	}
	if r, err := s.goBack(1); err != nil || r.Progress.GetSteps() != 2 || r.Progress.GetPass() != 1 || r.Records != 40 {
		t.Errorf("the next coordinator answers %v, %v", r, err)
	}
	for _, r := range s.joinAll(1, 0, 1) {
		if r.Generation != 2 || r.Round != 2 || r.Segment.GetPass() != 1 || r.Segment.GetFirstRound() != 2 {
			t.Errorf("a trainer joins %v", r)
		}
	}
	for _, generation := range []uint64{1, 2} {
		for rank := range uint32(2) {
			y := &job.Value{Name: "y", Stream: []byte{byte('0' + generation)}}
			if err := s.report(t.Context(), &rpc.TrainerStep{Id: idOf(generation, rank, 2), Rows: 1, GlobalRows: 2, Fetched: []*job.Value{y}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	stream, err := s.client.Watch(t.Context(), &rpc.WatchRequest{Job: pstest.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if step := m.GetEvents()[0].GetStep(); err != nil || m.History != 1 || step.GetStep() != 2 || string(step.GetFetched()[0].GetStream()) != "22" {
		t.Errorf("the first event is %v, %v", m, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: firstID(0, 0)}); !errors.Is(wire.FromStatus("", err), fault.Superseded) {
		t.Errorf("a trainer that has trained all before the way back leaves: %v", err)
	}
	q := s.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "running" })
	if len(q.Queues) != 1 || q.Queues[0].Pass != 1 || q.Queues[0].Passes != 3 {
		t.Errorf("the data is at %v", q.Queues)
	}
	if _, err := s.goBack(3); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a history that is not the next one: %v", err)
	}

	for _, server := range h.servers { // once more, to the same checkpoint
		server.train(3)
	}
	if _, err := s.goBack(2); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	s = h.next(s)
	for _, r := range s.joinAll(2, 0, 1) {
		if r.Generation != 3 || r.Round != 2 {
			t.Errorf("a trainer joins %v", r)
		}
	}
}

// A coordinator is killed when all pservers have the state of the checkpoint, and nothing of that is durable. The next one takes them for those of another history,
// unless it is told that the job goes back: it begins no generation, and goes back with the job.
func TestKilledOnTheWayBack(t *testing.T) {
	h := saved(t)
	name := h.checkpoint("run", 2, 1)
	s := h.trained()
	h.store.failing(func([]cluster.Change) error {
		s.stop()
		return fault.New(fault.Unavailable, "the end of this coordinator")
	})
	if _, err := s.goBack(1); err == nil {
		t.Error("the coordinator that is killed has gone back")
	}
	<-s.ended
	for i, server := range h.servers {
		if n := len(server.restored); n != 1 {
			t.Fatalf("pserver %d was restored %d times before the end of the coordinator", i, n)
		}
	}
	h.store.failing(nil)
	h.cfg.Awaits = 1
	s = h.start()
	s.status(func(q *rpc.QueuesResponse) bool {
		return q.Phase == "paused" && len(q.Waits) == 1 && q.Waits[0].By[0] == "the listener"
	})
	if _, err := s.goBack(1); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the next coordinator answers %v", err)
	}
	s = h.next(s)
	for i, server := range h.servers {
		if m := server.restored; len(m) != 2 || m[1].Name != name || m[1].History != 1 {
			t.Errorf("pserver %d was restored by %v", i, m)
		}
	}
	if r := s.joinAll(1, 0, 1)[0]; r.Generation != 2 || r.Round != 2 || r.History != 1 {
		t.Errorf("a trainer joins %v", r)
	}
}

// Where there is no way back the coordinator ends, and what is durable is as before.
func TestGoBackFails(t *testing.T) {
	corrupt := fault.New(fault.Corrupt, "damaged")
	for name, c := range map[string]struct {
		prepare func(h *home, s running)
		left    int // complete checkpoints
	}{
		"no checkpoint": {func(h *home, s running) { h.checkpoint("another", 2, 1) }, 1},
		"all damaged": {func(h *home, s running) {
			h.servers[1].refuses = map[string]error{h.checkpoint("run", 2, 1): corrupt, h.checkpoint("run", 0, 0): corrupt}
		}, 0},
		"a pserver that fails": {func(h *home, s running) {
			h.servers[0].refuses = map[string]error{h.checkpoint("run", 2, 1): fault.New(fault.LostMember, "no server")}
		}, 1},
		"a store that refuses": {func(h *home, s running) {
			h.checkpoint("run", 2, 1)
			h.store.failing(func([]cluster.Change) error { return fault.New(fault.TooLarge, "too large") })
		}, 1},
		"a trainer that has left": {func(h *home, s running) {
			h.checkpoint("run", 2, 1)
			if err := s.leave(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}, 1},
		"all is trained": {func(h *home, s running) { h.checkpoint("run", 6, 3) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := saved(t)
			s := h.trained()
			c.prepare(h, s)
			before := h.store.copy()
			if _, err := s.goBack(1); !errors.Is(err, fault.LostState) {
				t.Errorf("the listener is told %v", err)
			}
			if err := <-s.ended; !errors.Is(err, fault.LostState) {
				t.Errorf("the coordinator ends with %v", err)
			}
			if after := h.store.copy(); !maps.EqualFunc(before, after, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("what is durable has changed")
			}
			if n := len(h.complete()); n != c.left {
				t.Errorf("%d checkpoints are left, want %d", n, c.left)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) { // the older one is whole
		h := saved(t)
		s := h.trained()
		h.checkpoint("run", 0, 0)
		h.servers[1].refuses = map[string]error{h.checkpoint("run", 2, 1): corrupt}
		if _, err := s.goBack(1); !errors.Is(err, fault.Unavailable) {
			t.Errorf("the listener is told %v", err)
		}
		s = h.next(s)
		if r := s.joinAll(1, 0, 1)[0]; r.Generation != 2 || r.Round != 0 {
			t.Errorf("a trainer joins %v", r)
		}
		if n := len(h.complete()); n != 1 {
			t.Errorf("%d checkpoints are left", n)
		}
	})
	t.Run("without checkpoints", func(t *testing.T) {
		s := start(t, config(1))
		if _, err := s.goBack(1); !errors.Is(err, fault.InvalidArgument) {
			t.Error(err)
		}
	})
}

// The entry of a way back is checked before a coordinator follows it.
func TestLastBack(t *testing.T) {
	s := newStore()
	lead := s.lead()
	if b, err := coordinator.LastBack(t.Context(), lead.State); b != nil || err != nil {
		t.Error(b, err)
	}
	for _, b := range [][]byte{{}, []byte("no message"), {0x08, 0x01}} {
		s.entries["job/back"] = b
		if b, err := coordinator.LastBack(t.Context(), lead.State); !errors.Is(err, fault.Corrupt) {
			t.Error(b, err)
		}
	}
}

// A listener that has not heard yet that the job has gone back speaks of the steps before: no round begins because of them, and none is the last. One of an earlier build does not
// name the history, and is believed.
func TestWordsOfAnotherHistory(t *testing.T) {
	cfg := reading(t, 1)
	cfg.MaxAhead, cfg.Back = 1, &state.Back{History: 1, Progress: &job.Progress{}, Passes: 1}
	h := newHome(t, cfg)
	for _, server := range h.servers {
		server.history = 1
	}
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	acknowledge := func(steps uint64, history *uint64) error {
		_, err := s.client.Acknowledge(t.Context(), &rpc.AcknowledgeRequest{Job: "job", Steps: steps, History: history})
		return wire.FromStatus("coordinator", err)
	}
	for _, history := range []uint64{0, 2} {
		if err := acknowledge(9, new(history)); !errors.Is(err, fault.Unavailable) {
			t.Errorf("steps of history %d are acknowledged: %v", history, err)
		}
		_, err := s.client.Finish(t.Context(), &rpc.FinishDataRequest{Id: idOf(0, 0, 0), History: new(history)})
		if err = wire.FromStatus("coordinator", err); !errors.Is(err, fault.Unavailable) {
			t.Errorf("the end of history %d: %v", history, err)
		}
	}
	for step, history := range []*uint64{new(uint64(1)), nil} {
		if err := acknowledge(uint64(step)+1, history); err != nil {
			t.Error(err)
		}
		if r, err := s.permit(1, 0, uint64(step)+1); err != nil || r.Until != uint64(step)+2 || r.End {
			t.Errorf("after step %d: %v, %v", step, r, err)
		}
	}
	if r, err := s.client.Finish(t.Context(), &rpc.FinishDataRequest{Id: idOf(0, 0, 0), History: new(uint64(1))}); err != nil || r.Steps != 3 {
		t.Errorf("the end: %v, %v", r, err)
	}
}
