package executor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestStartupFillsWhatIsEmpty(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	l := executor.New()
	defer l.Close()
	b := values(t, []float32{42})
	if err := l.Scope().Set("fc_0.b_0", b); err != nil {
		t.Fatal(err)
	}
	if err := l.Startup(t.Context(), m.Program); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Scope().Find("fc_0.w_0"); !ok || b.Float32s()[0] != 42 {
		t.Errorf("variables %v, b = %v", l.Scope().Names(), b.Float32s())
	}
	bad := m.Program.Clone()
	bad.Startup.Global().Append(&program.Op{Type: "send_barrier"})
	if err := executor.New().Startup(t.Context(), bad); !errors.Is(err, fault.InvalidProgram) {
		t.Errorf("a startup program that speaks to servers: %v", err)
	}
}

// countingComm counts the barriers that it is asked to keep.
type countingComm struct{ sends, barriers int }

func (c *countingComm) Send(context.Context, ops.Message) error { c.sends++; return nil }
func (c *countingComm) SendBarrier(context.Context) error       { c.barriers++; return nil }
func (c *countingComm) Recv(_ context.Context, m ops.Message) error {
	m.Value.Float32s()[0] = 5
	return nil
}
func (c *countingComm) FetchBarrier(context.Context) error { c.barriers++; return nil }

func TestStepWithoutRowsOnlyKeepsTheBarriers(t *testing.T) {
	p := program.New()
	b := p.Global()
	b.EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown}})
	for _, name := range []string{"mean", "w"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: name == "w"})
	}
	server := map[string]program.Attr{"epmap": []string{"pserver:0"}}
	b.Append(&program.Op{Type: "mean", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"mean"}}})
	b.Append(&program.Op{Type: "send", Inputs: map[string][]string{"X": {"mean"}}, Attrs: server})
	b.Append(&program.Op{Type: "send_barrier"})
	b.Append(&program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"w"}}, Attrs: server})
	b.Append(&program.Op{Type: "fetch_barrier"})

	comm := &countingComm{}
	l := executor.New(executor.WithComm(comm), executor.WithStage(program.StageTrainer))
	defer l.Close()
	none, _ := tensor.New(tensor.Float32, 0)
	out, err := l.RunStep(t.Context(), p, ops.Step{Round: 3}, executor.Feed{"x": none}, "mean")
	if err != nil || out != nil {
		t.Fatalf("fetched %v, %v", out, err)
	}
	if w, ok := l.Scope().Find("w"); comm.sends != 0 || comm.barriers != 2 || !ok || w.Float32s()[0] != 5 {
		t.Errorf("%+v, w received: %t", *comm, ok)
	}
	if out, err = l.RunStep(t.Context(), p, ops.Step{Round: 4, Rows: 2}, executor.Feed{"x": values(t, []float32{1, 3})}, "mean"); err != nil {
		t.Fatal(err)
	}
	if comm.sends != 1 || out[0].Float32s()[0] != 2 || l.Step().Round != 4 {
		t.Errorf("%+v, mean %v in step %+v", *comm, out[0].Float32s(), *l.Step())
	}
}
