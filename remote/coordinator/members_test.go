package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/id"
)

// Trainers that join go on together, and the job ends in good order when all have left.
func TestJoinAndLeave(t *testing.T) {
	s := start(t, config(3))
	for rank, r := range s.joinAll(0, 0, 1, 2) {
		if r.Trainers != 3 || r.Generation != 1 || int(r.Position) != rank || r.Fence != uint64(s.lead.Fence) || r.Round != 0 || r.DataEnded {
			t.Errorf("trainer %d joined %v", rank, r)
		}
	}
	for _, rank := range []uint32{2, 2, 0, 1} { // a repeated Leave does no harm
		if err := s.leave(t.Context(), rank); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A job has not succeeded because its trainers say that they leave: passes that nobody has begun, and a dataset that nobody has reported, are left.
func TestLeaveBeforeTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    func(*coordinator.Config)
		report bool
		says   string
	}{
		"passes are left": {func(c *coordinator.Config) { c.Passes = 100000 }, true, "1 of 100000"},
		"in async mode":   {func(c *coordinator.Config) { c.Passes, c.Sync = 100000, false }, true, "1 of 100000"},
		"no dataset":      {func(c *coordinator.Config) { c.Passes = 1 }, false, "no dataset"},
		"feeds may come":  {func(c *coordinator.Config) { c.Fed = true }, false, "feed steps"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := reading(t, 2)
			c.cfg(&cfg)
			s := start(t, cfg)
			s.joinAll(0, 0, 1)
			if c.report {
				s.reportDataset(t, 30)
			}
			for _, rank := range []uint32{0, 1} {
				if err := s.leave(t.Context(), rank); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-s.ended; !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the job ends with %v, want %v with %q", err, fault.Corrupt, c.says)
			}
		})
	}
}

// Trainers that never come are named when the start deadline has passed, to those who wait, too.
func TestStartDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3)
		cfg.StartDeadline = time.Minute
		h := newHome(t, cfg)
		s := coordinator.New(h.cfg)
		told := make(chan error, 1)
		h.live.set(1, 0)
		go func() {
			_, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 1, 0)})
			told <- err
		}()
		began := time.Now()
		err := s.Run(t.Context(), h.store.lead())
		if time.Since(began) != time.Minute || !errors.Is(err, fault.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "trainer 0, trainer 2 within 1m0s") {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if got := <-told; got != err {
			t.Errorf("a trainer that waited was told %v", got)
		}
	})
}

// One trainer is chosen to save, told so when the others have left, and again when it asks again. The next coordinator knows.
func TestRequestSaveModel(t *testing.T) {
	h := newHome(t, config(3))
	s := h.start()
	s.joinAll(0, 0, 1, 2)
	granted := make(chan error, 1)
	save := func(s running, generation uint64, rank uint32) (bool, error) {
		r, err := s.client.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: idOf(generation, rank, 0)})
		return r.GetGranted(), err
	}
	go func() {
		_, err := save(s, 1, 2)
		granted <- err
	}()
	s.status(func(q *rpc.QueuesResponse) bool {
		return len(q.Waits) == 1 && q.Waits[0].Who == "trainer 2" && len(q.Waits[0].By) == 2
	})
	if ok, err := save(s, 1, 0); err != nil || ok {
		t.Error(ok, err)
	}
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := <-granted; err == nil {
		t.Error("granted while trainer 1 was there")
	}
	<-s.ended

	s = h.start()
	s.joinAll(1, 1, 2)
	if ok, err := save(s, 2, 1); err != nil || ok {
		t.Error(ok, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, 1, 0)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ok, err := save(s, 2, 2); err != nil || !ok {
			t.Error(ok, err)
		}
	}
}

// knock lets a process join of which it is not known whether it holds its key.
func (s running) knock(rank uint32, incarnation uint64) error {
	_, err := s.Join(s.home.t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation})
	return err
}

// The word of a trainer may arrive when its process is gone, also when that was before this coordinator began, or before anything had been heard of
// it: it does not become a member, for nobody would tell of its end.
func TestJoinOfOneWhoIsGone(t *testing.T) {
	cfg := async(1)
	cfg.TrainersMax = 2
	h := newHome(t, cfg)
	s := h.start()
	h.live.set(1, 100)
	s.lose(1)
	if err := s.knock(1, 100); !errors.Is(err, fault.Fenced) {
		t.Errorf("before anything had been heard of it: %v", err)
	}
	h.live.set(1, 200)
	if err := s.knock(1, 100); !errors.Is(err, fault.Fenced) {
		t.Errorf("when another has taken its place: %v", err)
	}
	s.stop()
	<-s.ended
	h.live.remove(1)
	s = h.start()
	s.lose(1)
	if err := s.knock(1, 200); !errors.Is(err, fault.Fenced) {
		t.Errorf("before this coordinator began: %v", err)
	}
	if r, err := s.join(1, 300, 0); err != nil || r.Trainers != 1 {
		t.Errorf("one that lives is told %v, %v", r, err)
	}
}

// A trainer is lost while it is found out whether it lives: what is found out is not the last word of it.
func TestLossOfOneWhoJoins(t *testing.T) {
	h := newHome(t, config(1))
	h.live.set(0, 100)
	var s running
	asked := 0
	h.cfg.Live = func(ctx context.Context) (map[cluster.Member]id.Incarnation, error) {
		live, err := h.live.list(ctx)
		if asked++; asked == 1 {
			s.lose(0) // asks, too
		}
		return live, err
	}
	s = h.start()
	if err := s.knock(0, 100); !errors.Is(err, fault.Fenced) || asked != 3 {
		t.Errorf("it is told %v after %d questions", err, asked)
	}
}

// A trainer that waits no more, because it is told to end, does not become a member when it is found out that it lives still.
func TestDrainOfOneWhoJoins(t *testing.T) {
	cfg := async(1)
	cfg.TrainersMax = 2
	h := newHome(t, cfg)
	h.live.set(0, 100)
	joining, giveUp := context.WithCancel(t.Context())
	var s running
	asked := 0
	h.cfg.Live = func(ctx context.Context) (map[cluster.Member]id.Incarnation, error) {
		live, err := h.live.list(ctx)
		if asked++; asked == 1 {
			giveUp()
			if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(0, 0, 0), Drained: true}); err != nil {
				t.Error(err)
			}
		}
		return live, err
	}
	s = h.start()
	if _, err := s.Join(joining, &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 100}); !errors.Is(err, fault.Canceled) {
		t.Errorf("it is told %v", err)
	}
	h.live.remove(0)
	if r, err := s.join(1, 101, 0); err != nil || r.Trainers != 1 || asked != 2 {
		t.Errorf("another is told %v, %v after %d questions", r, err, asked)
	}
}

// Trap 14: an election to save lasts until the one who was elected is lost. No time ends it, and nothing that began with an election before it.
func TestSaveGrantsAreNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := async(1)
		cfg.TrainersMax = 3
		h := newHome(t, cfg)
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		s.Want(3)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		for rank := range uint32(3) {
			h.live.set(rank, incarnation(rank))
			go func() {
				_, _ = s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation(rank)})
			}()
		}
		synctest.Wait()
		save := func(rank uint32) chan bool {
			granted := make(chan bool, 1)
			go func() {
				r, err := s.RequestSaveModel(t.Context(), &rpc.SaveModelRequest{Id: firstID(rank, 0)})
				granted <- err == nil && r.Granted
			}()
			synctest.Wait()
			return granted
		}
		refused := func(rank uint32) {
			t.Helper()
			answer := save(rank)
			select {
			case granted := <-answer:
				if !granted {
					return
				}
			default: // it was elected and waits for the others
			}
			t.Errorf("trainer %d is elected, too", rank)
		}
		save(2)
		time.Sleep(24 * time.Hour)
		refused(0)
		h.live.remove(2)
		if err := s.Lost(t.Context(), trainerOf(2)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		second := save(0)
		time.Sleep(24 * time.Hour)
		refused(1)
		if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: firstID(1, 0)}); err != nil {
			t.Fatal(err)
		}
		if !<-second {
			t.Error("the second election was ended")
		}
		s.Fail(nil)
		<-ended
	})
}

func (s running) loseServer(index int) {
	s.home.t.Helper()
	if err := s.Lost(s.home.t.Context(), serverMember(index)); err != nil {
		s.home.t.Fatal(err)
	}
}

// Before the first round, another server takes the place of one that is lost. Afterwards the job pauses and says why, until it is begun again; so
// does the next coordinator, which hears of the loss as soon as it has begun.
func TestLostServer(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	h.servers[1].forget()
	s.loseServer(1)
	if r := s.joinAll(1, 0)[0]; r.Generation != 2 || r.Round != 0 {
		t.Error(r)
	}
	if err := s.report(t.Context(), &rpc.TrainerStep{Id: idOf(2, 0, 0), Rows: 8, GlobalRows: 8}); err != nil {
		t.Fatal(err)
	}
	for _, server := range h.servers {
		server.train(1)
	}
	paused := func(q *rpc.QueuesResponse) bool {
		for _, w := range q.Waits {
			if q.Phase == "paused" && w.Who == "coordinator" && len(w.By) == 1 && w.By[0] == "pserver 1" && w.Until.IsValid() {
				return true
			}
		}
		return len(s.ended) > 0
	}
	s.loseServer(1)
	s.loseServer(1)
	s.status(paused)
	s.lose(0) // of which the next generation knows
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.Round != 1 {
		t.Errorf("%v, %v", r, err)
	}
	s.stop()
	if err := <-s.ended; !errors.Is(err, fault.Canceled) {
		t.Errorf("ended by itself: %v", err)
	}
	s = h.start()
	s.loseServer(1)
	s.status(paused)
	if len(s.ended) > 0 {
		t.Error(<-s.ended)
	}
}

// Where nobody begins the job again it fails, with the name of the server.
func TestLostServerForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, async(1))
		h.cfg.Live = nil
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		if _, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Lost(t.Context(), serverMember(1)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, fault.LostState) || time.Since(began) != h.cfg.StartDeadline {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
