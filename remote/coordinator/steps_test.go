package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/grpc"
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

// reporting are the ways in which trainers send reports: each in a message of its own; those of each trainer in one message, the trainers in either
// order; and all of them twice, because the first answer was lost.
var reporting = map[string]func(t *testing.T, s running, reports []*rpc.TrainerStep){
	"one by one": func(t *testing.T, s running, reports []*rpc.TrainerStep) {
		for _, m := range reports {
			if err := s.report(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	},
	"together": func(t *testing.T, s running, reports []*rpc.TrainerStep) { reportTogether(t, s, reports, 0, 1) },
	"together, the last trainer first, and twice": func(t *testing.T, s running, reports []*rpc.TrainerStep) {
		reportTogether(t, s, reports, 1, 1, 0, 0)
	},
}

// reportTogether sends the reports of each of the ranks in one message.
func reportTogether(t *testing.T, s running, reports []*rpc.TrainerStep, ranks ...uint32) {
	t.Helper()
	for _, rank := range ranks {
		var all []*rpc.TrainerStep
		for _, m := range reports {
			if m.Id.Rank == rank {
				all = append(all, m)
			}
		}
		if err := s.report(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
	}
}

// A coordinator that dies has acknowledged reports that nobody was told of. The next one tells those that trainers send again before they join, each
// whole and once, and those before them not at all.
func TestAcknowledgedReportsOutliveTheCoordinator(t *testing.T) {
	for name, report := range reporting {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, config(2))
			s := h.start()
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 40)
			var all []*rpc.TrainerStep
			for round := range uint64(4) {
				all = append(all, half(1, 0, round), half(1, 1, round))
			}
			report(t, s, all)
			for _, server := range h.servers {
				server.train(4)
			}
			s.stop()
			<-s.ended
			s = h.start()
			report(t, s, all[4:])
			s.joinAll(1, 0, 1)
			report(t, s, []*rpc.TrainerStep{half(2, 0, 4), half(2, 1, 4)})
			if err := pstest.Parallel(2, func(rank int) error {
				_, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, uint32(rank), 5)})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			steps, _, err := s.watch(t.Context())
			if err != nil || len(steps) != 3 {
				t.Fatal(steps, err)
			}
			for i, step := range steps {
				if want := fmt.Sprintf("0.%d 1.%d ", i+2, i+2); step.Step != uint64(i+2) || step.Unreported != 0 || string(step.Fetched[0].Stream) != want {
					t.Errorf("step %d is %v, want the values %s", i+2, step, want)
				}
			}
		})
	}
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
		for how, report := range reporting {
			t.Run(name+", "+how, func(t *testing.T) {
				h := newHome(t, config(2))
				s := h.start()
				s.joinAll(0, 0, 1)
				report(t, s, c.reports)
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
				report(t, s, c.late)
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
}

// A message is taken whole or not at all: one that has a report which no trainer makes changes nothing.
func TestReportsAreTakenTogether(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	steps := make([]*rpc.TrainerStep, 3)
	for round := range steps {
		steps[round] = &rpc.TrainerStep{Id: firstID(0, uint64(round)), Rows: 8, GlobalRows: 8}
	}
	steps[1].Rows = 9
	if err := s.report(t.Context(), steps...); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
	if n := coordinator.WrittenSteps(s.Server); n != 0 {
		t.Errorf("%d steps of a message that was refused", n)
	}
	steps[1].Rows = 8
	for range 2 {
		if err := s.report(t.Context(), steps...); err != nil {
			t.Error(err)
		}
		if n := coordinator.WrittenSteps(s.Server); n != 3 {
			t.Errorf("%d steps, want 3", n)
		}
	}
	if err := s.report(t.Context()); err != nil {
		t.Error("a message without steps:", err)
	}
}

// A coordinator that finds that all trainers have left tells how many steps there were: the one before may not have come to it.
func TestStepsAfterTheLastTrainer(t *testing.T) {
	h := newHome(t, config(1))
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30)
	for round := range uint64(3) {
		if err := s.report(t.Context(), &rpc.TrainerStep{Id: firstID(0, round), Rows: 8, GlobalRows: 8}); err != nil {
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

// A step that nobody lived to report but those whose generation ended before they had received what servers hold has that, too: as it was after the
// round, by the name that it has there. It is told without what no server has.
func TestStepsHaveWhatServersHold(t *testing.T) {
	for name, c := range map[string]struct {
		there map[string]float32
		last  func(m *rpc.TrainerStep) *rpc.TrainerStep // of trainer 1
		asked int
		want  string
	}{
		"it is fetched":             {map[string]float32{"rate.there": 0.25}, pending, 2, "y y rate 0.25 "},
		"one has it":                {map[string]float32{"rate.there": 0.5}, withRate, 0, "y y rate 0.125 "},
		"no server has it any more": {nil, pending, 1, "y y "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(2)
			recv := &program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"rate"}}}
			recv.SetAttr("epmap", []string{"pserver:1"})
			recv.SetAttr("recv_varnames", []string{"rate.there"})
			cfg.Program.Global().Append(recv)
			cfg.Fetch = []string{"y", "rate"}
			cfg.Merge = func(reports []*rpc.TrainerStep) (all []*job.Value, err error) {
				for _, r := range reports {
					all = append(all, r.Fetched...)
				}
				return all, nil
			}
			h := newHome(t, cfg)
			holder := &holding{fakeServer: h.servers[1], values: c.there}
			h.cfg.Servers[1] = holder
			s := h.start()
			s.joinAll(0, 0, 1)
			for _, m := range []*rpc.TrainerStep{pending(half(1, 0, 0)), c.last(half(1, 1, 0))} {
				if err := s.report(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			for _, server := range h.servers {
				server.train(1)
			}
			s.lose(1)
			h.live.set(1, 300)
			if err := pstest.Parallel(2, func(rank int) error {
				_, err := s.join(uint32(rank), []uint64{incarnation(0), 300}[rank], uint64(1-rank))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for rank := range uint32(2) {
				if _, err := s.client.Leave(t.Context(), &rpc.LeaveRequest{Id: idOf(2, rank, 0)}); err != nil {
					t.Fatal(err)
				}
			}
			steps, _, err := s.watch(t.Context())
			if err != nil || len(steps) != 1 {
				t.Fatal(steps, err)
			}
			if got := shown(t, steps[0]); got != c.want || holder.asked != c.asked {
				t.Errorf("the step has %q after %d questions, want %q after %d", got, holder.asked, c.want, c.asked)
			}
		})
	}
}

// withRate adds a learning rate to what was fetched.
func withRate(m *rpc.TrainerStep) *rpc.TrainerStep {
	m.Fetched = append(m.Fetched, &job.Value{Name: "rate", Stream: tensor.AppendStream(nil, pstest.Filled(1, 0.125))})
	return m
}

// shown lists what a step has: first the names alone of what is not a tensor here.
func shown(t *testing.T, step *job.Step) (names string) {
	rates := ""
	for _, v := range step.Fetched {
		if v.Name != "rate" {
			names += v.Name + " "
			continue
		}
		value, _, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		rates += fmt.Sprintf("rate %v ", value.Float32s()[0])
	}
	return names + rates
}

// holding is a pserver with variables, whose first answer is that it has not applied the last round yet.
type holding struct {
	*fakeServer
	values map[string]float32
	asked  int
}

func (s *holding) GetVariable(_ context.Context, m *rpc.GetRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.VariableChunk], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[m.Name]
	if s.asked++; !ok || !m.AnyVersion {
		return nil, fault.New(fault.NotFound, "a variable that is not here")
	}
	version := s.round
	if s.asked == 1 {
		version--
	}
	return &one{header: &rpc.VariableChunk{Name: m.Name, Version: version}, value: pstest.Filled(1, value)}, nil
}

// one is an answer of one chunk.
type one struct {
	grpc.ServerStreamingClient[rpc.VariableChunk]
	header *rpc.VariableChunk
	value  *tensor.Tensor
	over   bool
}

func (o *one) RecvMsg(m any) error {
	if o.over {
		return io.EOF
	}
	o.over = true
	data, err := wire.Memory(o.value)
	if err != nil {
		return err
	}
	o.header.Dtype, o.header.Dims, o.header.Bytes = int32(o.value.DType()), o.value.Dims(), int64(len(data))
	in := m.(*wire.Incoming)
	room, err := in.Place(o.header, len(data))
	in.Refused = err
	copy(room, data)
	return nil
}

// The values of the last step turn out to be impossible to merge when all trainers have left: the job has failed all the same.
func TestLastStepThatCannotBeMerged(t *testing.T) {
	cfg := config(1)
	merging, over := make(chan struct{}), make(chan struct{})
	cfg.Merge = func([]*rpc.TrainerStep) ([]*job.Value, error) {
		close(merging)
		<-over
		return nil, fault.New(fault.ShapeMismatch, "rows of other lengths")
	}
	s := newHome(t, cfg).start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30)
	reported := make(chan error, 1)
	whole := half(1, 0, 0)
	whole.Rows = whole.GlobalRows
	go func() { reported <- s.report(t.Context(), whole) }()
	<-merging
	if err := s.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		_, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: firstID(0, 0), Dataset: "d"})
		ended = errors.Is(wire.FromStatus("coordinator", err), fault.Stale)
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	close(over)
	if err := <-reported; !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("the report is answered with %v", err)
	}
	if err := <-s.ended; !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("the job ends with %v", err)
	}
}

// While the values of a step are merged, which takes long when they are large, others are answered; what they report is told afterwards.
func TestTasksWhileValuesAreMerged(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("sync %v", sync), func(t *testing.T) {
			cfg := config(2)
			cfg.Sync = sync
			merge, merging, merged := cfg.Merge, make(chan struct{}, 10), make(chan struct{})
			cfg.Merge = func(reports []*rpc.TrainerStep) ([]*job.Value, error) {
				merging <- struct{}{}
				<-merged
				return merge(reports)
			}
			s := start(t, cfg)
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 30)
			ends := make(chan error, 6)
			report := func(round uint64) {
				for rank := range uint32(2) {
					go func() { ends <- s.report(t.Context(), half(1, rank, round)) }()
				}
			}
			report(0)
			<-merging
			report(1)
			report(2)
			ctx, cancel := context.WithTimeout(t.Context(), pstest.Patience)
			defer cancel()
			if _, err := s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: firstID(0, 0), Dataset: "d"}); err != nil {
				t.Error(err)
			}
			close(merged)
			for range cap(ends) {
				if err := <-ends; err != nil {
					t.Error(err)
				}
			}
			if err := pstest.Parallel(2, func(rank int) error { return s.leave(t.Context(), uint32(rank)) }); err != nil {
				t.Fatal(err)
			}
			steps, _, err := s.watch(t.Context())
			if err != nil || len(steps) == 0 {
				t.Fatal(steps, err)
			}
			for i, step := range steps {
				if step.Step != uint64(i) || sync && string(step.Fetched[0].Stream) != strings.ReplaceAll("0.N 1.N ", "N", fmt.Sprint(i)) {
					t.Errorf("step %d is %v", i, step)
				}
			}
			if sync && len(steps) != 3 {
				t.Errorf("%d steps", len(steps))
			}
		})
	}
}
