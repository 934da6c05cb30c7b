package optimizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// AppendBackward appends the ops that compute the gradient of loss, which has one element, with respect to the given variables. Without variables
// it takes all trainable parameters. It returns the variables that loss depends on, in the given order, with their gradients. The gradient of x is
// called x@GRAD. A model has one backward pass.
func AppendBackward(loss layers.Variable, wrt ...layers.Variable) []Pair {
	m := loss.Model()
	if !loss.OK() {
		return nil
	}
	if ops.Product(loss.Dims()) != 1 {
		m.Report(fault.E(fault.ShapeMismatch, fault.Var(loss.Name()), fault.Gotf("a loss %v", loss), fault.Want("one element"),
			fault.Hint("take its layers.Mean")))
		return nil
	}
	again := slices.ContainsFunc(m.Building().Global().Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleBackward) })
	if again {
		m.Report(fault.E(fault.InvalidArgument, fault.Var(loss.Name()), fault.Got("a second backward pass"), fault.Want("one for each model"),
			fault.Hint("add the losses and minimize the sum, or build a model for each loss: parameters of the same name are shared")))
		return nil
	}
	if len(wrt) == 0 {
		wrt = m.Parameters()
	}
	b := &backward{model: m, block: m.Building().Global(), loss: loss.Name(), arrived: map[string]bool{}}
	if !b.selectVariables(wrt) || !b.differentiate() {
		return nil
	}
	b.sumGradients()
	b.markParameters(wrt)
	if !b.append() {
		return nil
	}
	return b.pairs(wrt)
}

// backward is one backward pass under construction.
type backward struct {
	model   *layers.Model
	block   *program.Block
	loss    string
	path    []*program.Op   // forward ops that loss depends on, in order
	wanted  map[string]bool // forward variables whose gradient somebody needs
	arrived map[string]bool // forward variables whose gradient some op in steps writes
	steps   []*program.Op   // the ops to append
}

// differentiate builds the gradient ops of the path, from the last op to the first.
func (b *backward) differentiate() bool {
	b.steps = append(b.steps, b.lossGradient())
	b.arrived[b.loss] = true
	for i := len(b.path) - 1; i >= 0; i-- {
		grads, err := b.gradientOf(b.path[i])
		if err != nil {
			b.model.Report(asFault(ops.At(b.path[i], err)))
			return false
		}
		for _, op := range grads {
			if op.Line() == "" {
				op.SetLine(b.path[i].Line())
			}
			b.steps = append(b.steps, op)
			for _, name := range op.OutputNames() {
				if forward, ok := forwardName(name); ok {
					b.arrived[forward] = true
				}
			}
		}
	}
	return true
}

// lossGradient starts with the derivative of loss with respect to itself, which is 1.
func (b *backward) lossGradient() *program.Op {
	loss, _ := b.block.Var(b.loss)
	return &program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {program.GradName(b.loss)}},
		Attrs: map[string]program.Attr{"shape": loss.Dims, "dtype": int32(loss.DType), "value": float32(1)}}
}

// gradientOf returns the ops that compute gradients of the inputs of op from gradients of its outputs. It returns none if no gradient has arrived
// or nobody wants one.
func (b *backward) gradientOf(op *program.Op) ([]*program.Op, error) {
	def, ok := ops.Lookup(op.Type)
	if !ok || def.Gradient == nil || !b.any(op.OutputNames(), b.arrived) || !b.any(op.InputNames(), b.wanted) {
		return nil, nil
	}
	arrived := func(name string) bool { return b.arrived[name] }
	wanted := func(name string) bool { return b.wanted[name] }
	grads, err := def.Gradient(ops.NewGrad(op, def, arrived, wanted).WithDims(b.dims))
	if err != nil {
		return nil, err
	}
	if anyNeedsZeros(grads) {
		every := func(name string) bool { return true }
		whole, err := def.Gradient(ops.NewGrad(op, def, every, wanted).WithDims(b.dims))
		if err != nil {
			return nil, err
		}
		grads = fillMissing(grads, whole)
	}
	return trim(grads), nil
}

// dims returns the declared dims of a variable.
func (b *backward) dims(name string) []int64 {
	if v, ok := b.block.Find(name); ok {
		return v.Dims
	}
	return nil
}

// floats returns the variables that can have a gradient.
func (b *backward) floats() map[string]bool {
	can := map[string]bool{}
	for _, v := range b.block.Vars() {
		can[v.Name] = v.DType.IsFloat() && !v.StopGradient
	}
	return can
}

func (b *backward) any(names []string, in map[string]bool) bool {
	for _, name := range names {
		if in[name] {
			return true
		}
	}
	return false
}

// append declares the gradients and appends the steps to the program. A gradient has the type of its forward variable, unless it is sparse.
func (b *backward) append() bool {
	for i, op := range b.steps {
		b.declareOutputs(op)
		role := program.RoleBackward
		if i == 0 {
			role |= program.RoleLoss
		}
		appended := false
		b.model.As(role, nil, func() { appended = b.model.Append(op) })
		if !appended {
			return false
		}
	}
	last := b.path[len(b.path)-1]
	last.SetRole(last.Role() | program.RoleLoss)
	return true
}

// pairs returns the variables whose gradient arrived.
func (b *backward) pairs(wrt []layers.Variable) []Pair {
	var pairs []Pair
	for _, v := range wrt {
		if grad, ok := b.model.Variable(program.GradName(v.Name())); ok && b.arrived[v.Name()] {
			pairs = append(pairs, Pair{Param: v, Grad: grad})
		}
	}
	return pairs
}

// selectVariables finds the forward ops that loss depends on, and the variables between wrt and loss whose gradients are needed. It reports false
// after a mistake.
func (b *backward) selectVariables(wrt []layers.Variable) bool {
	b.wanted = map[string]bool{}
	for _, v := range wrt {
		if v.Model() != b.model || !v.OK() {
			b.model.Report(fault.E(fault.InvalidArgument, fault.Var(v.Name()), fault.Got("a variable of another model"),
				fault.Want("variables of the model of the loss")))
			return false
		}
		b.wanted[v.Name()] = true
	}
	b.findPath()
	for _, op := range b.path {
		def, ok := ops.Lookup(op.Type)
		if ok && def.Class == ops.Control && (b.any(op.InputNames(), b.wanted) && b.any(op.OutputNames(), b.floats()) || b.any(op.OutputNames(), b.wanted)) {
			b.model.Report(fault.E(fault.Unsupported, fault.On(op), fault.Got("a loss that depends on a branch, a loop or an array"),
				fault.Want("none of them between the parameters and the loss"), fault.Hint("no gradient flows through ops of control flow yet")))
			return false
		}
		if !ok || def.Gradient == nil || !b.any(op.InputNames(), b.wanted) {
			continue
		}
		for _, name := range op.OutputNames() {
			v, ok := b.block.Var(name)
			if !ok || v.StopGradient || !v.DType.IsFloat() {
				continue
			}
			if b.wanted[name] {
				b.model.Report(fault.E(fault.InvalidProgram, fault.On(op), fault.Var(name),
					fault.Got("a second value for the variable"), fault.Want("one value, so that its gradient has one meaning"),
					fault.Hint("write the result to a new variable")))
				return false
			}
			b.wanted[name] = true
		}
	}
	if !b.wanted[b.loss] {
		b.model.Report(fault.E(fault.InvalidArgument, fault.Var(b.loss), fault.Got("a loss that depends on no trainable parameter"),
			fault.Want("at least one between the data and the loss")))
		return false
	}
	return true
}

// findPath collects the forward ops that loss depends on, in program order.
func (b *backward) findPath() {
	needed := map[string]bool{b.loss: true}
	for _, op := range slices.Backward(b.block.Ops) {
		if !op.Role().Has(program.RoleForward) || !b.any(op.OutputNames(), needed) {
			continue
		}
		for _, name := range op.InputNames() {
			needed[name] = true
		}
		b.path = append(b.path, op)
	}
	slices.Reverse(b.path)
}

// forwardName returns the variable whose gradient, or part of a gradient, has this name.
func forwardName(name string) (string, bool) {
	name, _, _ = strings.Cut(name, program.RenameMark)
	return strings.CutSuffix(name, program.GradSuffix)
}

func slots(args map[string][]string) []string { return slices.Sorted(maps.Keys(args)) }

// An argument is a place where an op writes a variable.
type argument struct {
	op    *program.Op
	slot  string
	index int
}

// sumGradients sums the gradients of a variable that several ops use. Each of k ops writes one part. The parts are renamed to x@GRAD@RENAME@0 and
// so on, and a sum op follows the last of them.
func (b *backward) sumGradients() {
	writers := map[string][]argument{}
	for _, op := range b.steps {
		for _, slot := range slots(op.Outputs) {
			op.Outputs[slot] = slices.Clone(op.Outputs[slot])
			for i, name := range op.Outputs[slot] {
				if name != program.Empty {
					writers[name] = append(writers[name], argument{op, slot, i})
				}
			}
		}
	}
	var steps []*program.Op
	for _, op := range b.steps {
		steps = append(steps, op)
		for _, name := range op.OutputNames() {
			if parts := writers[name]; len(parts) > 1 && parts[len(parts)-1].op == op {
				delete(writers, name)
				steps = append(steps, sumParts(name, parts))
			}
		}
	}
	b.steps = steps
}

// sumParts renames the parts of a gradient. It returns the op that sums them, in the order of the backward pass.
func sumParts(name string, parts []argument) *program.Op {
	sum := &program.Op{Type: "sum", Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {name}}}
	for i, part := range parts {
		renamed := fmt.Sprintf("%s%s%d", name, program.RenameMark, i)
		part.op.Outputs[part.slot][part.index] = renamed
		sum.Inputs["X"] = append(sum.Inputs["X"], renamed)
	}
	sum.SetLine(parts[0].op.Line())
	return sum
}

// markParameters sets the role variables, parameter and gradient, of the last op that writes the gradient of a parameter.
func (b *backward) markParameters(wrt []layers.Variable) {
	parameters := map[string]bool{}
	for _, v := range wrt {
		parameters[v.Name()] = true
	}
	for _, op := range b.steps {
		var vars []string
		for _, name := range op.OutputNames() {
			forward, ok := forwardName(name)
			if ok && parameters[forward] && name == program.GradName(forward) {
				vars = append(vars, forward, name)
			}
		}
		if len(vars) > 0 {
			op.SetAttr(program.AttrRoleVar, vars)
		}
	}
}

// A gradient op has program.Empty in place of the gradient of a forward output that did not arrive. If the op can do without this gradient,
// the slot is left out. Otherwise an op before it fills the gradient with zeros.

// needsZeros reports whether an input slot of op lacks a gradient that op cannot do without.
func needsZeros(op *program.Op, slot string) bool {
	if !slices.Contains(op.Inputs[slot], program.Empty) {
		return false
	}
	def, ok := ops.Lookup(op.Type)
	if !ok {
		return false
	}
	i := slices.IndexFunc(def.Inputs, func(s ops.Slot) bool { return s.Name == slot })
	return i >= 0 && !def.Inputs[i].Dispensable
}

func anyNeedsZeros(grads []*program.Op) bool {
	for _, op := range grads {
		for slot := range op.Inputs {
			if needsZeros(op, slot) {
				return true
			}
		}
	}
	return false
}

// fillMissing returns grads with a fill_zeros_like op for every gradient that did not arrive and that an op cannot do without. whole is what grads
// would be if all gradients had arrived. It gives the names of the missing gradients.
func fillMissing(grads, whole []*program.Op) []*program.Op {
	if len(grads) != len(whole) {
		return whole
	}
	var filled []*program.Op
	zeros := map[string]bool{}
	for i, op := range grads {
		for _, slot := range slots(op.Inputs) {
			if !needsZeros(op, slot) {
				continue
			}
			names := slices.Clone(op.Inputs[slot])
			for j, name := range names {
				if name != program.Empty || j >= len(whole[i].Inputs[slot]) {
					continue
				}
				names[j] = whole[i].Inputs[slot][j]
				if forward, ok := forwardName(names[j]); ok && !zeros[names[j]] {
					zeros[names[j]] = true
					filled = append(filled, zeroGradient(forward, op.Line()))
				}
			}
			op.Inputs[slot] = names
		}
		filled = append(filled, op)
	}
	return filled
}

func zeroGradient(forward, line string) *program.Op {
	op := &program.Op{Type: "fill_zeros_like", Inputs: map[string][]string{"X": {forward}},
		Outputs: map[string][]string{"Out": {program.GradName(forward)}}}
	op.SetLine(line)
	return op
}

// trim drops slots without variables, and ops without outputs.
func trim(grads []*program.Op) []*program.Op {
	var kept []*program.Op
	for _, op := range grads {
		for _, args := range []map[string][]string{op.Inputs, op.Outputs} {
			for slot, names := range args {
				if !slices.ContainsFunc(names, func(n string) bool { return n != program.Empty }) {
					delete(args, slot)
				}
			}
		}
		if len(op.Outputs) > 0 {
			kept = append(kept, op)
		}
	}
	return kept
}

// declareOutputs declares the gradients that op writes, except sparse ones: their kind follows from the op.
func (b *backward) declareOutputs(op *program.Op) {
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		v, ok := b.block.Var(name)
		if !ok {
			return ops.Meta{}, false
		}
		return ops.MetaOf(v), true
	})
	for _, slot := range slots(op.Outputs) {
		for i, name := range op.Outputs[slot] {
			forward, ok := forwardName(name)
			if sparse := err == nil && shapes.Outs(slot)[i].Kind == program.SelectedRows; ok && !sparse {
				b.declare(name, forward)
			}
		}
	}
}

func (b *backward) declare(name, forward string) {
	if v, ok := b.block.Var(forward); ok {
		b.block.EnsureVar(program.Var{Name: name, Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel})
	}
}
