package pair

import (
	"errors"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// inferGradient infers F from what F_grad was given, checks that the outputs of F and their gradients have the
// shapes that F gives them, and gives each gradient the shape of its variable.
func inferGradient(s *ops.Shapes, f ops.Def, g Gradient) error {
	metas := map[string]ops.Meta{}
	forward := &program.Op{Type: f.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: s.Op().Attrs}
	for _, slot := range f.Inputs {
		source := slot.Name
		if stand, ok := g.StandIn[slot.Name]; ok && !s.Has(slot.Name) {
			source = stand
		}
		for i, name := range s.Op().Inputs[source] {
			if name != program.Empty {
				name = fmt.Sprint(slot.Name, i)
				metas[name] = s.Ins(source)[i]
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
	inferred, err := ops.Infer(forward, func(name string) (ops.Meta, bool) { m, ok := metas[name]; return m, ok })
	if err != nil {
		return ofGradient(s, err)
	}
	for _, slot := range f.Outputs {
		for _, given := range []string{slot.Name, program.GradName(slot.Name)} {
			if err := matches(s, given, inferred.Outs(slot.Name)); err != nil {
				return err
			}
		}
	}
	for _, wrt := range g.Wrt {
		for i, m := range inferred.Ins(wrt) {
			if forward.Inputs[wrt][i] != program.Empty {
				s.SetAt(program.GradName(wrt), i, m)
			}
		}
	}
	return nil
}

// matches compares what F_grad was given in a slot with what F yields there.
func matches(s *ops.Shapes, slot string, want []ops.Meta) error {
	for i, m := range s.Ins(slot) {
		name := s.Op().Inputs[slot][i]
		if name == program.Empty || m.DType == want[i].DType && ops.Compatible(m.Dims, want[i].Dims) {
			continue
		}
		return fault.E(fault.ShapeMismatch, fault.On(s.Op()), fault.Var(name), fault.Gotf("%s %v", slot, m),
			fault.Want(want[i].String()))
	}
	return nil
}

// ofGradient names the gradient op, not the forward op that was inferred in its stead.
func ofGradient(s *ops.Shapes, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	c := *f
	c.Op, c.Line, c.Variable = s.Op().Type, s.Op().Line(), ""
	return &c
}
