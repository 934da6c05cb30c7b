package plan_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// A plan that fetches every variable and fuses nothing shares no memory and works in place nowhere: it is the plain meaning of the program. Plans
// that share memory, that fuse, and that run on a pool must compute the same bits.
func TestNoPlanChangesABit(t *testing.T) {
	pool := plan.NewPool(3)
	defer pool.Close()
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int64{3, 4, 24}).Draw(t, "rows")
		p, values := fixture.RandomProgram(t, rows)
		plain := outcome(t, p, nil, rows, values, plan.Fusions...)
		fetch := rapid.SliceOfDistinct(rapid.SampledFrom(values), rapid.ID[string]).Draw(t, "fetch")
		without := rapid.SliceOfDistinct(rapid.SampledFrom(plan.Fusions), rapid.ID[plan.Fusion]).Draw(t, "without")
		for name, on := range map[string]*plan.Pool{"in order": nil, "on a pool": pool} {
			for variable, got := range outcome(t, p, on, rows, fetch, without...) {
				if !sameBits(got, plain[variable]) {
					t.Fatalf("%s without %v: %s = %v, want %v", name, without, variable, got, plain[variable])
				}
			}
		}
	})
}

func trainable(t *testing.T) (*plan.Plan, *plan.Pool) {
	t.Helper()
	m := fixture.MLP(t, 20, []int64{16, 16}, optimizer.Adam(0.01))
	feed := map[string]*tensor.Tensor{"image": fixture.Numbers(1, 8, 20), "label": fixture.Labels(1, 8, 10)}
	compiled, err := plan.Compile(plan.Request{Block: m.Program.Global(), Feeds: metas(feed), Fetch: []string{m.Loss}, Scope: started(t, m.Program),
		Workers: 2, CheckFinite: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range feed {
		if err := compiled.Feed(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return compiled, plan.NewPool(2)
}

func TestStepsAllocateNothing(t *testing.T) {
	compiled, pool := trainable(t)
	defer pool.Close()
	ctx := context.Background()
	for name, on := range map[string]*plan.Pool{"in order": nil, "on a pool": pool} {
		if err := compiled.Run(ctx, on); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { _ = compiled.Run(ctx, on) }); n != 0 {
			t.Errorf("%s: %v allocations per step", name, n)
		}
	}
}

func TestTemporariesShareMemory(t *testing.T) {
	compiled, pool := trainable(t)
	defer pool.Close()
	if m := compiled.Memory(); m.Arena == 0 || m.Arena >= m.Sum {
		t.Errorf("arena of %d bytes for %d bytes of temporaries", m.Arena, m.Sum)
	}
}

func TestFeedSharesAndChecks(t *testing.T) {
	compiled, pool := trainable(t)
	defer pool.Close()
	for _, bad := range []*tensor.Tensor{nil, fixture.Numbers(1, 20, 8), fixture.Numbers(1, 8, 19), fixture.Labels(1, 8, 2)} {
		if err := compiled.Feed("image", bad); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("fed %v: %v", bad, err)
		}
	}
	if got := compiled.Feeds(); !slices.Equal(got, []string{"image", "label"}) {
		t.Errorf("feeds %v", got)
	}
}

func TestDimsThatNothingDecidesAreNamed(t *testing.T) {
	p := program.New()
	for _, name := range []string{"in", "out"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown},
			Persistable: name == "in"})
	}
	p.Global().Append(&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {"in"}}, Outputs: map[string][]string{"Out": {"out"}}})
	scope := executor.NewScope()
	_, err := plan.Compile(plan.Request{Block: p.Global(), Scope: scope})
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("without a value: %v", err)
	}
	if err := scope.Set("in", fixture.Numbers(1, 5)); err != nil {
		t.Fatal(err)
	}
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Scope: scope, Fetch: []string{"out"}})
	if err != nil || compiled.Fetched()[0].Len() != 5 {
		t.Errorf("dims of the value in the scope: %v", err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// started returns a scope in which the startup program has run.
func started(t fataler, p *program.Program) *executor.Scope {
	t.Helper()
	scope := executor.NewScope()
	compiled, err := plan.Compile(plan.Request{Block: p.Startup.Global(), Scope: scope})
	if err == nil {
		err = compiled.Run(context.Background(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func workersOf(pool *plan.Pool) int {
	if pool == nil {
		return 1
	}
	return 3
}

func metas(feed map[string]*tensor.Tensor) map[string]ops.Meta {
	m := map[string]ops.Meta{}
	for name, t := range feed {
		m[name] = ops.Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims()}
	}
	return m
}

// outcome runs a fresh compilation of p for three steps and returns what it fetched, the parameters and what it sent.
func outcome(t fataler, p *program.Program, pool *plan.Pool, rows int64, fetch []string, without ...plan.Fusion) map[string][]float32 {
	t.Helper()
	scope := started(t, p)
	x := fixture.Numbers(7, rows, 4)
	wire := &lateComm{}
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: fetch, Scope: scope,
		Workers: workersOf(pool), Without: without, Env: ops.Env{Comm: wire}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := compiled.Feed("x", x); err != nil {
			t.Fatal(err)
		}
		if err := compiled.Run(context.Background(), pool); err != nil {
			t.Fatal(err)
		}
		wire.end()
	}
	result := map[string][]float32{"what was sent": wire.sent}
	for i, name := range fetch {
		result[name] = compiled.Fetched()[i].Float32s()
	}
	for _, name := range scope.Names() {
		w, _ := scope.Find(name)
		result[name] = w.Float32s()
	}
	return result
}

// sameBits compares as memory does, so that NaN equals itself.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
