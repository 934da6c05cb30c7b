package gradcheck

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// attempts is the number of mutated ops that hostile tries.
const attempts = 30000

// hostile mutates the ops of the cases and their gradients. Inference must return, and what it accepts must bind and run, when
// it is small; a kernel may report what it finds in its data. The mutations are the same in every run.
func hostile(t *testing.T, cases []Case) {
	type seed struct {
		op    *program.Op
		metas map[string]ops.Meta
	}
	var seeds []seed
	for _, c := range cases {
		trace, err := run(c, tensor.Float64)
		if err != nil {
			t.Fatal(c, err)
		}
		for _, op := range append(trace.backward, trace.forward) {
			metas := map[string]ops.Meta{}
			for _, name := range op.InputNames() {
				metas[name] = ops.MetaOfValue(trace.Vars[name])
			}
			seeds = append(seeds, seed{op, metas})
		}
	}
	m := mutator{rand.New(rand.NewPCG(2018, 2))}
	for i := range attempts {
		s := seeds[i%len(seeds)]
		op, metas := s.op.Clone(), maps.Clone(s.metas)
		for range 1 + m.IntN(3) {
			m.mutate(op, metas)
		}
		if err := survives(op, metas, m); err != nil {
			t.Fatalf("%v of %v\nattributes %v\n%v", op.Type, op.Inputs, op.Attrs, err)
		}
	}
}

// survives infers, binds and runs op and turns a panic into an error.
func survives(op *program.Op, metas map[string]ops.Meta, m mutator) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("inputs %v: panic: %v\n%s", metas, p, debug.Stack())
		}
	}()
	shapes, refused := ops.Infer(op, func(name string) (ops.Meta, bool) { v, ok := metas[name]; return v, ok })
	if refused != nil {
		return nil
	}
	if err := costs(shapes); err != nil {
		return err
	}
	vars := map[string]*tensor.Tensor{}
	for _, name := range op.InputNames() { // in their order, so that every run draws the same
		meta := metas[name]
		if !small(meta) {
			return nil
		}
		vars[name] = m.values(meta)
	}
	for slot := range op.Outputs {
		if slices.ContainsFunc(shapes.Outs(slot), func(meta ops.Meta) bool { return meta.Kind != 0 && !small(meta) }) {
			return nil
		}
	}
	_ = NewInterpreter(vars, ops.Step{}).Run(context.Background(), op)
	return nil
}

func small(m ops.Meta) bool {
	n, ok := tensor.Count(m.Dims)
	if m.Kind == program.SelectedRows {
		stored, fits := tensor.Count(m.Stored())
		n, ok = max(n, stored), ok && fits && m.Rows <= 512 && (m.Rows == 0 || n > 0)
	}
	return ok && n <= 512 && len(m.Dims) <= tensor.MaxRank && m.DType.Computable()
}
