package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// half is the report of one of two trainers, of its four rows.
func half(generation uint64, rank uint32, round uint64) *rpc.TrainerStep {
	return &rpc.TrainerStep{Id: idOf(generation, rank, round), Rows: 4, GlobalRows: 8, Trainers: 2,
		Fetched: []*job.Value{{Name: "y", Stream: fmt.Appendf(nil, "%d.%d ", rank, round)}}}
}

// pending makes a report that of a trainer which does not know whether its round has committed.
func pending(m *rpc.TrainerStep) *rpc.TrainerStep {
	m.Pending = true
	return m
}

// Whoever is lost, and with whatever coordinator: as many steps are told as rounds have committed, each at most once, and each says for how many of
// its rows its values stand.
func TestStepsOfLostTrainers(t *testing.T) {
	for name, c := range map[string]struct {
		reports []*rpc.TrainerStep // of the first generation, in order
		applied uint64             // rounds, when it ends
		all     bool               // have declared the next one
		crash   bool               // of the coordinator, when trainer 1 is lost
		late    []*rpc.TrainerStep // after the second generation has begun
		want    string             // by step: what was fetched, and of how many rows it is not
	}{
		"all is reported": {
			reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0), half(1, 0, 1), half(1, 1, 1)},
			applied: 2, want: "0: 0.0 1.0 -0, 1: 0.1 1.1 -0",
		},
		"one was behind": {reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0), half(1, 0, 1), half(1, 0, 2)}, applied: 3,
			want: "0: 0.0 1.0 -0, 1: 0.1 -4, 2: 0.2 -4"},
		"nobody lived to report": {reports: []*rpc.TrainerStep{half(1, 1, 0)}, applied: 4, want: "0: 1.0 -4, 3: -0"},
		"the last round commits": {
			reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0), pending(half(1, 0, 1)), pending(half(1, 1, 1))},
			applied: 1, all: true,
			want: "0: 0.0 1.0 -0, 1: 0.1 1.1 -0"},
		"the last round does not": {reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0), pending(half(1, 0, 1))}, applied: 1, want: "0: 0.0 1.0 -0"},
		"it does not, as far as both know": {
			reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0), pending(half(1, 0, 1)), pending(half(1, 1, 1))},
			applied: 1, want: "0: 0.0 1.0 -0",
		},
		"one knows of it, one does not": {
			reports: []*rpc.TrainerStep{half(1, 1, 0), half(1, 1, 1), half(1, 0, 0), pending(half(1, 0, 1))},
			applied: 2,
			want:    "0: 0.0 1.0 -0, 1: 0.1 1.1 -0"},
		"too late": {
			reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0)},
			applied: 2, late: []*rpc.TrainerStep{half(1, 0, 1), pending(half(1, 1, 1)), pending(half(1, 1, 2))},
			want: "0: 0.0 1.0 -0, 1: -0"},
		// The first coordinator has told the first steps already; what is told once more its watchers know.
		"of the coordinator, too": {reports: []*rpc.TrainerStep{half(1, 0, 0), half(1, 1, 0), half(1, 0, 1)}, applied: 3, crash: true, want: "2: -0"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, config(2))
			s := h.start()
			s.joinAll(0, 0, 1)
			report := func(reports []*rpc.TrainerStep) {
				for _, m := range reports {
					if err := s.report(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
			}
			report(c.reports)
			for _, server := range h.servers {
				server.train(c.applied)
				if c.all {
					server.declared = []*rpc.Declared{{Rank: 0, Rows: 4}, {Rank: 1, Rows: 4}}
				}
			}
			if c.crash {
				h.live.remove(1)
				s.stop()
				<-s.ended
				s = h.start()
			} else {
				s.lose(1)
			}
			again := make(chan error, 1)
			go func() {
				h.live.set(1, 300)
				_, err := s.join(1, 300, 0)
				again <- err
			}()
			s.joinAll(1, 0)
			if err := <-again; err != nil {
				t.Fatal(err)
			}
			report(c.late)
			for rank := range uint32(2) {
				if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, rank, 0)}); err != nil {
					t.Fatal(err)
				}
			}
			steps, _, err := s.watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, step := range steps {
				text := fmt.Sprintf("%d: ", step.Step)
				for _, v := range step.Fetched {
					text += string(v.Stream)
				}
				told = append(told, fmt.Sprintf("%s-%d", text, step.Unreported))
				if len(step.Fetched) > 0 && step.Rows != 8 {
					t.Errorf("step %d has %d rows", step.Step, step.Rows)
				}
			}
			if got := strings.Join(told, ", "); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
			rounds := c.applied
			if c.all {
				rounds++
			}
			if last := steps[len(steps)-1]; last.Step+1 != rounds {
				t.Errorf("%d rounds have committed, and the last step is %d", rounds, last.Step)
			}
		})
	}
}

// A coordinator that finds that all trainers have left tells how many steps there were: the one before may not have come to it.
func TestStepsAfterTheLastTrainer(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30)
	for round := range uint64(3) {
		if err := s.report(t.Context(), &rpc.TrainerStep{Id: id(0, round), Rows: 8, GlobalRows: 8}); err != nil {
			t.Fatal(err)
		}
	}
	h.servers[0].mu.Lock() // the servers do not hear of the end before the coordinator has
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.stop()
	h.servers[0].mu.Unlock()
	<-s.ended
	s = h.start()
	if steps, _, err := s.watch(t.Context()); err != nil || len(steps) != 1 || steps[0].Step != 2 {
		t.Error(steps, err)
	}
}
