package ops

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Verify checks a program, which may come from anywhere, and its startup program against the rules of the IR, the registry and the table of stages.
// It returns nil or all faults as a fault.List. Each fault names its block and op, its variable, what was found, what is right, and the line of
// user code. Verify computes nothing and does not change the program.
func Verify(p *program.Program, stage program.Stage) error {
	rule, ok := stages[stage]
	if !ok {
		return fault.E(fault.InvalidArgument, fault.Gotf("stage %d", stage), fault.Want("a stage of package program"))
	}
	faults := verifyOne(p, stage, rule)
	if s := p.Startup; s != nil {
		if s.Startup != nil {
			faults.Add(fault.E(fault.InvalidProgram, fault.Got("a startup program of a startup program"), fault.Want("at most one")))
		}
		for _, f := range verifyOne(s, rule.startup, stages[rule.startup]) {
			faults.Add(f.In("startup program", ", "))
		}
	}
	return faults.Err()
}

func verifyOne(p *program.Program, stage program.Stage, rule stageRule) fault.List {
	_, faults := verifyTypes(p, stage, rule)
	return faults
}

// Redeclare returns a program that Verify accepts with the types that its temporary variables have: Fluid has often declared them wrongly, and what divides a program
// goes by declarations. It returns p itself if they are right, and otherwise a copy.
func Redeclare(p *program.Program) *program.Program {
	inferred, _ := verifyTypes(p, program.StageLocal, stages[program.StageLocal])
	if len(inferred) == 0 {
		return p
	}
	c := p.Clone()
	for i, b := range p.Blocks {
		for _, v := range b.Vars() {
			if m, ok := inferred[v]; ok {
				to, _ := c.Blocks[i].Var(v.Name)
				to.DType, to.Dims, to.LoDLevel = m.DType, slices.Clone(m.Dims), m.LoDLevel
			}
		}
	}
	return c
}

// verifyTypes also returns the types of temporary variables whose declarations are wrong.
func verifyTypes(p *program.Program, stage program.Stage, rule stageRule) (map[*program.Var]Meta, fault.List) {
	rules := registryRules{stage: stage, rule: rule, bound: boundVars(p), inferred: map[*program.Var]Meta{}, once: WrittenOnce(p), values: map[*program.Var]*tensor.Tensor{}}
	spec := program.Spec{Ops: rules, Fed: rule.fed, Shape: rule.checkShape, Linked: func(op *program.Op) (given, left []string) {
		steps, _ := StepsOf(op)
		return steps.Given()
	}}
	if stage == program.StageLocal || stage == program.StageStartup || stage == program.StageInference {
		spec.Hint = func(v *program.Var) bool { return !rules.bound[v] } // programs of roles are EDL's own
	}
	err := program.Verify(p, spec)
	var faults fault.List
	errors.As(err, &faults)
	return rules.inferred, faults
}

// registryRules answers the questions of program.Verify from the registry and one row of the table of stages.
type registryRules struct {
	stage program.Stage
	rule  stageRule
	bound map[*program.Var]bool
	// inferred has the types of temporary variables whose declarations are wrong, for the ops that read them later.
	inferred map[*program.Var]Meta
	// values has the values that follow from constants, of variables that are written once.
	once   map[string]bool
	values map[*program.Var]*tensor.Tensor
}

// boundVars returns the variables whose declared types others rely on: persistable ones, and those that are fed, read from data, fetched, sent,
// received, saved or loaded. The declaration of any other is a hint, which Fluid has often written wrongly.
func boundVars(p *program.Program) map[*program.Var]bool {
	bound := map[*program.Var]bool{}
	for _, b := range p.Blocks {
		for _, v := range b.Vars() {
			bound[v] = v.Persistable || v.NeedCheckFeed
		}
		for _, op := range b.Ops {
			if def, ok := Lookup(op.Type); !ok || def.Class.computes() || def.Class == Control {
				continue
			}
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				if v, ok := b.Find(name); ok {
					bound[v] = true
				}
			}
		}
	}
	return bound
}

func (r registryRules) CheckOp(b *program.Block, op *program.Op) fault.List {
	def, ok := Lookup(op.Type)
	if !ok {
		return fault.List{Unregistered(op.Type)}
	}
	if f := r.rule.checkTranspiled(r.stage, op, def); f != nil {
		return fault.List{f}
	}
	var faults fault.List
	err := guard(op, func() { faults = def.Check(op) })
	if err != nil {
		faults.Add(err)
	}
	faults = slices.Concat(faults, checkAttrNames(op, def), checkOverlap(op, def))
	if f := r.rule.checkOp(r.stage, b, def); f != nil {
		faults.Add(f)
	}
	return faults
}

func (r registryRules) CheckTypes(b *program.Block, op *program.Op) fault.List {
	var shapes *Shapes
	var err error
	if f := guard(op, func() { shapes, err = Infer(op, r.metaIn(b)) }); f != nil {
		return fault.List{f}
	}
	if err != nil {
		var f *fault.Fault
		errors.As(err, &f)
		return fault.List{f}
	}
	var faults fault.List
	for _, slot := range slices.Sorted(maps.Keys(op.Outputs)) {
		for i, name := range op.Outputs[slot] {
			v, ok := b.Find(name)
			if name == program.Empty || !ok {
				continue
			}
			declared, inferred := MetaOf(v), shapes.Outs(slot)[i]
			if inferred.Kind != 0 { // an op that runs a block leaves open what the block writes
				delete(r.inferred, v)
			}
			if inferred.Value != nil && r.once[name] {
				r.values[v] = inferred.Value
			}
			if r.bound[v] || inferred.Kind != declared.Kind {
				if f := compare(inferred, declared); f != nil {
					f.Variable = name
					faults.Add(f)
				}
			} else if inferred.DType != declared.DType || inferred.LoDLevel != declared.LoDLevel || !Compatible(inferred.Dims, declared.Dims) {
				declared.DType, declared.Dims, declared.LoDLevel = inferred.DType, inferred.Dims, inferred.LoDLevel
				r.inferred[v] = declared
			}
		}
	}
	return faults
}

// metaIn returns a lookup of the types that ops of block b see: the declared one, unless another was inferred.
func (r registryRules) metaIn(b *program.Block) func(string) (Meta, bool) {
	return func(name string) (Meta, bool) {
		v, ok := b.Find(name)
		if !ok {
			return Meta{}, false
		}
		m, ok := r.inferred[v]
		if !ok {
			m = hinted(MetaOf(v))
		}
		m.Value = r.values[v]
		return m, true
	}
}

// hinted makes a declared type fit for inference. It is of a variable whose type nothing has been inferred for, such as the output of an unknown op: what
// cannot be an extent is open.
func hinted(m Meta) Meta {
	if slices.ContainsFunc(m.Dims, func(d int64) bool { return d < program.Unknown }) {
		m.Dims = slices.Clone(m.Dims)
		for i, d := range m.Dims {
			m.Dims[i] = max(d, program.Unknown)
		}
	}
	return m
}

// compare checks the declared type of a bound output against the inferred one. A declaration without dims, as old files have them, fits any.
func compare(inferred, declared Meta) *fault.Fault {
	switch {
	case inferred.Kind == 0: // the op leaves it open
		return nil
	case inferred.Kind != declared.Kind:
		return fault.E(fault.TypeMismatch, fault.Got("the declaration "+declared.Kind.String()), fault.Want(inferred.Kind.String()))
	case inferred.Kind != program.LoDTensor && inferred.Kind != program.SelectedRows:
		return nil
	case inferred.DType != declared.DType:
		return fault.E(fault.TypeMismatch, fault.Got("the declaration "+declared.String()), fault.Want(inferred.String()))
	case len(declared.Dims) > 0 && !Compatible(inferred.Dims, declared.Dims):
		return fault.E(fault.ShapeMismatch, fault.Got("the declaration "+declared.String()), fault.Want(inferred.String()))
	}
	return nil
}

// guard turns a panic in the rules of an op into a fault. Verify takes bytes from outside, and one wrong rule must not end a server that runs many
// jobs.
func guard(op *program.Op, run func()) (f *fault.Fault) {
	defer func() {
		if panicked := recover(); panicked != nil {
			f = fault.E(fault.Internal, fault.Op(op.Type), fault.Cause(fmt.Errorf("the shape inference or a check of the op panicked: %v", panicked)))
		}
	}()
	run()
	return nil
}

func (d *Def) hasAttr(name string) bool {
	return slices.ContainsFunc(d.Attrs, func(a Attr) bool { return a.Name == name })
}

// checkOverlap refuses an op that writes a variable which it also reads, because its kernel would read what it has just written. It allows this if
// the slots may share a buffer (Def.InPlace), if the output is state of the op (Def.State), or if ops of the class do not compute.
func checkOverlap(op *program.Op, def *Def) fault.List {
	if def.Class != Compute && def.Class != Backward && def.Class != Random {
		return nil
	}
	var faults fault.List
	for _, out := range slices.Sorted(maps.Keys(op.Outputs)) {
		if _, state := def.State[out]; state {
			continue
		}
		for _, name := range op.Outputs[out] {
			for _, in := range slices.Sorted(maps.Keys(op.Inputs)) {
				if name == program.Empty || def.InPlace[out] == in || !slices.Contains(op.Inputs[in], name) {
					continue
				}
				faults.Add(fault.E(fault.Unsupported, fault.Var(name), fault.Gotf("one variable as input %s and output %s", in, out),
					fault.Want("another variable for the output: this op does not work in place")))
			}
		}
	}
	return faults
}
