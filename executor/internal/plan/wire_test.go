package plan_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// lazyComm moves bytes as late as it may: it reads what was sent, and writes what was received, at the barriers.
type lazyComm struct {
	sending, receiving []ops.Message
	sent               map[string][]float32
	value              float32 // of everything received
}

func (c *lazyComm) Send(_ context.Context, m ops.Message) error {
	c.sending = append(c.sending, m)
	return nil
}

func (c *lazyComm) SendBarrier(context.Context) error {
	c.sent = map[string][]float32{}
	for _, m := range c.sending {
		c.sent[m.Name] = slices.Clone(m.Value.Float32s())
	}
	c.sending = nil
	return nil
}

func (c *lazyComm) Recv(_ context.Context, m ops.Message) error {
	for i := range m.Value.Float32s() {
		m.Value.Float32s()[i] = -1000
	}
	c.receiving = append(c.receiving, m)
	return nil
}

func (c *lazyComm) FetchBarrier(context.Context) error {
	for _, m := range c.receiving {
		for i := range m.Value.Float32s() {
			m.Value.Float32s()[i] = c.value
		}
	}
	c.receiving = nil
	return nil
}

// talking sends t = 2x in the middle of a chain of temporaries, receives a slice r into a temporary, and computes y = 2r.
func talking() *program.Program {
	p := program.New()
	b := p.Global()
	double := func(out, in string) {
		b.EnsureVar(program.Var{Name: out, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4}})
		b.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {in}}, Outputs: map[string][]string{"Out": {out}},
			Attrs: map[string]program.Attr{"scale": float32(2)}})
	}
	server := map[string]program.Attr{"epmap": []string{"pserver:0"}}
	for _, name := range []string{"x", "r"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4}})
	}
	double("t", "x")
	b.Append(&program.Op{Type: "send", Inputs: map[string][]string{"X": {"t"}}, Attrs: server})
	double("a", "x")
	double("b", "a")
	double("c", "b")
	b.Append(&program.Op{Type: "send_barrier"})
	b.Append(&program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"r"}}, Attrs: server})
	double("d", "c")
	double("e", "d")
	b.Append(&program.Op{Type: "fetch_barrier"})
	double("y", "r")
	return p
}

func TestMemoryOnTheWireStaysUntouchedUntilTheBarrier(t *testing.T) {
	pool := plan.NewPool(3)
	defer pool.Close()
	for name, on := range map[string]*plan.Pool{"in order": nil, "on a pool": pool} {
		t.Run(name, func(t *testing.T) {
			comm := &lazyComm{value: 7}
			x := fixture.Numbers(1, 4)
			compiled, err := plan.Compile(plan.Request{Block: talking().Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: []string{"y", "e"},
				Scope: executor.NewScope(), Env: ops.Env{Comm: comm}, Workers: 2})
			if err == nil {
				err = compiled.Feed("x", x)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if err := compiled.Run(context.Background(), on); err != nil {
					t.Fatal(err)
				}
				for i, v := range x.Float32s() {
					if comm.sent["t"][i] != 2*v || compiled.Fetched()[0].Float32s()[i] != 14 || compiled.Fetched()[1].Float32s()[i] != 32*v {
						t.Fatalf("sent %v, fetched %v and %v", comm.sent["t"], compiled.Fetched()[0].Float32s(), compiled.Fetched()[1].Float32s())
					}
				}
			}
		})
	}
}

func TestTrainerWithoutRowsKeepsInStep(t *testing.T) {
	comm := &lazyComm{value: 7}
	x := fixture.Numbers(1, 4)
	compiled, err := plan.Compile(plan.Request{Block: talking().Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: []string{"y"},
		Scope: executor.NewScope(), Env: ops.Env{Comm: comm}})
	if err == nil {
		err = compiled.RunFromBarrier(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(comm.sent) != 0 || comm.sent == nil || compiled.Fetched()[0].Float32s()[0] != 14 {
		t.Errorf("sent %v, received %v", comm.sent, compiled.Fetched()[0].Float32s())
	}
}
