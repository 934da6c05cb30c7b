package coordinator_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

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
			if err := rig.Each(2, func(rank int) error {
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
	m.Fetched = append(m.Fetched, &job.Value{Name: "rate", Stream: tensor.AppendStream(nil, rig.Filled(1, 0.125))})
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
	return &one{header: &rpc.VariableChunk{Name: m.Name, Version: version}, value: rig.Filled(1, value)}, nil
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
