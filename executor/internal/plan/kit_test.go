package plan_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
)

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

// outcome runs a fresh compilation of p for three steps and returns what it fetched and the parameters.
func outcome(t fataler, p *program.Program, pool *plan.Pool, rows int64, fetch []string, without ...plan.Fusion) map[string][]float32 {
	t.Helper()
	scope := started(t, p)
	x := fixture.Numbers(7, rows, 4)
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Feeds: metas(map[string]*tensor.Tensor{"x": x}), Fetch: fetch, Scope: scope,
		Workers: workersOf(pool), Without: without})
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
	}
	result := map[string][]float32{}
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
