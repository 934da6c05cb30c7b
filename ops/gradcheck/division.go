package gradcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The law of division: trainers divide a batch by rows, or by sequences of its outermost level. Where Def.MixesRows says that rows stay apart, the op computes of a part of
// the rows the bits of these rows, and so does its gradient. The law tries every choice of input slots that may hold rows of the batch.

// mostSlots bounds the choices, of which there are 2**slots.
const mostSlots = 6

// counts lists outputs that count over the batch beside outputs with rows. They are fetched, and no loss depends on them.
var counts = []string{"edit_distance SequenceNum"}

// onServers lists ops that no forward pass has: they work on slices of parameters.
var onServers = []string{"squared_l2_norm_partial", "squared_l2_norm_merge"}

// byLength lists ops whose result has as many places as the longest sequence of what they get, so a part may have fewer than the whole. The ops that read it know the
// lengths.
var byLength = []string{"sequence_pad", "sequence_mask"}

// A division is the rows of a batch that a choice of slots holds.
type division struct {
	slots []string
	rows  int64 // or sequences
	lod   bool
}

// holds reports whether the variable of a slot has the rows.
func (d division) holds(slot string) bool { return slices.Contains(d.slots, slot) }

// divided checks the law on a case that has run. A batch of one row is doubled. It returns how many choices of slots it has checked, and how many it could not,
// because they hold no rows.
func divided(c Case, t *trace, def *ops.Def) (checked, empty int, err error) {
	if def.Class != ops.Compute || def.State != nil || slices.Contains(onServers, def.Type) {
		return 0, 0, nil
	}
	if slices.Contains(byLength, def.Type) {
		return 1, 0, nil
	}
	known, err := t.Infer(t.forward)
	if err != nil {
		return 0, 0, err
	}
	var slots []string
	for _, slot := range def.Inputs {
		if known.Has(slot.Name) && len(slots) < mostSlots {
			slots = append(slots, slot.Name)
		}
	}
	for choice := 1; choice < 1<<len(slots); choice++ {
		d := division{rows: -1}
		for i, slot := range slots {
			if choice>>i&1 == 1 {
				d.slots = append(d.slots, slot)
			}
		}
		fits := d.measure(t)
		if !fits || def.MixesRows != nil && def.MixesRows(known, d.holds) {
			continue
		}
		whole := t
		switch d.rows {
		case 0:
			empty++
			continue
		case 1:
			if whole, err = d.double(c); err != nil {
				continue // the op takes one row only
			}
			d.rows = 2
		}
		checked++
		if err := d.check(whole); err != nil {
			return checked, empty, fmt.Errorf("with rows of the batch in %v: %w", d.slots, err)
		}
	}
	return checked, empty, nil
}

// measure finds how many rows, or sequences, the slots hold. It reports whether all of them hold as many.
func (d *division) measure(t *trace) bool {
	for _, pass := range []bool{true, false} { // those with a LoD first, which say what a row is
		for _, slot := range d.slots {
			for _, name := range t.forward.Inputs[slot] {
				v := t.Vars[name]
				if name == program.Empty || (len(v.LoD()) > 0) != pass {
					continue
				}
				if v.IsSelected() || len(v.Dims()) == 0 {
					return false
				}
				n := v.Dims()[0]
				if pass {
					n, d.lod = int64(len(v.LoD()[0])-1), true
				}
				if d.rows >= 0 && d.rows != n {
					return false
				}
				d.rows = n
			}
		}
	}
	return d.rows >= 0
}

// double runs the case with the rows twice.
func (d division) double(c Case) (*trace, error) {
	_, t, err := d.twice(c)
	return t, err
}

// twice is double, and returns the inputs, too.
func (d division) twice(c Case) (map[string][]*tensor.Tensor, *trace, error) {
	inputs := maps.Clone(c.Inputs)
	for _, slot := range d.slots {
		inputs[slot] = slices.Clone(inputs[slot])
		for i, v := range inputs[slot] {
			if v == nil {
				continue
			}
			twice := must(tensor.New(v.DType(), append([]int64{2 * v.Dims()[0]}, v.Dims()[1:]...)...))
			for k := range int64(2) {
				if err := must(twice.Rows(k*v.Dims()[0], (k+1)*v.Dims()[0])).CopyFrom(v); err != nil {
					return nil, nil, err
				}
			}
			var levels [][]int64
			for _, level := range v.LoD() {
				all := slices.Clone(level)
				for _, offset := range level[1:] {
					all = append(all, level[len(level)-1]+offset)
				}
				levels = append(levels, all)
			}
			if levels != nil {
				twice.SetLoD(levels)
			}
			inputs[slot][i] = twice
		}
	}
	c.Inputs = inputs
	t, err := run(c, tensor.Float64)
	return inputs, t, err
}

// cut returns rows, or sequences, [from, to) of a value.
func cut(v *tensor.Tensor, from, to int64) (*tensor.Tensor, error) {
	lod := v.LoD()
	if len(lod) == 0 {
		rows, err := v.Rows(from, to)
		if err != nil {
			return nil, err
		}
		return rows.Clone(), nil
	}
	var levels [][]int64
	for _, level := range lod {
		part := slices.Clone(level[from : to+1])
		for i := range part {
			part[i] -= level[from]
		}
		levels = append(levels, part)
		from, to = level[from], level[to]
	}
	rows, err := v.Rows(from, to)
	if err != nil {
		return nil, err
	}
	rows = rows.Clone()
	rows.SetLoD(levels)
	return rows, nil
}

// check runs two parts of the rows, forwards and backwards, and compares with the whole.
func (d division) check(t *trace) error {
	var parts []*Interpreter
	at := map[string]int64{} // how many rows of each output the parts so far have
	for _, part := range [][2]int64{{0, d.rows / 2}, {d.rows / 2, d.rows}} {
		m, refused, err := d.part(t, part[0], part[1])
		if err != nil {
			return err
		}
		if refused {
			return nil
		}
		if err := d.backwards(t, m, at); err != nil {
			return fmt.Errorf("gradients of rows %v: %w", part, err)
		}
		parts = append(parts, m)
	}
	def, _ := ops.Lookup(t.forward.Type)
	for _, slot := range def.Outputs {
		for _, name := range t.forward.Outputs[slot.Name] {
			if slot.Intermediate || name == program.Empty || slices.Contains(counts, def.Type+" "+slot.Name) {
				continue
			}
			if err := joined(name, parts, t.Vars[name]); err != nil {
				return err
			}
		}
	}
	for _, op := range t.backward {
		for _, slot := range d.slots {
			for _, name := range t.forward.Inputs[slot] {
				if gradient := program.GradName(name); slices.Contains(op.OutputNames(), gradient) && !t.Vars[gradient].IsSelected() {
					if err := joined(gradient, parts, t.Vars[gradient]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// part runs rows [from, to) forwards. An op refuses parts of other slots than those that belong together, and parts where values of one slot count rows of another.
func (d division) part(t *trace, from, to int64) (m *Interpreter, refused bool, err error) {
	vars := map[string]*tensor.Tensor{}
	for slot, names := range t.forward.Inputs {
		for _, name := range names {
			if name == program.Empty {
				continue
			}
			vars[name] = t.Vars[name].Clone()
			if d.holds(slot) {
				if vars[name], err = cut(t.Vars[name], from, to); err != nil {
					return nil, false, err
				}
			}
		}
	}
	m = NewInterpreter(vars, *t.Env.Step)
	if _, err := m.Infer(t.forward); err != nil {
		return nil, true, nil
	}
	return m, m.Run(context.Background(), t.forward) != nil, nil
}

// divides reports whether the op takes the parts of so many trainers.
func (d division) divides(t *trace, rows, trainers int64) bool {
	for i := range trainers {
		if _, refused, err := d.part(t, rows*i/trainers, rows*(i+1)/trainers); refused || err != nil {
			return false
		}
	}
	return true
}

// backwards runs the gradient of a part on its rows of the gradients of the outputs. at counts the rows of the parts before.
func (d division) backwards(t *trace, m *Interpreter, at map[string]int64) error {
	for _, name := range t.losses {
		whole, part := t.Vars[program.GradName(name)], m.Vars[name]
		if len(part.Dims()) == 0 || at[name]+part.Dims()[0] > whole.Dims()[0] {
			return fmt.Errorf("%s of the part is %v, that of the whole %v", name, part, t.Vars[name])
		}
		rows, err := whole.Rows(at[name], at[name]+part.Dims()[0])
		if err != nil {
			return err
		}
		m.Vars[program.GradName(name)] = rows.Clone()
		at[name] += part.Dims()[0]
	}
	return m.Run(context.Background(), t.backward...)
}

// joined compares a variable of the whole with those of the parts, one after the other. What is the same in all parts as in the whole has no rows.
func joined(name string, parts []*Interpreter, whole *tensor.Tensor) error {
	if whole == nil || whole.Len() == 0 || !slices.ContainsFunc(parts, func(m *Interpreter) bool { return m.Vars[name] == nil || sameBits(m.Vars[name], whole) != nil }) {
		return nil
	}
	at := int64(0)
	for i, m := range parts {
		part := m.Vars[name]
		if part == nil || len(part.Dims()) != len(whole.Dims()) || len(part.Dims()) == 0 || at+part.Dims()[0] > whole.Dims()[0] {
			return fmt.Errorf("%s of part %d is %v, that of the whole %v", name, i, part, whole)
		}
		rows, err := whole.Rows(at, at+part.Dims()[0])
		if err != nil {
			return err
		}
		if err := sameBits(part, rows); err != nil {
			return fmt.Errorf("%s of part %d: %w", name, i, err)
		}
		at += part.Dims()[0]
	}
	if at != whole.Dims()[0] {
		return fmt.Errorf("%s has %d rows in parts, and %d as a whole", name, at, whole.Dims()[0])
	}
	return nil
}
