package optimizer

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// A Pair is a parameter with its gradient, which clipping and regularization replace on the way to the update.
type Pair struct {
	Param layers.Variable
	Grad  layers.Variable
}

// Build runs build, and gives the ops that it appends the role of an update of the pair's parameter.
func (p Pair) Build(build func()) { buildFor([]Pair{p}, build) }

// buildFor is Build for ops that serve several parameters at once. Pairs of no model build nothing.
func buildFor(pairs []Pair, build func()) {
	if len(pairs) == 0 || pairs[0].Param.Model() == nil {
		return
	}
	var vars []string
	for _, p := range pairs {
		vars = append(vars, p.Param.Name(), program.GradName(p.Param.Name()))
	}
	pairs[0].Param.Model().As(program.RoleOptimize, vars, build)
}

func asFault(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return fault.E(fault.Internal, fault.Cause(err))
}
