package coordinator_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// Whoever comes and goes, at whatever point of a round: each round trains every row of its batch once, weighted by rows.
func TestMembersComeAndGo(t *testing.T) {
	for name, c := range map[string]struct {
		least, most, first, last int
		act                      func(j *shared, rank uint32, generation, round uint64) (die bool)
	}{
		"four become three": {1, 4, 4, 3, func(j *shared, rank uint32, _, round uint64) bool { // B1 row 4
			if rank == 3 && round == 2 {
				j.current().lose(3)
				return true
			}
			return false
		}},
		"one of four drains": {1, 4, 4, 3, func(j *shared, rank uint32, generation, round uint64) bool {
			if rank == 1 && round == 3 {
				_, err := j.current().client.Leave(j.t.Context(), &rpc.LeaveRequest{Id: idOf(generation, rank, round), Drained: true})
				if err != nil {
					j.t.Error(err)
				}
				return true
			}
			return false
		}},
		"a fixed job pauses": {2, 0, 2, 2, func(j *shared, rank uint32, generation, round uint64) bool {
			if rank == 1 && round == 2 && generation == 1 {
				s := j.current()
				s.lose(1)
				q := s.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "paused" })
				if w := q.Waits[0]; w.What != "generation 2" || w.By[len(w.By)-1] != "trainer 1" || w.Since == nil || w.Until == nil {
					j.t.Errorf("paused for %v", w)
				}
				if err := j.trainer(1, 300, nil); err != nil {
					j.t.Error(err)
				}
				return true
			}
			return false
		}},
		"a third joins": {1, 3, 2, 3, func(j *shared, rank uint32, generation, round uint64) bool {
			if round == 2 && generation == 1 {
				j.current().Want(3)
				j.current().status(func(q *rpc.QueuesResponse) bool { return q.Phase == "regrouping" || q.Generation > 1 })
			}
			return false
		}},
		"the coordinator crashes": {2, 0, 2, 2, func(j *shared, rank uint32, generation, round uint64) bool {
			if rank == 0 && round == 2*generation {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.now.stop()
				<-j.now.ended
				j.now = j.start()
			}
			return false
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newShared(t, c.least, c.most, c.last)
			j.cfg.Servers = []rpc.ParameterServerClient{j.server.Client}
			p := pstest.SGD(0, true, 1, 1)
			j.server.Serve(p)
			j.wanted = c.first
			j.now = j.start()
			ranks := max(c.first, c.last)
			if err := pstest.Parallel(ranks, func(i int) error {
				rank := uint32(i)
				return j.trainer(rank, incarnation(rank), func(generation, round uint64) bool { return c.act(j, rank, generation, round) })
			}); err != nil {
				t.Fatal(err)
			}
			if err := <-j.current().ended; err != nil {
				t.Fatal(err)
			}
			if err := j.server.Wait(); err != nil {
				t.Error(err)
			}
			if got := p.Variables["w0"].Float32s()[0]; math.Abs(float64(got)+batchMean*float64(j.rounds)) > 1e-4 {
				t.Errorf("%d rounds moved the parameter to %v, want %v", j.rounds, got, -batchMean*float64(j.rounds))
			}
			if !j.sizes[c.first] || !j.sizes[c.last] {
				t.Errorf("generations of %v trainers, want %d and %d", j.sizes, c.first, c.last)
			}
		})
	}
}

// A task that cannot be read comes back in a new segment until it has failed too often; then it is left out, and so is what was committed.
func TestPoisonInSyncMode(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30)
	fail := func(s running, generation uint64) {
		r, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: idOf(generation, 0, 0), Dataset: "d", Position: 10})
		if err != nil || r.Task.GetId() != 1 {
			t.Fatal(r, err)
		}
		if _, err := s.client.TaskFailed(t.Context(), &rpc.TaskFailedRequest{Id: idOf(generation, 0, 0), Task: r.Task, Reason: "damaged"}); err != nil {
			t.Fatal(err)
		}
	}
	fail(s, 1)
	if r := s.joinAll(1, 0)[0]; r.Generation != 2 || len(r.Segment.Skip) != 0 || r.Segment.FirstRound != 0 {
		t.Error(r)
	}
	for _, server := range h.servers {
		server.train(4)
		server.enter(0, &rpc.RecordRange{From: 0, To: 8})
	}
	fail(s, 2)
	s.stop() // the next coordinator goes on with it
	<-s.ended
	s = h.start()
	r := s.joinAll(2, 0)[0]
	if r.Round != 4 || r.Segment.GetFirstRound() != 4 || len(r.Segment.Skip) != 2 || r.Segment.Skip[0].To != 8 || r.Segment.Skip[1].From != 10 ||
		r.Segment.Skip[1].To != 20 {
		t.Error(r)
	}
	q := s.status(func(*rpc.QueuesResponse) bool { return true })
	if d := q.Queues[0].DiscardedTasks; len(d) != 1 || d[0].Id != 1 || d[0].Reason != "damaged" || d[0].Failures != 2 {
		t.Error(d)
	}
}

// A global batch has so many rows; the gradient of a row is its number, so that every round moves the parameter by their mean, whoever computes them.
const (
	batchRows = 10
	batchMean = 4.5
)

// shared is a sync job over a real pserver, whose trainers take part message by message.
type shared struct {
	*home
	server *pstest.Server
	atLast int // how many trainers the last generation has
	mu     sync.Mutex
	now    running
	rounds uint64       // of the job: 6, and more until a generation of atLast trainers trains one
	sizes  map[int]bool // of the generations that trained
}

func newShared(t *testing.T, least, most, atLast int) *shared {
	cfg := config(least)
	cfg.TrainersMax = most
	h := newHome(t, cfg)
	j := &shared{home: h, server: pstest.New(t, pstest.Config(max(least, most))), rounds: 6, atLast: atLast, sizes: map[int]bool{}}
	return j
}

// trainer is one process. It trains to the end of the job, unless act, which is called when it has sent its gradient to a round, ends it.
func (j *shared) trainer(rank uint32, incarnation uint64, act func(generation, round uint64) (die bool)) error {
	t := pstest.Trainer{Client: j.server.Client, Rank: rank}
	ctx := j.t.Context()
	for last := uint64(0); ; {
		j.live.set(rank, incarnation)
		r, err := j.current().client.Join(ctx, &rpc.JoinRequest{Id: idOf(last, rank, 0), Incarnation: incarnation})
		if errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Canceled) {
			continue
		}
		if err != nil || r.DataEnded { // it was about to leave when the others had
			return err
		}
		last = r.Generation
		died, err := j.train(t, r, act)
		if died || err == nil || !errors.Is(err, fault.Superseded) {
			return err
		}
	}
}

// more returns whether the job has a round for a generation of so many trainers.
func (j *shared) more(round uint64, trainers uint32) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.sizes[j.atLast] {
		j.rounds = max(j.rounds, round+1)
	}
	if round >= j.rounds {
		return false
	}
	j.sizes[int(trainers)] = true
	return true
}

// train trains in one generation.
func (j *shared) train(t pstest.Trainer, r *rpc.JoinResponse, act func(generation, round uint64) bool) (died bool, err error) {
	ctx := j.t.Context()
	round := r.Round
	for ; j.more(round, r.Trainers); round++ {
		from, to := batchRows*r.Position/r.Trainers, batchRows*(r.Position+1)/r.Trainers
		mean := float32(from+to-1) / 2
		who := idOf(r.Generation, t.Rank, round)
		who.Fence = r.Fence
		if _, err := t.SendAs(ctx, who, "w0@GRAD", pstest.Filled(1, mean)); err != nil {
			return false, err
		}
		if act != nil && act(r.Generation, round) {
			return true, nil
		}
		barrier := &rpc.BarrierRequest{Id: who, Rows: int64(to - from), Variables: 1, Records: []*rpc.RecordRange{{From: int64(from), To: int64(to)}},
			Pass: int32(round)}
		if _, err := t.Client.SendBarrier(ctx, barrier); err != nil {
			return false, err
		}
		next := idOf(r.Generation, t.Rank, round+1)
		next.Fence = r.Fence
		if _, _, err := t.GetAs(ctx, &rpc.GetRequest{Id: next, Name: "w0"}, 1); err != nil {
			return false, err
		}
	}
	if _, err := t.Client.Complete(ctx, &rpc.CompleteRequest{Id: idOf(r.Generation, t.Rank, round)}); err != nil {
		return false, err
	}
	_, err = j.current().client.Leave(ctx, &rpc.LeaveRequest{Id: idOf(r.Generation, t.Rank, round)})
	return false, err
}

func (j *shared) current() running {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// A trainer that is lost between its last two messages has done its work: some servers know, and the job ends well, now and for the next coordinator,
// which need not ask servers that have gone since.
func TestTrainerIsLostAfterItsWork(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for told := 1; told <= 2; told++ {
			t.Run(fmt.Sprintf("sync %v, %d servers", sync, told), func(t *testing.T) {
				cfg := config(1)
				cfg.Sync = sync
				h := newHome(t, cfg)
				s := h.start()
				s.joinAll(0, 0)
				for _, server := range h.servers[2-told:] {
					server.mu.Lock()
					server.completed = []uint32{0}
					server.mu.Unlock()
				}
				s.lose(0)
				if err := <-s.ended; err != nil {
					t.Fatal(err)
				}
				h.servers[0].mu.Lock()
				h.servers[0].gone = true
				freezes := h.servers[1].freezes
				h.servers[0].mu.Unlock()
				if err := <-h.start().ended; err != nil {
					t.Fatal(err)
				}
				if a, b := h.servers[0], h.servers[1]; a.dismissed != 1 || b.dismissed != 2 || b.freezes != freezes {
					t.Errorf("server 0 was told the end %d times, server 1 %d times, after %d more freezes", a.dismissed, b.dismissed, b.freezes-freezes)
				}
			})
		}
	}
}

// Where no server knows that the trainer has done its work, the job waits for it.
func TestTrainerIsLostBeforeItsEnd(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	s.lose(0)
	s.status(func(q *rpc.QueuesResponse) bool { return q.Phase == "paused" })
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.Generation != 2 {
		t.Errorf("%v, %v", r, err)
	}
}

// A trainer that has completed, and has not been heard of at some server, is told that it has done everything, while the job waits for the others.
func TestJoinOfWhoHasLeft(t *testing.T) {
	h := newHome(t, config(2))
	s := h.start()
	s.joinAll(0, 0, 1)
	h.servers[0].mu.Lock()
	h.servers[0].completed = []uint32{1}
	h.servers[0].mu.Unlock()
	s.lose(0)
	for _, incarnation := range []uint64{incarnation(1), 300} {
		if r, err := s.join(1, incarnation, 1); err != nil || !r.DataEnded || r.Generation != 0 {
			t.Errorf("%v, %v", r, err)
		}
	}
	s.stop() // the next coordinator knows it, too
	<-s.ended
	s = h.start()
	h.live.set(0, 200)
	if r, err := s.join(0, 200, 0); err != nil || r.Trainers != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(3, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A server that does not answer at the end is waited for, by name, and not for ever.
func TestSilentServerAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, config(1))
		h.cfg.RejoinDeadline = time.Minute
		h.cfg.Live = nil
		s, ended := coordinator.New(h.cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
		if _, err := s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, 0, 0), Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		h.servers[1].mu.Lock()
		h.servers[1].gone = true
		h.servers[1].mu.Unlock()
		began := time.Now()
		if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: firstID(0, 0)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		q, err := s.ShowQueues(t.Context(), &rpc.QueuesRequest{Job: "job"})
		if err != nil || q.Phase != "ending" || len(q.Waits) != 1 || len(q.Waits[0].By) != 1 || q.Waits[0].By[0] != "pserver 1" {
			t.Errorf("%v, %v", q, err)
		}
		if err := <-ended; err != nil || time.Since(began) > 2*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: firstID(0, 0)}); errors.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	})
}

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
		if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(20)}}); err != nil {
			t.Fatal(err)
		}
		if r, err := s.GetTask(t.Context(), &rpc.GetTaskRequest{Id: firstID(0, 0), Dataset: "d"}); err != nil || r.Task == nil {
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
