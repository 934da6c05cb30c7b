package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// An op of detection may find rows in each picture of a batch: regions, or boxes that a network learns from. A trainer finds those of its pictures, in their order, as it has those of its rows
// that a mask chooses. So what is known of chosen rows holds for found ones, and the output that found them stands in place of the mask.

// A Finding describes the outputs of an op that finds rows in each record. An output that it does not list has one row for each record. The rows of a record depend on no other record.
type Finding struct {
	Rows  map[string]string // output slots with rows that were found: the slot that stands for all outputs of as many rows
	Index map[string]string // output slots with numbers of rows, one for each row that was found: the slot that stands for these
	Of    string            // the input slot whose rows each record has: the numbers count them, from record to record
}

// found follows an op with a Finding. It reports false if the op needs rows of other records.
func (c *choices) found(d *division, op *program.Op, finds *Finding) bool {
	for slot, names := range op.Inputs {
		for _, name := range names {
			if d.of[name] != common && (slot == finds.Of || !c.ofRecords(d, name)) {
				return false
			}
		}
	}
	each := int64(0)
	if m, ok := d.typeOf(op.In(finds.Of)); ok && len(m.Dims) > 0 {
		each = m.Dims[0]
	}
	at := d.at
	for slot, names := range op.Outputs {
		for _, name := range names {
			switch {
			case finds.Index[slot] != "":
				d.write(op, []string{name}, mixed, false)
				if each > 0 {
					d.at, c.index[name] = at, maskIndex{op.Out(finds.Index[slot]), each, true}
				}
			default:
				d.write(op, []string{name}, apart, false)
				if of := finds.Rows[slot]; of != "" {
					c.rows[name] = op.Out(of)
				}
			}
		}
	}
	return true
}

// ofRecords reports whether a variable has the rows of all records, or rows that were found in them, in their order.
func (c *choices) ofRecords(d *division, name string) bool {
	return c.whole(d, name) || d.of[name] == apart && c.rows[name] != ""
}

// pooled returns what has found the rows of an op that computes each row from its record (Def.RowsOf), "" for any other op.
func (c *choices) pooled(d *division, block *program.Block, op *program.Op, def *Def) string {
	rows := ""
	for slot, names := range op.Inputs {
		for _, name := range names {
			switch {
			case slot == def.RowsOf:
				rows = c.rows[name]
			case d.of[name] != common && !c.whole(d, name):
				return ""
			}
		}
	}
	if def.RowsOf == "" || rows == "" || d.computed(block, op, def) != apart {
		return ""
	}
	return rows
}

// dimsOf returns the variable with chosen rows whose dims an op gives, "" for any other op.
func (c *choices) dimsOf(op *program.Op) string {
	switch op.Type {
	case "shape":
		if x := op.In("Input"); c.rows[x] != "" {
			return x
		}
	case "cast", "assign":
		return c.dims[op.In("X")]
	}
	return ""
}

// numberOf returns the variable whose elements an op counts, as the product of its dims, "" for any other op.
func (c *choices) numberOf(op *program.Op) string {
	if op.Type != "reduce_prod" {
		return ""
	}
	axes, _ := op.Ints("dim")
	if all, _ := op.Bool("reduce_all"); !all && !slices.Equal(axes, []int64{0}) {
		return ""
	}
	return c.dims[op.In("X")]
}
