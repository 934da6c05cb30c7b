package coordinator_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// saving is a save program that receives rate from one server, and w in two pieces from two.
func saving() *program.Program {
	p := program.New()
	b := p.Global()
	for name, rows := range map[string]int64{"rate": 1, "w": 2, "w.0": 1, "w.1": 1} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows}})
	}
	recv := &program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"rate", "w.0", "w.1"}}}
	recv.SetAttr("epmap", []string{"pserver:1", "pserver:0", "pserver:1"})
	recv.SetAttr("recv_varnames", []string{"rate", "w.block0", "w.block1"})
	b.Append(recv)
	b.Append(&program.Op{Type: "concat", Inputs: map[string][]string{"X": {"w.0", "w.1"}}, Outputs: map[string][]string{"Out": {"w"}}})
	return p
}

// The user of a job that waits for its acknowledgements reads what the servers have after the rounds that may have begun, and constants. What the job
// does not have is left out.
func TestVariablesOfAJobThatReadsItsOwnData(t *testing.T) {
	cfg := config(1)
	cfg.MaxAhead, cfg.Save = 1, saving()
	cfg.Constant = func(name string) (*tensor.Tensor, error) {
		if name == "constant" {
			return pstest.Filled(1, 7), nil
		}
		return nil, nil
	}
	h := newHome(t, cfg)
	for i, values := range []map[string]float32{{"w.block0": 1}, {"w.block1": 2, "rate": 0.5}} {
		h.cfg.Servers[i] = &holding{fakeServer: h.servers[i], values: values}
	}
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	if _, err := s.client.Permit(t.Context(), &rpc.PermitRequest{Id: firstID(0, 0)}); err != nil {
		t.Fatal(err)
	}
	for _, server := range h.servers { // each first answers that it has not applied round 0 yet
		server.train(1)
	}
	run := &rpc.StepRun{Fetch: []string{"w", "nothing", "rate", "constant"}}
	done, err := wire.RunStep(t.Context(), "coordinator", s.client.Feed, firstID(0, 0), run)
	if err != nil || done.Step.Step != 1 || done.Progress.Steps != 1 || len(done.Step.Fetched) != 3 {
		t.Fatal(done, err)
	}
	for i, want := range []struct {
		name   string
		values []float32
	}{{"w", []float32{1, 2}}, {"rate", []float32{0.5}}, {"constant", []float32{7}}} {
		got, _, err := tensor.DecodeStream(done.Step.Fetched[i].Stream, tensor.Limits{})
		if err != nil || done.Step.Fetched[i].Name != want.name || !slices.Equal(got.Float32s(), want.values) {
			t.Errorf("%s is %v, want %v; %v", done.Step.Fetched[i].Name, got, want, err)
		}
	}
}

// Only a job that waits for its user can be read, and none that reads its own data is fed.
func TestWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*coordinator.Config)
		run    *rpc.StepRun
	}{
		"nobody waits": {func(cfg *coordinator.Config) { cfg.MaxAhead = 0 }, &rpc.StepRun{Fetch: []string{"w"}}},
		"async":        {func(cfg *coordinator.Config) { cfg.Sync = false }, &rpc.StepRun{Fetch: []string{"w"}}},
		"a feed":       {func(*coordinator.Config) {}, &rpc.StepRun{Feed: []*job.Value{batch(3)}}},
		"give up":      {func(*coordinator.Config) {}, &rpc.StepRun{GiveUp: true}},
	} {
		cfg := config(1)
		cfg.MaxAhead, cfg.Save = 1, saving()
		c.change(&cfg)
		if _, err := start(t, cfg).feed(t.Context(), c.run); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
