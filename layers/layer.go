package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A layer is one call of a layer function while it builds.
type layer struct {
	settings
	model  *Model
	kind   string // such as "fc"
	prefix string // of the names that it gives, such as "fc_0"
	failed bool   // an input is poisoned or a mistake was noted: build nothing more
}

// start begins a layer on its inputs. takes lists the options that it knows beside Name.
func start(kind string, opts []Option, takes []string, inputs ...Variable) *layer {
	l := &layer{settings: defaults(), kind: kind}
	for _, x := range inputs {
		switch {
		case x.model == nil:
			l.failed = true
		case l.model == nil:
			l.model = x.model
		case l.model != x.model:
			l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Got("variables of two models"), fault.Want("inputs of one model")))
		}
		if !x.OK() {
			l.failed = true
		}
	}
	if len(inputs) == 0 {
		l.failed = true
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

// mistake notes what is wrong and ends the layer.
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

// op appends an op whose single output slot gets one new variable, and returns that variable.
func (l *layer) op(opType string, in In, attrs Attrs, slot string) Variable {
	return l.multi(opType, in, attrs, slot)[0]
}

// multi appends an op and returns one new variable for each slot; a slot may be named repeatedly.
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
	if !l.model.emit(l.model.main.Global(), op) {
		l.fail()
	}
}

// temporary declares a variable whose type emit fills in.
func (l *layer) temporary() Variable {
	if l.failed {
		return l.fail()
	}
	v, err := l.model.main.Global().AddVar(program.Var{Name: l.model.UniqueName(l.prefix + ".tmp"), Kind: untyped})
	if err != nil {
		return l.mistake(fault.E(fault.Internal, fault.Cause(err)))
	}
	return Variable{l.model, v}
}

// activate appends the activation that the user asked for.
func (l *layer) activate(x Variable) Variable {
	if l.act == "" || l.failed {
		return x
	}
	return l.op(l.act, In{"X": {x}}, nil, "Out")
}

// result ends the layer: the variable takes the layer's name when the user gave one.
func (l *layer) result(v Variable) Variable {
	if l.failed {
		return l.fail()
	}
	if l.name == "" {
		return v
	}
	global := l.model.main.Global()
	named, err := global.AddVar(v.v.Copy(l.name))
	if err != nil {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(l.name), fault.Got("a name that is taken"), fault.Want("a free name")))
	}
	for _, op := range global.Ops {
		op.RenameOutput(v.Name(), l.name)
		op.RenameInput(v.Name(), l.name)
	}
	global.RemoveVar(v.Name())
	return Variable{l.model, named}
}
