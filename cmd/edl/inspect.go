package main

import (
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// lossName returns the variable that a program minimizes, which is the one whose gradient the backward pass starts with, or "" when the
// program trains nothing.
func lossName(p *program.Program) string {
	for _, op := range p.Global().Ops {
		if !op.Role().Has(program.RoleBackward | program.RoleLoss) {
			continue
		}
		for _, out := range op.OutputNames() {
			if name, ok := strings.CutSuffix(out, program.GradSuffix); ok {
				return name
			}
		}
	}
	return ""
}

// trains reports whether a run of p changes parameters.
func trains(p *program.Program) bool {
	for _, op := range p.Global().Ops {
		if op.Role().Has(program.RoleOptimize) {
			return true
		}
	}
	return false
}

// reads reports whether p reads its own data.
func reads(p *program.Program) bool {
	for _, op := range p.Global().Ops {
		if op.Type == "read" {
			return true
		}
	}
	return false
}

// roleOp returns the first op that only a role of a job can run, nil when p is a whole program.
func roleOp(p *program.Program) *program.Op {
	for _, op := range p.Global().Ops {
		if d, ok := ops.Lookup(op.Type); ok && (d.Class == ops.Dist || d.Class == ops.Serve) {
			return op
		}
	}
	return nil
}
