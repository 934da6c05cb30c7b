package layers

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// untyped marks a variable that was declared for an op's output and has no type before the op's shapes were inferred.
const untyped program.VarKind = -1

// Append appends a complete op to the program, for passes that build ops themselves. Outputs that are not declared are
// declared. The op gets the role of As, and the line of user code unless it has one. Append notes a mistake and returns
// false when the op is wrong, and then appends nothing.
func (m *Model) Append(op *program.Op) bool {
	global := m.main.Global()
	for _, name := range op.OutputNames() {
		global.EnsureVar(program.Var{Name: name, Kind: untyped})
	}
	return m.emit(global, op)
}

// emit is Append to any block, for outputs that are declared.
func (m *Model) emit(b *program.Block, op *program.Op) bool {
	op.SetRole(m.role)
	if len(m.roleVars) > 0 {
		op.SetAttr(program.AttrRoleVar, slices.Clone(m.roleVars))
	}
	if op.Line() == "" {
		op.SetLine(userLine())
	}
	if def, ok := ops.Lookup(op.Type); ok {
		convertAttrs(op, def)
		if faults := def.Check(op); len(faults) > 0 {
			m.Report(faults[0])
			return false
		}
	}
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		v, ok := b.Find(name)
		if !ok {
			return ops.Meta{}, false
		}
		return ops.MetaOf(v), true
	})
	if err == nil {
		err = typeOutputs(b, op, shapes)
	}
	if err != nil {
		var f *fault.Fault
		if !errors.As(err, &f) {
			f = fault.E(fault.Internal, fault.Cause(err))
		}
		m.Report(f)
		return false
	}
	b.Append(op)
	return true
}

// typeOutputs gives each output the type that was inferred; one that has a type already must be compatible.
func typeOutputs(b *program.Block, op *program.Op, shapes *ops.Shapes) error {
	for slot, names := range op.Outputs {
		for i, name := range names {
			if name == program.Empty {
				continue
			}
			v, ok := b.Find(name)
			if !ok {
				return fault.E(fault.InvalidProgram, fault.On(op), fault.Var(name),
					fault.Got("a name that no block declares"), fault.Want("a declared variable"))
			}
			inferred := shapes.Outs(slot)[i]
			if v.Kind == untyped {
				v.Kind, v.DType, v.Dims, v.LoDLevel, v.Fields = inferred.Kind, inferred.DType, slices.Clone(inferred.Dims), inferred.LoDLevel, inferred.Fields
				continue
			}
			if v.Kind != inferred.Kind || v.DType != inferred.DType || !ops.Compatible(v.Dims, inferred.Dims) {
				return fault.E(fault.ShapeMismatch, fault.On(op), fault.Var(name), fault.Gotf("a result %v", inferred),
					fault.Wantf("%v, as the variable was declared", ops.MetaOf(v)))
			}
		}
	}
	return nil
}
