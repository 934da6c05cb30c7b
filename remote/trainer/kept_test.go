package trainer

import (
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// A trainer whose round is given up asks no server again for parameters that it has of that round; of another round it asks for all.
func TestParametersAreKept(t *testing.T) {
	const interrupted = 3
	l := lawCase{model: testkit.Reading(t, 5, optimizer.SGD(0.05)), data: testkit.Samples(t, t.TempDir(), 48), records: 48, passes: 1}
	spec := &job.JobSpec{Trainers: 1, Pservers: 2, Save: t.TempDir(), Fetch: []string{l.model.Loss}}
	c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
	ctx := bounded(t)
	var mu sync.Mutex
	asked := map[uint64]int{} // for variables, by round
	var changing sync.WaitGroup
	changed := false
	c.call = func(_ uint32, _ int, when string, round uint64) {
		mu.Lock()
		defer mu.Unlock()
		if when == "before recv" {
			asked[round]++
		}
		if when != "before barrier" || round != interrupted || changed {
			return
		}
		changed = true
		c.coordinator.end()
		for server := range c.servers { // no server has the declaration: the round is dropped
			if err := c.coordinator.freeze(ctx, server); err != nil {
				t.Error(err)
			}
		}
		changing.Go(func() {
			if err := c.coordinator.regroup(ctx, 0); err != nil {
				t.Error(err)
			}
		})
	}
	err := c.train(ctx, 1)
	changing.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if begins := c.coordinator.begins(interrupted); !changed || !begins {
		t.Fatalf("no generation begins with round %d", interrupted)
	}
	if each := asked[interrupted-1]; each == 0 || asked[interrupted] != each || asked[interrupted+1] != each {
		t.Errorf("variables that are asked for, by round: %v", asked)
	}
	l.checkLedger(t, c, 0)
	l.checkReports(t, c, true)
}

// Of a model with statistics that the forward pass changes, only those are received again. Whatever does not match is.
func TestWhatIsKept(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(6))
	loss := layers.Mean(layers.FC(layers.BatchNorm(layers.FC(x, 4)), 1), layers.Name("loss"))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	roles, err := transpiler.Transpile(t.Context(), testkit.Built(t, m, loss).Program, transpiler.Config{Trainers: 1, PServers: 2, MinBlockSize: 4, Mode: transpiler.Sync})
	if err != nil {
		t.Fatal(err)
	}
	p := roles.Trainer
	all, _ := receivedBy(p.Startup)
	have := arrives(p)
	values := map[string]*tensor.Tensor{}
	var states []string
	for name := range all {
		v, ok := p.Global().Var(name)
		switch {
		case have[name]:
			if values[name], err = tensor.New(v.DType, v.Dims...); err != nil {
				t.Fatal(err)
			}
		case ok && v.Persistable:
			states = append(states, name)
		}
	}
	if len(states) != 2 || len(have) != 6 { // mean and variance; two weights and biases, scale and offset
		t.Fatalf("of a model with a batch_norm %v is kept, and %v is not", have, states)
	}
	for name, c := range map[string]struct {
		kept kept
		in   *rpc.JoinResponse
		all  bool
	}{
		"the same round":       {kept{round: 4, history: 1, values: values}, &rpc.JoinResponse{Round: 4, History: 1}, false},
		"a later round":        {kept{round: 4, history: 1, values: values}, &rpc.JoinResponse{Round: 5, History: 1}, true},
		"another history":      {kept{round: 4, history: 1, values: values}, &rpc.JoinResponse{Round: 4, History: 2}, true},
		"a group":              {kept{round: 4, history: 1, values: values}, &rpc.JoinResponse{Round: 4, History: 1, Group: []uint32{0, 1}}, true},
		"nothing that matches": {kept{round: 4, history: 1, values: map[string]*tensor.Tensor{}}, &rpc.JoinResponse{Round: 4, History: 1}, true},
	} {
		scope := executor.NewScope()
		start, err := c.kept.give(c.in, scope, p)
		if err != nil {
			t.Fatal(err)
		}
		want := partsOf(p.Startup)
		if !c.all {
			want = len(states) // each on one server
			for name, value := range values {
				if in, ok := scope.Find(name); !ok || in != value {
					t.Errorf("%s: %s is not the tensor that was kept", name, name)
				}
			}
		}
		asked, awaited := 0, 0
		for _, op := range start.Startup.Global().Ops {
			switch op.Type {
			case "recv":
				asked += len(op.Outputs["Out"])
			case "fetch_barrier":
				awaited = len(op.InputNames())
			}
		}
		if asked != want || awaited != want {
			t.Errorf("%s: %d parts are received and %d awaited, want %d", name, asked, awaited, want)
		}
	}
	nothing := withoutReceived(p.Startup, all)
	if slices.ContainsFunc(nothing.Global().Ops, func(op *program.Op) bool { return op.Type == "recv" || op.Type == "fetch_barrier" }) {
		t.Error("with everything here something is received")
	}
}

// partsOf counts what a program receives.
func partsOf(p *program.Program) (n int) {
	for _, op := range p.Global().Ops {
		if op.Type == "recv" {
			n += len(op.Outputs["Out"])
		}
	}
	return n
}
