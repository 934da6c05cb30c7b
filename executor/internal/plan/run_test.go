package plan_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	for opType, kernel := range map[string]ops.Kernel{
		"test_panics": func(context.Context) error { var none []int; _ = none[1]; return nil },
		"test_fails":  func(context.Context) error { return fault.New(fault.Corrupt, "bad bytes") },
	} {
		ops.Register(ops.Def{Type: opType, Doc: "Is only for tests.", Outputs: []ops.Slot{{Name: "Out"}},
			Infer: func(s *ops.Shapes) error { s.Set("Out", tensor.Float32, 1); return nil },
			Bind:  func(*ops.Binding) (ops.Kernel, error) { return kernel, nil }})
	}
	ops.Register(ops.Def{Type: "test_binds_badly", Doc: "Is only for tests.", Outputs: []ops.Slot{{Name: "Out"}},
		Infer: func(s *ops.Shapes) error { s.Set("Out", tensor.Float32, 1); return nil },
		Bind:  func(b *ops.Binding) (ops.Kernel, error) { b.Scratch(tensor.Float32, -1).Len(); return nil, nil }})
}

// single is a program of one op at a line, with many others behind it that do not need it.
func single(opType string) *program.Program {
	p := program.New()
	b := p.Global()
	for i, name := range []string{"a", "b", "c"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
		op := &program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
			Attrs: map[string]program.Attr{"shape": []int64{1}, "dtype": int32(tensor.Float32), "value": float32(1)}}
		if i == 0 {
			op = &program.Op{Type: opType, Outputs: map[string][]string{"Out": {name}}}
			op.SetLine("user/model.go:7")
		}
		b.Append(op)
	}
	return p
}

func TestKernelsThatGoWrongEndTheRunWithTheirLine(t *testing.T) {
	pool := plan.NewPool(2)
	defer pool.Close()
	for opType, kind := range map[string]fault.Kind{"test_panics": fault.Internal, "test_fails": fault.Corrupt} {
		compiled, err := plan.Compile(plan.Request{Block: single(opType).Global(), Fetch: []string{"a"}, Scope: executor.NewScope(), Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, on := range []*plan.Pool{nil, pool, pool} {
			err := compiled.Run(context.Background(), on)
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != kind || f.Op != opType || f.Line != "user/model.go:7" {
				t.Errorf("%s: got %v", opType, err)
			}
		}
	}
}

func TestBindingThatGoesWrongNamesTheOp(t *testing.T) {
	_, err := plan.Compile(plan.Request{Block: single("test_binds_badly").Global(), Scope: executor.NewScope()})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Internal || f.Op != "test_binds_badly" || f.Line != "user/model.go:7" {
		t.Errorf("got %v", err)
	}
}

// Sends begin as soon as what they send is there, also on one worker, so that bytes move while the rest is computed.
func TestSendsBeginBeforeTheRestIsComputed(t *testing.T) {
	x := fixture.Numbers(1, 4)
	compiled, err := plan.Compile(plan.Request{Block: talking().Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: []string{"y", "e"},
		Scope: executor.NewScope(), Env: ops.Env{Comm: &lazyComm{}}})
	if err != nil {
		t.Fatal(err)
	}
	var trace plan.Trace
	compiled.SetTrace(&trace)
	if err := compiled.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	events, lost := trace.Events()
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
	}
	want := []string{"scale", "send", "scale", "send_barrier", "recv", "scale", "fetch_barrier", "scale"}
	if !slices.Equal(names, want) || lost != 0 {
		t.Errorf("ran %v, want %v; %d lost", names, want, lost)
	}
}

func TestStepsOfATracedPlanAreTimed(t *testing.T) {
	compiled, pool := trainable(t)
	defer pool.Close()
	var trace plan.Trace
	compiled.SetTrace(&trace)
	for _, on := range []*plan.Pool{nil, pool} {
		if err := compiled.Run(context.Background(), on); err != nil {
			t.Fatal(err)
		}
	}
	lanes := map[int]bool{}
	events, _ := trace.Events()
	for _, e := range events {
		lanes[e.Lane] = true
	}
	for i, s := range compiled.Steps() {
		if s.Runs != 2 || s.Name == "" || len(s.Shapes) != len(s.Memory) {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	if !lanes[0] || len(lanes) > 2 {
		t.Errorf("lanes %v of two workers", lanes)
	}
}

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

// A step that is declared may count, so it runs to its end, and what it fetches is known: whoever ends it ends what waits.
func TestDeclaredStepRunsToItsEnd(t *testing.T) {
	pool := plan.NewPool(3)
	defer pool.Close()
	for name, on := range map[string]*plan.Pool{"in order": nil, "on a pool": pool} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			comm := &endingComm{lazyComm: lazyComm{value: 7}, end: end}
			x := fixture.Numbers(1, 4)
			compiled, err := plan.Compile(plan.Request{Block: talking().Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: []string{"y", "e"},
				Scope: executor.NewScope(), Env: ops.Env{Comm: comm}, Workers: 2})
			if err == nil {
				err = compiled.Feed("x", x)
			}
			if err == nil {
				err = compiled.Run(ctx, on)
			}
			if err != nil || ctx.Err() == nil {
				t.Fatalf("%v, context %v", err, ctx.Err())
			}
			if got := compiled.Fetched(); got[0].Float32s()[0] != 14 || got[1].Float32s()[0] != 32*x.Float32s()[0] {
				t.Errorf("fetched %v and %v", got[0].Float32s(), got[1].Float32s())
			}
			if err := compiled.Run(ctx, on); fault.KindOf(err) != fault.Canceled {
				t.Errorf("the next step ends with %v", err)
			}
		})
	}
}

// endingComm ends the context of a step while it declares it.
type endingComm struct {
	lazyComm
	end context.CancelFunc
}

func (c *endingComm) SendBarrier(ctx context.Context) error {
	c.end()
	return c.lazyComm.SendBarrier(ctx)
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

// rangesRun counts the ranges that loops of test_adds_one have run over.
var rangesRun atomic.Int64

func init() {
	ops.Register(ops.Def{Type: "test_adds_one", Doc: "Is only for tests.", Inputs: []ops.Slot{{Name: "X"}}, Outputs: []ops.Slot{{Name: "Out"}},
		Infer: func(s *ops.Shapes) error { s.Set("Out", s.In("X").DType, s.In("X").Dims...); return nil },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, out := b.In("X"), b.Out("Out")
			return b.Loops(ops.Loop{N: int(x.Dims()[0]), Run: func(_, from, to int) error {
				rangesRun.Add(1)
				width := int(x.Dims()[1])
				for i := from * width; i < to*width; i++ {
					out.Float32s()[i] = x.Float32s()[i] + 1
				}
				return nil
			}})
		}})
}

// Loops of a block that an op runs go over as many rows at a time as those of the block around it: all, where they fit into the cache.
func TestLoopsOfBlocksRunOverManyRowsAtATime(t *testing.T) {
	const rows = 64
	p := program.New()
	outer := p.Global()
	inner := p.NewBlock(outer)
	for _, name := range []string{"x", "y", "z"} {
		outer.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows, 3}})
	}
	inner.EnsureVar(program.Var{Name: "between", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows, 3}})
	add := func(b *program.Block, from, to string) {
		b.Append(&program.Op{Type: "test_adds_one", Inputs: map[string][]string{"X": {from}}, Outputs: map[string][]string{"Out": {to}}})
	}
	add(outer, "x", "y")
	add(inner, "y", "between")
	add(inner, "between", "z")
	outer.Append(&program.Op{Type: "run_block", Inputs: map[string][]string{"X": {"y"}}, Outputs: map[string][]string{"Out": {"z"}},
		Attrs: map[string]program.Attr{"sub_block": program.BlockIndex(inner.Index)}})
	x, _ := tensor.New(tensor.Float32, rows, 3)
	for grain, want := range map[time.Duration]int64{2 * time.Microsecond: 3, 0: 1 + 2*rows} {
		compiled, err := plan.Compile(plan.Request{Block: outer, Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: []string{"z"}, Scope: executor.NewScope(), Grain: grain})
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Feed("x", x); err != nil {
			t.Fatal(err)
		}
		rangesRun.Store(0)
		if err := compiled.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := rangesRun.Load(); got != want {
			t.Errorf("with a grain of %v the loops ran over %d ranges, want %d", grain, got, want)
		}
		if z := compiled.Fetched()[0].Float32s(); z[0] != 3 || z[3*rows-1] != 3 {
			t.Errorf("z is %v, want 3 everywhere", z)
		}
	}
}
