package remote_test

import (
	"context"
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A forgery is a gradient that a pserver must not count.
type forgery struct {
	change    func(id *rpc.Identity)
	name      string     // of the variable; empty: that of the real gradient
	kind      fault.Kind // of the refusal
	duplicate bool       // answered as one that has arrived before, which is no error
}

// Rounds of the job that is forged: 2 have been applied, so the next is number 2.
var forgeries = map[string]forgery{
	"a repeated gradient":         {change: func(id *rpc.Identity) { id.Round = 1 }, duplicate: true},
	"an older round":              {change: func(id *rpc.Identity) { id.Round = 0 }, kind: fault.Stale},
	"a later round":               {change: func(id *rpc.Identity) { id.Round = 9 }, kind: fault.Foreign},
	"the greatest round":          {change: func(id *rpc.Identity) { id.Round = 1<<64 - 1 }, kind: fault.Foreign},
	"another job":                 {change: func(id *rpc.Identity) { id.Job = "another" }, kind: fault.Foreign},
	"another program":             {change: func(id *rpc.Identity) { id.ProgramHash = make([]byte, 32) }, kind: fault.Foreign},
	"an older generation":         {change: func(id *rpc.Identity) { id.Generation-- }, kind: fault.Superseded},
	"a trainer that is not there": {change: func(id *rpc.Identity) { id.Rank = 2 }, kind: fault.Foreign},
	"the greatest rank":           {change: func(id *rpc.Identity) { id.Rank = 1<<32 - 1 }, kind: fault.Foreign},
	"an unknown variable":         {change: func(*rpc.Identity) {}, name: "nothing@GRAD", kind: fault.Foreign},
}

// Gradients that are repeated, of other rounds, jobs, programs or generations are refused and counted, and the sum does not change.
func TestForgedGradientsAreRefused(t *testing.T) {
	t.Parallel()
	m := testkit.Fed(t, optimizer.Momentum(0.1, 0.9))
	r := newRig(t)
	spec := &remote.JobSpec{Name: "forged", Trainers: 2, Pservers: 1, Save: t.TempDir()}
	e := executorOf(t, r.listener(), spec)
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	step := func(seed uint64) {
		t.Helper()
		feed := testkit.Batch(t, m.Program, seed, 5)
		a, err := want.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		if !testkit.Same(a[0], b[0]) {
			t.Errorf("step %d: loss %s, want %s", seed, testkit.Show(b[0]), testkit.Show(a[0]))
		}
	}
	step(0)
	step(1)
	forgeAll(t, serverOf(t, r.etcd, spec.Name, 0), identityOf(t, m.Program, spec.Name))
	status, err := e.Client().Status(bounded(t), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if status.Refused != uint64(len(forgeries)) {
		t.Errorf("%d messages refused, want %d", status.Refused, len(forgeries))
	}
	step(2)
	step(3)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, spec.Save, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}

// identityOf is what the messages of a job have in common.
func identityOf(t *testing.T, p *program.Program, name string) wire.Identity {
	t.Helper()
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return wire.Identity{Job: name, Program: hash[:], Generation: 1}
}

// forgeAll sends every forgery.
func forgeAll(t *testing.T, server rpc.ParameterServerClient, identity wire.Identity) {
	t.Helper()
	poison := testkit.Random(t, tensor.Float32, 7, testkit.Width, 10)
	for what, f := range forgeries {
		id := identity.Of(1, 2, 0)
		f.change(id)
		name := "fc_0.w_0@GRAD"
		if f.name != "" {
			name = f.name
		}
		duplicate, err := forge(bounded(t), server, &rpc.VariableChunk{Id: id, Name: name}, poison)
		if duplicate != f.duplicate || !f.duplicate && !errors.Is(err, f.kind) {
			t.Errorf("%s: duplicate %v, %v; want kind %v", what, duplicate, err, f.kind)
		}
	}
}

// forge sends one gradient.
func forge(ctx context.Context, server rpc.ParameterServerClient, header *rpc.VariableChunk, value *tensor.Tensor) (duplicate bool, err error) {
	stream, err := server.SendVariable(ctx)
	if err != nil {
		return false, err
	}
	_ = wire.SendVariable(stream, header, value, wire.Keep) // a refusal ends the stream, and is the answer
	answer, err := stream.CloseAndRecv()
	return answer.GetDuplicate(), wire.FromStatus("pserver", err)
}

// A number of passes that no run can have is refused before anything is sent.
func TestPassesThatCannotBeAreRefused(t *testing.T) {
	for _, n := range []int{-1, 1 << 40} {
		if _, err := new(remote.Executor).Submit(t.Context(), program.New(), executor.TrainOptions{Passes: n}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%d passes: %v", n, err)
		}
	}
}
