package program

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// OpRules is what Verify asks about ops, whose meaning the IR does not know.
type OpRules interface {
	// CheckOp returns what is wrong with an op by itself: its type, slots and attributes.
	CheckOp(b *Block, op *Op) fault.List
	// CheckTypes returns where the variables of an op do not fit to it or to each other. It is called when all of them are declared
	// and CheckOp found nothing.
	CheckTypes(b *Block, op *Op) fault.List
}

// A Spec says what Verify checks beyond the IR itself.
type Spec struct {
	Ops OpRules // nil: ops are not checked for what they mean
	// Fed allows that a variable of the global block that no op writes is read: it comes from a feed, or from the network.
	Fed bool
	// Shape reports what the program as a whole should look like and does not; nil allows anything. It is called on sound programs only.
	Shape func(p *Program, report func(*fault.Fault))
}

// maxNesting bounds how many blocks may enclose each other; looking up a name takes as many steps.
const maxNesting = 64

// Verify checks a program that may come from anywhere and returns every fault at once as a fault.List, up to a hundred of them: blocks and
// their references, variables and their types, names and the order of writing and reading, and what spec adds. It does not look at the startup
// program, which is a program of another stage.
func Verify(p *Program, spec Spec) error {
	v := verifier{program: p, spec: spec}
	if !v.blocks() {
		return v.report.err()
	}
	sound := len(v.report.list) == 0
	for _, b := range p.Blocks {
		v.variables(b)
	}
	for _, b := range p.Blocks {
		for i, op := range b.Ops {
			v.op(b, i, op)
		}
	}
	v.flow()
	if spec.Shape != nil && sound {
		spec.Shape(p, v.report.add)
	}
	return v.report.err()
}

type verifier struct {
	program *Program
	spec    Spec
	report  report
}

// WhereOp is the Where of a fault of an op: its block and its position in it.
func WhereOp(block, position int) string { return fmt.Sprintf("block %d, op %d", block, position) }

// at completes a fault with the place, the type and the user's line of an op.
func at(b *Block, position int, op *Op, f *fault.Fault) *fault.Fault {
	c := *f
	if c.Where == "" {
		c.Where = WhereOp(b.Index, position)
	}
	if c.Op == "" {
		c.Op = op.Type
	}
	if c.Line == "" {
		c.Line = op.Line()
	}
	return &c
}
