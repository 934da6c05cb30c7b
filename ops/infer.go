package ops

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Infer runs the shape inference of op. input gives what is known of each input variable by name. The result maps output
// slots to one Meta per variable. The error is a *fault.Fault that names the op and the user's line.
func Infer(op *program.Op, input func(name string) (Meta, bool)) (*Shapes, error) {
	def, ok := Lookup(op.Type)
	if !ok {
		return nil, fault.E(fault.Unsupported, fault.On(op), fault.Got("an op type that is not registered"),
			fault.Want("one of those that `edl show ops` lists"))
	}
	if faults := def.Check(op); len(faults) > 0 {
		return nil, faults[0]
	}
	s := &Shapes{attrs: attrs{op, def}, in: map[string][]Meta{}, out: map[string][]Meta{}}
	for slot, names := range op.Inputs {
		for _, name := range names {
			m, ok := input(name)
			if !ok && name != program.Empty {
				return nil, fault.E(fault.InvalidProgram, fault.On(op), fault.Var(name),
					fault.Got("a name that no block declares"), fault.Want("a declared variable"))
			}
			s.in[slot] = append(s.in[slot], m)
		}
	}
	for slot, names := range op.Outputs {
		s.out[slot] = make([]Meta, len(names))
	}
	if err := s.checkTensors(); err != nil {
		return nil, err
	}
	if err := def.Infer(s); err != nil {
		return nil, At(op, err)
	}
	if err := s.checkInferred(); err != nil {
		return nil, err
	}
	return s, nil
}

// At completes a fault with the op's type and the user's line.
func At(op *program.Op, err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.E(fault.Internal, fault.Cause(err))
	}
	c := *f
	if c.Op == "" {
		c.Op = op.Type
	}
	if c.Line == "" {
		c.Line = op.Line()
	}
	return &c
}
