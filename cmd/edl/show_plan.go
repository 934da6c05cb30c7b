package main

import (
	"context"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
)

// planSteps is how many steps a plan runs before its times are shown: enough for memory and caches to be warm.
const planSteps = 10

// showPlan prints how this machine would run a program: each step with shapes, arithmetic, memory, and the time that it takes on zeros.
func showPlan(ctx context.Context, c *console, f *showFlags, p *program.Program) error {
	rows := f.rows
	switch {
	case rows < 0:
		return tooFew("--rows", rows)
	case f.workers < 1:
		return tooFew("--workers", int64(f.workers))
	case rows == 0:
		rows = batchOf(p)
	}
	return executor.DescribePlan(ctx, c.out, p, rows, planSteps, executor.WithWorkers(f.workers), executor.WithoutFiniteCheck())
}

// batchOf is the batch size that a program reads, 1 for one that is fed.
func batchOf(p *program.Program) int64 {
	read, err := executor.ReadOp(p)
	if err != nil {
		return 1
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return 1
	}
	return int64(pipeline.Batch)
}
