package layers

import (
	"errors"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A layer is one call of a layer function while it builds.
type layer struct {
	settings
	model  *Model
	kind   string // of the layer, such as "fc"
	prefix string // of the names that it gives, such as "fc_0"
	failed bool   // build nothing more, because an input is poisoned or a mistake was noted
}

// start begins a layer on its inputs. takes lists the options of the layer besides Name.
func start(kind string, opts []Option, takes []string, inputs ...Variable) *layer {
	l := &layer{settings: defaults(), kind: kind}
	zero := false
	for _, x := range inputs {
		switch {
		case x.model == nil:
			l.failed, zero = true, true
		case l.model == nil:
			l.model = x.model
		case l.model != x.model:
			l.mistake(ofTwoModels(x))
		}
		if !x.OK() {
			l.failed = true
		}
	}
	if len(inputs) == 0 {
		l.failed = true
	}
	if zero && l.model != nil {
		l.mistake(ofNoModel())
	}
	return l.open(opts, takes)
}

// begin begins a layer that has no inputs.
func begin(m *Model, kind string, opts []Option, takes ...string) *layer {
	l := &layer{settings: defaults(), kind: kind, model: m, failed: m == nil}
	return l.open(opts, takes)
}

func (l *layer) open(opts []Option, takes []string) *layer {
	if f := l.apply(l.kind, opts, append(takes, "Name")); f != nil && !l.failed {
		l.mistake(f)
	}
	if !l.failed {
		l.prefix = l.name
		if l.name == "" {
			l.prefix = l.model.UniqueName(l.kind)
		}
	}
	return l
}

// mistake notes a mistake and ends the layer.
func (l *layer) mistake(f *fault.Fault) Variable {
	if f.Where == "" {
		f.Where = "layer " + l.kind
	}
	if l.model != nil {
		l.model.Report(f)
	}
	return l.fail()
}

func (l *layer) fail() Variable {
	l.failed = true
	return Variable{model: l.model}
}

// op appends an op with a single output slot and returns a new variable for it.
func (l *layer) op(opType string, in In, attrs Attrs, slot string) Variable {
	return l.multi(opType, in, attrs, slot)[0]
}

// multi appends an op and returns one new variable for each slot. A slot may be named repeatedly.
func (l *layer) multi(opType string, in In, attrs Attrs, slots ...string) []Variable {
	outs := make([]Variable, len(slots))
	out := In{}
	for i, slot := range slots {
		outs[i] = l.temporary()
		out[slot] = append(out[slot], outs[i])
	}
	l.write(opType, in, attrs, out)
	if l.failed {
		for i := range outs {
			outs[i] = l.fail()
		}
	}
	return outs
}

// write appends an op that writes to variables that exist.
func (l *layer) write(opType string, in In, attrs Attrs, out In) {
	if l.failed {
		return
	}
	op := &program.Op{Type: opType, Inputs: names(in), Outputs: names(out), Attrs: map[string]program.Attr{}}
	for name, value := range attrs {
		op.Attrs[name] = value
	}
	if !l.model.emit(l.model.current(), op) {
		l.fail()
	}
}

// temporary declares a variable. emit sets its type.
func (l *layer) temporary() Variable {
	if l.failed {
		return l.fail()
	}
	v, err := l.model.current().AddVar(program.Var{Name: l.model.UniqueName(l.prefix + ".tmp"), Kind: untyped})
	if err != nil {
		return l.mistake(fault.E(fault.Internal, fault.Cause(err)))
	}
	return Variable{l.model, v}
}

// activate appends the activation of option Act.
func (l *layer) activate(x Variable) Variable {
	if l.act == "" || l.failed {
		return x
	}
	return l.op(l.act, In{"X": {x}}, nil, "Out")
}

// result ends the layer. The variable takes the name of the layer if the user gave one.
func (l *layer) result(v Variable) Variable {
	if l.failed {
		return l.fail()
	}
	if l.name == "" {
		return v
	}
	block := l.model.current()
	named, err := block.AddVar(v.v.Copy(l.name))
	if err != nil {
		return l.mistake(taken(l.name))
	}
	for _, op := range block.Ops {
		op.RenameOutput(v.Name(), l.name)
		op.RenameInput(v.Name(), l.name)
	}
	block.RemoveVar(v.Name())
	return Variable{l.model, named}
}

// untyped marks a variable that an op will write. Shape inference sets its type.
const untyped program.VarKind = -1

// Append appends a complete op, for passes that build ops themselves. It declares outputs that are not declared. The op gets the role of As, and
// the line of user code unless it has one. If the op is wrong, Append notes a mistake, appends nothing and returns false.
func (m *Model) Append(op *program.Op) bool {
	block := m.current()
	for _, name := range op.OutputNames() {
		if _, declared := block.Find(name); !declared {
			block.EnsureVar(program.Var{Name: name, Kind: untyped})
		}
	}
	return m.emit(block, op)
}

// emit is Append for any block. The outputs must be declared.
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

// typeOutputs gives each output its inferred type. If an output has a type already, both must be compatible.
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
			if inferred.Kind == 0 && v.Kind != untyped { // what a block writes has the type that its ops gave it
				continue
			}
			if v.Kind == program.LoDTensorArray && len(v.Dims) == 0 { // the first item tells the dims
				v.Dims, v.LoDLevel = slices.Clone(inferred.Dims), inferred.LoDLevel
			}
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

func sortedSlots(in In) []string { return slices.Sorted(maps.Keys(in)) }

// names returns the names of variables by slot. It leaves out empty slots.
func names(in In) map[string][]string {
	out := map[string][]string{}
	for slot, vs := range in {
		for _, v := range vs {
			out[slot] = append(out[slot], v.Name())
		}
	}
	return out
}

// taken makes the error of a second variable with a name.
func taken(name string) *fault.Fault {
	return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a name that is taken"), fault.Want("a free name"))
}

// ofNoModel makes the error of an input that is the zero Variable.
func ofNoModel() *fault.Fault {
	return fault.E(fault.InvalidArgument, fault.Got("the zero layers.Variable as an input"), fault.Want("a variable that a layer has returned"))
}

// ofTwoModels makes the error of an input that belongs to another model than the inputs before it.
func ofTwoModels(v Variable) *fault.Fault {
	return fault.E(fault.InvalidArgument, fault.Var(v.Name()), fault.Got("variables of two models"), fault.Want("inputs of one model"))
}
