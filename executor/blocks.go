package executor

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// blocks runs single blocks of a program for listen_and_serv. A block's own variables live in the arena of its plan; those of
// the global block are shared by all blocks, the persistable ones in the executor's scope and the others in a child of it.
type blocks struct {
	program *program.Program
	env     ops.Env
	scope   *Scope
	profile *Profile      // nil: none
	grain   time.Duration // of plans

	watch func(variable string) func(row int) // nil: no rows are watched

	mu    sync.Mutex
	plans map[program.BlockIndex]*blockPlan
}

// A blockPlan is compiled when its block runs first. Its lock keeps one block from running twice at a time.
type blockPlan struct {
	mu   sync.Mutex
	plan *plan.Plan
	step ops.Step
}

var _ ops.BlockRunner = (*blocks)(nil)

func newBlocks(p *program.Program, scope *Scope, env ops.Env, grain time.Duration, profile *Profile) *blocks {
	b := &blocks{program: p, env: env, scope: scope.NewChild(), profile: profile, grain: grain, plans: map[program.BlockIndex]*blockPlan{}}
	b.env.Blocks, b.env.Rows = b, b
	return b
}

// RunBlock implements ops.BlockRunner. It runs on the caller's goroutine.
func (b *blocks) RunBlock(ctx context.Context, index program.BlockIndex, step ops.Step) error {
	p := b.planOf(index)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan == nil {
		block, err := b.program.Block(index)
		if err != nil {
			return err
		}
		if p.plan, err = plan.Compile(plan.Request{Block: block, Scope: b.scope, Env: b.env, Grain: b.grain}); err != nil {
			return err
		}
		if b.profile != nil {
			p.plan.SetTrace(&b.profile.trace)
		}
	}
	p.step = step
	p.plan.SetStep(&p.step)
	return p.plan.Run(ctx, nil)
}

func (b *blocks) planOf(index program.BlockIndex) *blockPlan {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.plans[index]
	if p == nil {
		p = &blockPlan{}
		b.plans[index] = p
	}
	return p
}

// Variable implements ops.BlockRunner. A variable of the global block that has no value yet is allocated as it is declared, so
// that a server can fill it with what it receives.
func (b *blocks) Variable(name string) (*tensor.Tensor, bool) {
	if t, ok := b.scope.Find(name); ok {
		return t, true
	}
	declared, ok := b.program.Global().Var(name)
	if !ok || declared.Kind != program.LoDTensor {
		return nil, false
	}
	t, err := b.scope.Var(name, declared.DType, declared.Dims)
	if err != nil {
		return nil, false
	}
	b.scope.MarkReady(name)
	return t, true
}

// Names returns the variables that the ops of a block name, and those of blocks below it do that these do not declare.
func (b *blocks) Names(index program.BlockIndex) (map[string]bool, error) {
	block, err := b.program.Block(index)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, op := range block.Ops {
		reads, writes := block.Touches(op)
		maps.Copy(names, reads)
		maps.Copy(names, writes)
	}
	return names, nil
}

// ReadByUpdate returns the variables that one op of one block alone names, which updates a parameter and does not write the variable: it is a gradient.
// Such an op makes no other variable of its elements, so the variable may refer to other memory in each run (tensor.Tensor.Share).
func (b *blocks) ReadByUpdate() map[string]bool {
	only := map[string]bool{} // false: something else names it, too
	for i := range b.program.Blocks {
		block := b.program.Blocks[i]
		for _, op := range block.Ops {
			def, known := ops.Lookup(op.Type)
			if known && def.Class == ops.Serve { // reads what the blocks do that it runs
				continue
			}
			reads, writes := block.Touches(op)
			for name := range reads {
				_, again := only[name]
				only[name] = known && def.Class == ops.Optimize && !again
			}
			for name := range writes {
				only[name] = false
			}
		}
	}
	maps.DeleteFunc(only, func(_ string, is bool) bool { return !is })
	return only
}
