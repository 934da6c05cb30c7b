package remote

import (
	"context"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Save implements executor.Executor.
func (e *Executor) Save(context.Context, string, *program.Program) error {
	return fault.E(fault.Unsupported, fault.At("remote executor"), fault.Got("Save"))
}

// Load implements executor.Executor.
func (e *Executor) Load(context.Context, string, *program.Program, executor.LoadOptions) (executor.LoadReport, error) {
	return executor.LoadReport{}, fault.E(fault.Unsupported, fault.At("remote executor"), fault.Got("Load"))
}
