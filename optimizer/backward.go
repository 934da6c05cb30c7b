package optimizer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// AppendBackward appends the ops that compute the gradient of loss, which has one element, with respect to the given
// variables: all trainable parameters when none is given. It returns those that loss depends on with their
// gradients, in the given order. The gradient of x is called x@GRAD. A model has one backward pass.
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
	if _, again := m.Variable(program.GradName(loss.Name())); again {
		m.Report(fault.E(fault.InvalidArgument, fault.Var(loss.Name()), fault.Got("a second backward pass"), fault.Want("one per model"),
			fault.Hint("add the losses and minimize the sum")))
		return nil
	}
	if len(wrt) == 0 {
		wrt = m.Parameters()
	}
	b := &backward{model: m, block: m.Building().Global(), loss: loss.Name(), arrived: map[string]bool{}}
	if !b.trace(wrt) || !b.differentiate() {
		return nil
	}
	b.gather()
	b.markParameters(wrt)
	if !b.append() {
		return nil
	}
	return b.pairs(wrt)
}

// backward is one backward pass while it is built.
type backward struct {
	model   *layers.Model
	block   *program.Block
	loss    string
	path    []*program.Op   // forward ops that loss depends on, in order
	wanted  map[string]bool // forward variables that pass gradients on
	arrived map[string]bool // forward variables whose gradient some op in steps writes
	steps   []*program.Op   // what will be appended
}

// differentiate builds the gradient ops of the path in reverse.
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

// lossGradient starts the chain: the derivative of loss by itself is 1.
func (b *backward) lossGradient() *program.Op {
	loss, _ := b.block.Var(b.loss)
	return &program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {program.GradName(b.loss)}},
		Attrs: map[string]program.Attr{"shape": loss.Dims, "dtype": int32(loss.DType), "value": float32(1)}}
}

// gradientOf returns the ops that pass the gradients of op's outputs on to its inputs; none when no gradient has arrived or nobody wants
// any.
func (b *backward) gradientOf(op *program.Op) ([]*program.Op, error) {
	def, ok := ops.Lookup(op.Type)
	if !ok || def.Gradient == nil || !b.any(op.OutputNames(), b.arrived) || !b.any(op.InputNames(), b.wanted) {
		return nil, nil
	}
	arrived := func(name string) bool { return b.arrived[name] }
	wanted := func(name string) bool { return b.wanted[name] }
	grads, err := def.Gradient(ops.NewGrad(op, def, arrived, wanted))
	if err != nil {
		return nil, err
	}
	if anyNeeds(grads) {
		every := func(name string) bool { return true }
		whole, err := def.Gradient(ops.NewGrad(op, def, every, wanted))
		if err != nil {
			return nil, err
		}
		grads = fillHoles(grads, whole)
	}
	return trim(grads), nil
}

func (b *backward) any(names []string, in map[string]bool) bool {
	for _, name := range names {
		if in[name] {
			return true
		}
	}
	return false
}

// append declares the gradients, with the types of their forward variables unless they are sparse, and appends the steps to the program.
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

// pairs returns the variables that a gradient arrived for.
func (b *backward) pairs(wrt []layers.Variable) []Pair {
	var pairs []Pair
	for _, v := range wrt {
		if grad, ok := b.model.Variable(program.GradName(v.Name())); ok && b.arrived[v.Name()] {
			pairs = append(pairs, Pair{Param: v, Grad: grad})
		}
	}
	return pairs
}
