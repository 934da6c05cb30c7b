package coordinator_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
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
			j := newShared(t, c.least, c.most)
			j.cfg.Servers = []rpc.ParameterServerClient{j.server.Client}
			p := rig.SGD(0, true, 1, 1)
			j.server.Serve(p)
			j.wanted = c.first
			j.now = j.start()
			ranks := max(c.first, c.last)
			if err := rig.Each(ranks, func(i int) error {
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
			if got := p.Variables["w0"].Float32s()[0]; math.Abs(float64(got)+batchMean*lastRound) > 1e-4 {
				t.Errorf("%d rounds moved the parameter to %v, want %v", lastRound, got, -batchMean*lastRound)
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
