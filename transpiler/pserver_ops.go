package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// copyOp appends a copy of an op of the user's program that works on the variables of unit u; nil stands for the whole
// program. Variables that no enclosing block declares become the block's own, and numbers that the op reads are made first.
func (w *serverWriter) copyOp(b *program.Block, n *node, u *unit) *program.Op {
	for _, name := range n.reads {
		if _, made := b.Find(name); w.constants[name] && !made {
			b.EnsureVar(w.variable(name).Copy(""))
			setRoleVars(b.Append(w.use(name).writers[0].op.Clone()), u)
		}
	}
	op := n.op.Clone()
	if u != nil {
		for _, name := range slices.Concat(n.reads, n.writes) {
			v := w.at(u, name)
			if _, declared := b.Find(v.Name); !declared {
				b.EnsureVar(v)
			}
		}
		renameArguments(op, u)
	}
	setRoleVars(op, u)
	return b.Append(op)
}

// renameArguments gives the arguments of op the names of a unit, all at once, so that names which trade places do not meet.
func renameArguments(op *program.Op, u *unit) {
	for _, slots := range []map[string][]string{op.Inputs, op.Outputs} {
		for _, args := range slots {
			for i, name := range args {
				args[i] = u.name(name)
			}
		}
	}
}

// setRoleVars leaves of the pairs of parameter and gradient that op serves those that the unit updates, under their names here.
func setRoleVars(op *program.Op, u *unit) {
	var pairs []string
	for _, pair := range op.RoleVars() {
		if u == nil {
			break
		}
		if grad := u.group.gradientOf(pair[0]); grad != "" {
			pairs = append(pairs, u.name(pair[0]), u.name(grad))
		}
	}
	delete(op.Attrs, program.AttrRoleVar)
	if pairs != nil {
		op.SetAttr(program.AttrRoleVar, pairs)
	}
}

// infer returns what an op that is being written yields, declaring each output that no enclosing block declares in the block that declare
// says.
func infer(b *program.Block, op *program.Op, declare func(program.Var)) error {
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		v, ok := b.Find(name)
		if !ok {
			return ops.Meta{}, false
		}
		return ops.MetaOf(v), true
	})
	if err != nil {
		return err
	}
	for slot, names := range op.Outputs {
		for i, name := range names {
			if _, ok := b.Find(name); ok {
				continue
			}
			m := shapes.Outs(slot)[i]
			declare(program.Var{Name: name, Kind: m.Kind, DType: m.DType, Dims: m.Dims, StopGradient: true})
		}
	}
	return nil
}
