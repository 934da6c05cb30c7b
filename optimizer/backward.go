package optimizer

import (
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
	global := m.Building().Global()
	b := &backward{model: m, into: global, loss: loss.Name(), gradients: newGradients(global)}
	if !b.selectVariables(wrt) || !b.differentiate() {
		return nil
	}
	b.keepValues()
	b.markParameters(wrt)
	if !b.append() {
		return nil
	}
	return b.pairs(wrt)
}

// backward is the backward pass of one block under construction.
type backward struct {
	model   *layers.Model
	into    *program.Block // where the gradients are computed: the forward block itself, or that of a gradient
	outer   *backward      // of the enclosing block; nil for the global one
	loss    string
	path    []*program.Op   // forward ops that loss depends on, in order
	wanted  map[string]bool // forward variables whose gradient somebody needs
	through map[string]bool // variables of enclosing blocks whose gradients are changed where they are, and not in the block of a gradient
	gradients
}

// differentiate builds the gradient ops of the path, from the last op to the first.
func (b *backward) differentiate() bool {
	b.add(b.lossGradient())
	if err := b.reverse(); err != nil {
		b.model.Report(asFault(err))
		return false
	}
	return true
}

// reverse builds the gradient ops of the path, given the gradients that have arrived.
func (b *backward) reverse() error {
	for _, op := range slices.Backward(b.path) {
		grads, err := b.gradientOf(op)
		if err != nil {
			return ops.At(op, err)
		}
		overwritten := b.overwrittenBy(op)
		for _, name := range overwritten {
			b.complete(name)
		}
		for _, name := range overwritten { // what is read before has the gradient of another value
			b.forget(name)
		}
		for _, grad := range grads {
			if grad.Line() == "" {
				grad.SetLine(op.Line())
			}
			b.origin[grad] = op
			b.add(grad)
		}
	}
	b.completeAll()
	return nil
}

// overwrittenBy returns the variables with gradients that an op gives new values. A block that an op runs looks after what it writes itself (throughBlock), and
// items of arrays have gradients of their own.
func (b *backward) overwrittenBy(op *program.Op) (names []string) {
	if len(op.SubBlocks()) > 0 {
		return nil
	}
	for _, name := range op.OutputNames() {
		if v, ok := b.block.Find(name); ok && v.Kind != program.LoDTensorArray && b.has(name) {
			names = append(names, name)
		}
	}
	return names
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
	if !ok || def.Gradient == nil || !slices.ContainsFunc(op.OutputNames(), b.has) || !anyOf(op.InputNames(), b.wanted) {
		return nil, nil
	}
	var inner *ops.BlockGrad
	if _, runs := op.SubBlock("sub_block"); runs {
		var err error
		if inner, err = b.throughBlock(op); err != nil || inner == nil {
			return nil, err
		}
	}
	wanted := func(name string) bool { return b.wanted[name] }
	grads, err := def.Gradient(ops.NewGrad(op, def, b.has, wanted).WithDims(b.dims).WithBlock(inner))
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
	if b.outer != nil { // runs of a block add up their parts of a gradient
		for _, grad := range grads {
			program.MakeDense(grad)
		}
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

func anyOf(names []string, in map[string]bool) bool {
	for _, name := range names {
		if in[name] {
			return true
		}
	}
	return false
}

// append declares the gradients and appends the steps to the program. A gradient has the type of its forward variable, unless it is sparse.
func (b *backward) append() bool {
	if !b.appendSteps() {
		return false
	}
	last := b.path[len(b.path)-1]
	last.SetRole(last.Role() | program.RoleLoss)
	return true
}

// appendSteps appends the steps to the block of the gradients.
func (b *backward) appendSteps() bool {
	for i, op := range b.steps {
		appended := false
		b.declareOutputs(op)
		role := program.RoleBackward
		if i == 0 && b.outer == nil {
			role |= program.RoleLoss
		}
		b.model.As(role, nil, func() { b.model.Within(b.into, func() { appended = b.model.Append(op) }) })
		if !appended {
			return false
		}
	}
	return true
}

// pairs returns the variables whose gradient arrived.
func (b *backward) pairs(wrt []layers.Variable) []Pair {
	var pairs []Pair
	for _, v := range wrt {
		if grad, ok := b.model.Variable(program.GradName(v.Name())); ok && b.written[v.Name()] {
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
		if again := b.mark(b.block, op); again != "" {
			b.model.Report(fault.E(fault.InvalidProgram, fault.On(op), fault.Var(again),
				fault.Got("a second value for the variable"), fault.Want("one value, so that its gradient has one meaning"),
				fault.Hint("write the result to a new variable")))
			return false
		}
	}
	if !b.wanted[b.loss] {
		b.model.Report(fault.E(fault.InvalidArgument, fault.Var(b.loss), fault.Got("a loss that depends on no trainable parameter"),
			fault.Want("at least one between the data and the loss")))
		return false
	}
	return true
}

// mark marks what an op computes from wanted variables as wanted, too. In blocks that ops run, variables may change. It returns a variable of the global block
// that an op gives a second value.
func (b *backward) mark(block *program.Block, op *program.Op) (again string) {
	if index, runs := op.SubBlock("sub_block"); runs {
		sub, err := block.Program().Block(index)
		steps, _ := ops.StepsOf(op)
		for range 2 + len(steps.After) { // what a loop writes it may read in its next run, as may one state another
			for i, before := range steps.Before {
				if b.wanted[steps.Initial[i]] || b.wanted[steps.After[i]] {
					b.wanted[before] = true
				}
			}
			if err == nil {
				for _, inner := range sub.Ops {
					b.mark(sub, inner)
				}
			}
		}
		return ""
	}
	def, ok := ops.Lookup(op.Type)
	if !ok || def.Gradient == nil || !anyOf(op.InputNames(), b.wanted) {
		return ""
	}
	for _, name := range op.OutputNames() {
		v, ok := block.Find(name)
		if !ok || v.StopGradient || !v.DType.IsFloat() {
			continue
		}
		if b.wanted[name] && block == b.block && v.Kind == program.LoDTensor {
			return name
		}
		b.wanted[name] = true
	}
	return ""
}

// findPath collects the forward ops that loss depends on, in program order.
func (b *backward) findPath() {
	needed := map[string]bool{b.loss: true}
	for _, op := range slices.Backward(b.block.Ops) {
		if !op.Role().Has(program.RoleForward) || !anyOf(op.OutputNames(), needed) {
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
		v, ok := b.into.Find(name)
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

// declare declares a gradient in the block where it lives: that of its variable if it is changed where it is, and else the block that computes it.
func (b *backward) declare(name, forward string) {
	v, ok := b.block.Find(forward)
	if !ok {
		return
	}
	at := b
	for name == program.GradName(forward) && at.through[forward] && at.outer != nil {
		at = at.outer
	}
	at.into.EnsureVar(program.Var{Name: name, Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel})
}
