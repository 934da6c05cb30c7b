package plan_test

import (
	"context"
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
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
