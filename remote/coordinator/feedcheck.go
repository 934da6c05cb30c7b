package coordinator

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// checkStep refuses a step that trainers could not run, as the local executor would: a trainer that fails in a step ends the job, and a user's slip
// should not. feed holds the decoded values of run.
func checkStep(p *program.Program, run *rpc.StepRun, feed map[string]*tensor.Tensor) error {
	for _, value := range run.Feed {
		if err := checkFeed(p, value.Name, feed[value.Name]); err != nil {
			return err
		}
	}
	for _, name := range run.Fetch {
		if _, ok := p.Global().Var(name); !ok {
			return fault.E(fault.NotFound, fault.Var(name), fault.Got("a name that the trainers' program does not declare"),
				fault.Want("a variable to fetch"), fault.Hint("name what only servers compute in the fetch list of the job"))
		}
	}
	return checkMissing(p, feed)
}

// checkFeed compares a value with the declaration of its variable.
func checkFeed(p *program.Program, name string, value *tensor.Tensor) error {
	v, ok := p.Global().Var(name)
	if !ok {
		return fault.E(fault.NotFound, fault.Var(name), fault.Got("a feed"), fault.Want("the name of a variable of the program"))
	}
	if v.LoDLevel > 0 || len(value.LoD()) > 0 {
		return fault.E(fault.Unsupported, fault.Var(name), fault.Got("a feed whose rows form sequences"),
			fault.Want("rows that can be divided among trainers"), fault.Hint("train models of sequences with the local executor"))
	}
	kind := fault.OK
	switch dims := value.Dims(); {
	case value.DType() != v.DType:
		kind = fault.TypeMismatch
	case len(dims) != len(v.Dims) || slices.ContainsFunc(dims, func(d int64) bool { return d == 0 }):
		kind = fault.ShapeMismatch
	default:
		for i, d := range v.Dims {
			if d != program.Unknown && d != dims[i] {
				kind = fault.ShapeMismatch
			}
		}
	}
	if kind == fault.OK {
		return nil
	}
	return fault.E(kind, fault.Var(name), fault.Got("a feed of "+value.String()), fault.Wantf("%v, with at least one row", ops.MetaOf(v)))
}

// checkMissing finds the first op that reads a variable which nobody gives a value.
func checkMissing(p *program.Program, feed map[string]*tensor.Tensor) error {
	written := map[string]bool{program.Empty: true}
	for _, op := range p.Global().Ops {
		for _, name := range op.InputNames() {
			v, ok := p.Global().Var(name)
			if ok && !v.Persistable && !written[name] && feed[name] == nil {
				return ops.At(op, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value for "+name), fault.Want("a feed")))
			}
		}
		for _, name := range op.OutputNames() {
			written[name] = true
		}
	}
	return nil
}
