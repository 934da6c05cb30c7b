package gradcheck

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Trace is a case that has run op by op, for kits that run its ops in other ways.
type Trace struct {
	Forward  *program.Op
	Backward []*program.Op             // that compute the gradient; nil if there is none
	Vars     map[string]*tensor.Tensor // all variables: those that are given, and what the ops made of them
	Step     ops.Step
}

// Traces runs a case in float64. The second trace, if there is one, has the rows of as many input slots as the op takes rows of twice.
func Traces(c Case) ([]Trace, error) {
	once, err := run(c, tensor.Float64)
	if err != nil {
		return nil, err
	}
	traces := []Trace{once.exported(c)}
	def, _ := ops.Lookup(c.Type)
	for _, choice := range choices(once, def) {
		d := division{slots: choice, rows: -1}
		if d.measure(once) && d.rows > 0 {
			if twice, err := d.double(c); err == nil {
				return append(traces, twice.exported(c)), nil
			}
		}
	}
	return traces, nil
}

func (t *trace) exported(c Case) Trace {
	return Trace{Forward: t.forward, Backward: t.backward, Vars: t.Vars, Step: c.Step}
}

// A Batch is a case of which some input slots hold the rows, or the sequences, of a batch that trainers may divide.
type Batch struct {
	Case
	Slots []string // none if the op mixes the rows of whatever it gets
	Rows  int64
	Loss  []string // the variables that the op writes for the rows, or all if there are no slots, without those that are intermediate
}

// mostTrainers is how many trainers a batch is for.
const mostTrainers = 3

// BatchOf finds the largest set of slots of a case that may hold rows of a batch, and makes the batch at least mostTrainers rows large.
func BatchOf(c Case) (Batch, error) {
	t, err := run(c, tensor.Float64)
	if err != nil {
		return Batch{}, err
	}
	def, _ := ops.Lookup(c.Type)
	known, err := t.Infer(t.forward)
	if err != nil {
		return Batch{}, err
	}
	for _, choice := range choices(t, def) {
		d := division{slots: choice, rows: -1}
		if !d.measure(t) || d.rows == 0 || def.State != nil || def.MixesRows != nil && def.MixesRows(known, d.holds) {
			continue
		}
		b, whole := Batch{Case: c, Slots: choice, Rows: d.rows}, t
		for b.Rows < mostTrainers && whole != nil {
			var inputs map[string][]*tensor.Tensor
			if inputs, whole, err = d.twice(b.Case); err == nil {
				b.Inputs, b.Rows = inputs, 2*b.Rows
			}
		}
		if b.Rows < 2 || whole == nil || !d.divides(whole, b.Rows, mostTrainers) {
			continue
		}
		all := shown(whole, def)
		b.Loss = slices.DeleteFunc(slices.Clone(all), func(name string) bool {
			dims := whole.Vars[name].Dims()
			return len(dims) == 0 || dims[0]%b.Rows != 0 && !slices.ContainsFunc(whole.rowsOf(choice), func(rows int64) bool { return rows == dims[0] })
		})
		if len(b.Loss) == 0 {
			b.Loss = all
		}
		return b, nil
	}
	return Batch{Case: c, Loss: shown(t, def)}, nil
}

// rowsOf returns how many rows the variables in some slots have.
func (t *trace) rowsOf(slots []string) (rows []int64) {
	for _, slot := range slots {
		for _, name := range t.forward.Inputs[slot] {
			if v := t.Vars[name]; v != nil && len(v.Dims()) > 0 {
				rows = append(rows, v.Dims()[0])
			}
		}
	}
	return rows
}

// shown returns the variables of the outputs that are not intermediate.
func shown(t *trace, def *ops.Def) (names []string) {
	for _, slot := range def.Outputs {
		for _, name := range t.forward.Outputs[slot.Name] {
			if !slot.Intermediate && name != program.Empty && t.Vars[name] != nil && !t.Vars[name].IsSelected() {
				names = append(names, name)
			}
		}
	}
	return names
}

// choices returns the sets of input slots that may hold rows of a batch, those of the most slots first.
func choices(t *trace, def *ops.Def) [][]string {
	var slots []string
	for _, slot := range def.Inputs {
		if len(t.forward.Inputs[slot.Name]) > 0 && len(slots) < mostSlots {
			slots = append(slots, slot.Name)
		}
	}
	var all [][]string
	for choice := 1; choice < 1<<len(slots); choice++ {
		var chosen []string
		for i, slot := range slots {
			if choice>>i&1 == 1 {
				chosen = append(chosen, slot)
			}
		}
		all = append(all, chosen)
	}
	slices.SortStableFunc(all, func(a, b []string) int { return len(b) - len(a) })
	return all
}

// SameBits compares two values of one variable: type, dims, and every element. Of a sparse gradient it compares the rows that are in use.
func SameBits(got, want *tensor.Tensor) error {
	if got.IsSelected() && want.IsSelected() {
		rows, used := tensor.UsedRows(got), int64(len(tensor.UsedRows(want)))
		if !slices.Equal(rows, tensor.UsedRows(want)) || !slices.Equal(ops.MetaOfValue(got).Dims, ops.MetaOfValue(want).Dims) {
			return fmt.Errorf("rows %v, want %v", rows, tensor.UsedRows(want))
		}
		return sameBits(must(got.Rows(0, used)), must(want.Rows(0, used)))
	}
	return sameBits(got, want)
}
