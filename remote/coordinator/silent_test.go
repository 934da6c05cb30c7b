package coordinator_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

// A server that is told to end while it is asked for its state says so, and the one that takes its place is asked: its answer is not that of the
// coordinator's own end.
func TestServerThatIsToldToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, config(1))
		h.servers[1].ending = true
		h.live.set(0, 1)
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		if r, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 1}); err != nil || r.Generation != 1 {
			t.Errorf("%v, %v", r, err)
		}
		s.Fail(nil)
		<-ended
	})
}

// Tasks whose time is over stay where they are while the server that keeps the ledger is silent, and the log says why.
func TestSilentLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, async(1))
		h.cfg.TaskTimeout = [2]time.Duration{time.Minute, time.Minute}
		var log strings.Builder // written by the goroutine that keeps tasks only, and read when it has ended
		h.cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		h.live.set(0, 1)
		if _, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(20)}}); err != nil {
			t.Fatal(err)
		}
		if r, err := s.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(0, 0), Dataset: "d"}); err != nil || r.Task == nil {
			t.Fatal(r, err)
		}
		h.servers[0].mu.Lock()
		h.servers[0].gone = true
		h.servers[0].mu.Unlock()
		time.Sleep(2 * time.Minute)
		s.Fail(nil)
		<-ended
		if !strings.Contains(log.String(), "stay where they are") || !strings.Contains(log.String(), "a server that has ended") {
			t.Errorf("the log says %q", log.String())
		}
	})
}
