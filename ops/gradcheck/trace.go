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
