package opkit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A Gradient describes the op F_grad that computes the gradient of an op F.
//
// As in Fluid, F_grad reads some inputs and outputs of F and the gradients of F's outputs. It writes the gradients of F's inputs. The
// gradient of slot X stands in slot X@GRAD (program.GradName). Slots, attributes and shapes of F_grad follow from those of F, so
// Register derives them and they cannot differ.
type Gradient struct {
	Doc     string   // the formula
	Inputs  []string // input slots of F that F_grad reads
	Outputs []string // output slots of F that F_grad reads
	From    []string // output slots of F whose gradients F_grad reads; nil: all that are not intermediate
	Wrt     []string // input slots of F whose gradients F_grad writes ("with respect to")

	// StandIn is for input slots of F that F_grad does not need, except for their dims and dtype. It maps such a slot to a slot of F_grad
	// that has the same dims and dtype.
	StandIn map[string]string
	// Spares reports of an input slot of F with a StandIn whether F_grad can do without it. Nil: F_grad reads all of Inputs.
	Spares func(grad *ops.Grad, slot string) bool

	// Refine changes the inferred types of the gradients. Nil: each gradient has the dtype and dims of its variable.
	Refine func(*ops.Shapes)
	Rows   bool // the gradients may be sparse (program.SelectedRows)

	InPlace map[string]string // output -> input, as in ops.Def
	Cost    func(*ops.Shapes) ops.Cost
	Bind    Binder // a slot that holds no gradient, or whose gradient nobody wants, has a nil tensor
}

// Register registers the op f, and the op f.Type + "_grad" that g describes. It sets f.Gradient. It panics on an incomplete definition, as
// ops.Register does.
func Register(f ops.Def, g Gradient) {
	if g.From == nil {
		for _, s := range f.Outputs {
			if !s.Intermediate {
				g.From = append(g.From, s.Name)
			}
		}
	}
	for _, a := range f.Attrs {
		for _, slot := range []string{a.Tensor, a.Tensors} {
			if slot != "" && !slices.Contains(g.Inputs, slot) {
				g.Inputs = append(slices.Clone(g.Inputs), slot) // the gradient needs the attribute, too
			}
		}
	}
	f.Gradient = gradientMaker(f, g)
	ops.Register(f)
	ops.Register(gradientDef(f, g))
}

// gradientMaker is ops.StandardGrad without the gradients that g does not read.
func gradientMaker(f ops.Def, g Gradient) func(*ops.Grad) ([]*program.Op, error) {
	standard := ops.StandardGrad(g.Inputs, g.Outputs, g.Wrt)
	return func(grad *ops.Grad) ([]*program.Op, error) {
		made, err := standard(grad)
		if err != nil {
			return nil, err
		}
		for _, s := range f.Outputs {
			if !slices.Contains(g.From, s.Name) {
				delete(made[0].Inputs, program.GradName(s.Name))
			}
		}
		for slot := range g.StandIn {
			if g.Spares != nil && g.Spares(grad, slot) {
				delete(made[0].Inputs, slot)
			}
		}
		return made, nil
	}
}

func gradientDef(f ops.Def, g Gradient) ops.Def {
	d := ops.Def{
		Type:  f.Type + "_grad",
		Class: ops.Backward,
		Doc:   fmt.Sprintf("The gradient of %s: %s", f.Type, g.Doc),
		Attrs: f.Attrs, InPlace: g.InPlace, Cost: g.Cost, Bind: g.Bind,
	}
	reads, writes := paired(f, g)
	d.Infer = func(s *ops.Shapes) error {
		if err := inferGradient(s, f, g, reads, writes); err != nil || g.Refine == nil {
			return err
		}
		g.Refine(s)
		return nil
	}
	for _, s := range f.Inputs {
		s.Rows = false // no gradient flows through a gradient
		if slices.Contains(g.Inputs, s.Name) {
			_, lacks := g.StandIn[s.Name]
			s.Dispensable = s.Dispensable || lacks
			d.Inputs = append(d.Inputs, s)
		}
		if slices.Contains(g.Wrt, s.Name) {
			d.Outputs = append(d.Outputs, ops.Slot{Name: program.GradName(s.Name), Doc: "gradient of " + s.Name, Duplicable: s.Duplicable,
				Dispensable: true, Rows: g.Rows})
		}
	}
	for _, s := range f.Outputs {
		if slices.Contains(g.Outputs, s.Name) {
			s.Intermediate, s.Rows = false, false
			d.Inputs = append(d.Inputs, s)
		}
		if slices.Contains(g.From, s.Name) {
			d.Inputs = append(d.Inputs, ops.Slot{Name: program.GradName(s.Name), Doc: "gradient of " + s.Name, Duplicable: s.Duplicable,
				Dispensable: len(g.From) > 1}) // a gradient that did not arrive counts as zeros
		}
	}
	return d
}

// A pair is a slot of F_grad, and the slot of F that has the same types.
type pair struct{ slot, of string }

// paired returns the slots of F_grad that may have outputs of F and their gradients, and those of the gradients that it writes.
func paired(f ops.Def, g Gradient) (reads, writes []pair) {
	for _, slot := range f.Outputs {
		reads = append(reads, pair{slot.Name, slot.Name}, pair{program.GradName(slot.Name), slot.Name})
	}
	for _, slot := range g.Wrt {
		writes = append(writes, pair{program.GradName(slot), slot})
	}
	return reads, writes
}

// inferGradient is the Infer of F_grad. It infers F from the inputs of F_grad, compares the outputs of F and their gradients with the
// result, and gives each gradient the type of its variable.
func inferGradient(s *ops.Shapes, f ops.Def, g Gradient, reads, writes []pair) error {
	source := func(slot string) string {
		if stand, ok := g.StandIn[slot]; ok && !s.Has(slot) {
			return stand
		}
		return slot
	}
	kept, again := ops.Kept(s).(*forwardShapes)
	var err error
	if again {
		for i, in := range kept.inputs {
			*in.Type = *kept.from[i]
		}
		err = ops.InferAgain(kept.shapes, kept.op)
	} else {
		kept = &forwardShapes{op: forwardOf(s, f, source)}
		metas := map[string]*ops.Meta{}
		for slot, names := range kept.op.Inputs {
			for i, name := range names {
				if name != program.Empty {
					metas[name] = &s.Ins(source(slot))[i]
				}
			}
		}
		kept.shapes, err = ops.Infer(kept.op, func(name string) (ops.Meta, bool) {
			if m := metas[name]; m != nil {
				return *m, true
			}
			return ops.Meta{}, false // program.Empty
		})
		if err == nil {
			kept.inputs = ops.Inputs(kept.shapes, kept.op)
			for _, in := range kept.inputs {
				kept.from = append(kept.from, metas[in.Name])
			}
			ops.Keep(s, kept)
		}
	}
	if err != nil {
		return ofGradient(s, err)
	}
	inferred := kept.shapes
	for _, p := range reads {
		if err := matches(s, p.slot, inferred.Outs(p.of)); err != nil {
			return err
		}
	}
	for _, p := range writes {
		for i, m := range inferred.Ins(p.of) {
			if kept.op.Inputs[p.of][i] != program.Empty {
				s.SetAt(p.slot, i, m)
			}
		}
	}
	return nil
}

// A forwardShapes is the inference of F, for the next one of F_grad.
type forwardShapes struct {
	op     *program.Op
	shapes *ops.Shapes
	inputs []ops.Input // of shapes
	from   []*ops.Meta // what they are in F_grad
}

// forwardOf makes the op F of F_grad. source says which slot of F_grad has the types of a slot of F.
func forwardOf(s *ops.Shapes, f ops.Def, source func(slot string) string) *program.Op {
	forward := &program.Op{Type: f.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: s.Op().Attrs}
	for _, slot := range f.Inputs {
		for i, name := range s.Op().Inputs[source(slot.Name)] {
			if name != program.Empty {
				name = fmt.Sprint(slot.Name, i)
			}
			forward.Inputs[slot.Name] = append(forward.Inputs[slot.Name], name)
		}
	}
	for _, slot := range f.Outputs {
		n := max(len(s.Ins(slot.Name)), len(s.Ins(program.GradName(slot.Name))))
		if !slot.Intermediate {
			n = max(n, 1)
		}
		for i := range n {
			forward.Outputs[slot.Name] = append(forward.Outputs[slot.Name], fmt.Sprint("out ", slot.Name, i))
		}
	}
	return forward
}

// matches checks that a slot of F_grad holds the types that F yields.
func matches(s *ops.Shapes, slot string, want []ops.Meta) error {
	for i, m := range s.Ins(slot) {
		name := s.Op().Inputs[slot][i]
		if name == program.Empty || m.DType == want[i].DType && (ops.Compatible(m.Dims, want[i].Dims) || isNumber(m.Dims) && isNumber(want[i].Dims)) {
			continue
		}
		return fault.E(fault.ShapeMismatch, fault.On(s.Op()), fault.Var(name), fault.Gotf("%s %v", slot, m),
			fault.Want(want[i].String()))
	}
	return nil
}

// isNumber reports whether a tensor of these dims is one number. Paddle declares [] since 2.5 what was [1] before, a loss for example.
func isNumber(dims []int64) bool { return len(dims) == 0 || len(dims) == 1 && dims[0] == 1 }

// ofGradient replaces the forward op by the gradient op in the error of an inference.
func ofGradient(s *ops.Shapes, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	c := *f
	c.Op, c.Line, c.Variable = s.Op().Type, s.Op().Line(), ""
	return &c
}
