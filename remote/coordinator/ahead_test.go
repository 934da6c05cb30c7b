package coordinator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
)

// storeAway is a state whose commits wait while etcd is away, and are then made.
type storeAway struct {
	cluster.State
	away atomic.Pointer[chan struct{}]
}

func (h *storeAway) Commit(ctx context.Context, changes []cluster.Change) error {
	if back := h.away.Load(); back != nil {
		select {
		case <-*back:
		case <-ctx.Done():
			return fault.E(fault.DeadlineExceeded, fault.Got("no etcd"))
		}
	}
	return h.State.Commit(ctx, changes)
}

// While etcd does not answer, a sync job goes on to the end of its pass: its trainers are told tasks for as long as it takes. The next pass waits, and so
// does the end of the job that its user wants. A coordinator that begins with what is durable then goes on.
func TestSyncTasksWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Passes, cfg.StartDeadline = 2, time.Minute
		h := newHome(t, cfg)
		start := func() (*coordinator.Server, *storeAway, chan error, context.CancelFunc) {
			lead := h.store.lead()
			away := &storeAway{State: lead.State}
			lead.State = away
			ctx, cancel := context.WithCancel(t.Context())
			s, ended := coordinator.New(h.cfg), make(chan error, 1)
			go func() { ended <- s.Run(ctx, lead) }()
			return s, away, ended, cancel
		}
		join := func(s *coordinator.Server, last uint64) uint64 {
			t.Helper()
			generations := make(chan uint64, 2)
			for rank := range uint32(2) {
				h.live.set(rank, incarnation(rank))
				go func() {
					r, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(last, rank, 0), Incarnation: incarnation(rank)})
					if err != nil {
						t.Error(err)
					}
					generations <- r.GetGeneration()
				}()
			}
			<-generations
			return <-generations
		}
		s, away, ended, stop := start()
		g := join(s, 0)
		for rank := range uint32(2) {
			if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: idOf(g, rank, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(100)}}); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(s *coordinator.Server, g uint64, rank uint32, pass int32, position int64) (*rpc.GetTaskResponse, error) {
			return s.GetTask(t.Context(), &rpc.GetTaskRequest{Id: idOf(g, rank, uint64(position)), Dataset: "d", Pass: pass, Position: position, Records: 10})
		}
		if r, err := ask(s, g, 0, 0, 0); err != nil || r.Task.GetId() != 0 {
			t.Fatal(r, err)
		}
		back := make(chan struct{})
		away.away.Store(&back)
		for position := int64(10); position < 100; position += 10 {
			for rank := range uint32(2) {
				if r, err := ask(s, g, rank, 0, position); err != nil || r.Task.GetId() != position/10 {
					t.Fatalf("trainer %d at record %d is told %v, %v", rank, position, r, err)
				}
			}
			time.Sleep(cfg.StartDeadline) // by the clock of the test: nothing that waits is given up, because nothing waits
		}
		told := make(chan error, 2)
		go func() {
			r, err := ask(s, g, 0, 1, 0)
			if err == nil && r.Task.GetPass() != 1 {
				err = errors.New("no task of the next pass")
			}
			told <- err
		}()
		synctest.Wait()
		time.Sleep(cfg.StartDeadline / 2)
		if len(told) > 0 {
			t.Fatalf("told of the next pass before it is durable: %v", <-told)
		}
		away.away.Store(nil)
		close(back)
		if err := <-told; err != nil {
			t.Error(err)
		}
		// Once more, and now the coordinator dies while its store is behind.
		back = make(chan struct{})
		away.away.Store(&back)
		for position := int64(10); position < 50; position += 10 {
			if r, err := ask(s, g, 0, 1, position); err != nil || r.Task.GetId() != position/10 {
				t.Fatalf("at record %d: %v, %v", position, r, err)
			}
		}
		stop()
		<-ended
		s, away, ended, _ = start()
		g = join(s, g)
		if r, err := ask(s, g, 1, 1, 40); err != nil || r.Task.GetId() != 4 || r.Task.Pass != 1 {
			t.Errorf("the next coordinator tells %v, %v", r, err)
		}
		// What has to be durable waits as long as for a member that is missing.
		never := make(chan struct{})
		away.away.Store(&never)
		if r, err := ask(s, g, 1, 1, 60); err != nil || r.Task.GetId() != 6 {
			t.Errorf("told %v, %v", r, err)
		}
		began := time.Now()
		go func() { _, err := s.Finish(t.Context(), &rpc.FinishDataRequest{Id: idOf(0, 0, 0)}); told <- err }()
		if err := <-ended; !errors.Is(err, fault.DeadlineExceeded) || time.Since(began) < cfg.StartDeadline {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := <-told; err == nil {
			t.Error("the end of the job is not durable, and its user is told so")
		}
	})
}
