package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/program"
)

// Steps says what the ops recurrent and recurrent_grad hand to their blocks, and take from them. Such an op runs its block once for each row of its inputs. The
// block declares the variables that are handed on, also those that have the name of a variable outside: inside, they are what a step has.
type Steps struct {
	Inputs  []string // names outside and inside: a step has one row
	Initial []string // names outside: the states before the first step
	Before  []string // names inside: the states before a step, as many as Initial
	After   []string // names inside: the states after a step, as many
	Outputs []string // names inside and outside: a step gives one row
	grad    bool
}

// StepsOf returns the steps of recurrent or recurrent_grad, those of the forward op for the latter. It reports false for any other op.
func StepsOf(op *program.Op) (s Steps, ok bool) {
	forward, grad := strings.CutSuffix(op.Type, "_grad")
	if forward != "recurrent" {
		return s, false
	}
	s.grad = grad
	s.Inputs, s.Initial, s.Outputs = op.Inputs["inputs"], op.Inputs["initial_states"], op.Outputs["outputs"]
	if grad {
		s.Outputs = op.Inputs["outputs"]
	}
	s.Before, _ = op.Strs("ex_states")
	s.After, _ = op.Strs("states")
	return s, true
}

// Given returns the variables of the block that the op sets before each run, and left those that it reads after it.
func (s Steps) Given() (given, left []string) {
	if !s.grad {
		return slices.Concat(s.Inputs, s.Before), slices.Concat(s.Outputs, s.After)
	}
	return gradsOf(s.Outputs, s.After), gradsOf(s.Inputs, s.Before)
}

func gradsOf(lists ...[]string) (names []string) {
	for _, name := range slices.Concat(lists...) {
		names = append(names, program.GradName(name))
	}
	return names
}

// GivenTypes returns the types of what an op sets in its block, as far as they follow from its inputs.
func GivenTypes(s *Shapes) map[string]Meta {
	steps, ok := StepsOf(s.op)
	if !ok {
		return nil
	}
	types := map[string]Meta{}
	add := func(slot string, inside []string, row bool) {
		for i, m := range s.Ins(slot) {
			if i < len(inside) && s.op.Inputs[slot][i] != program.Empty && m.Kind == program.LoDTensor && (!row || len(m.Dims) > 0) {
				m = m.WithoutLoD()
				if row {
					m.Dims = m.Dims[1:]
				}
				types[inside[i]] = m
			}
		}
	}
	if steps.grad {
		add("outputs"+program.GradSuffix, s.op.Inputs["outputs"+program.GradSuffix], true)
		add("initial_states", gradsOf(steps.After), false)
		return types
	}
	add("inputs", steps.Inputs, true)
	add("initial_states", steps.Before, false)
	return types
}

// LeftTypes sets the types of outputs that an op takes from its block. inside returns the type that a variable has in the block.
func LeftTypes(s *Shapes, inside func(name string) (Meta, bool)) {
	steps, ok := StepsOf(s.op)
	if !ok || steps.grad || len(s.In("inputs").Dims) == 0 {
		return
	}
	for i, name := range steps.Outputs {
		if m, ok := inside(name); ok && m.Kind == program.LoDTensor {
			m = m.WithoutLoD()
			m.Dims = append([]int64{s.In("inputs").Dims[0]}, m.Dims...)
			s.SetAt("outputs", i, m)
		}
	}
}
