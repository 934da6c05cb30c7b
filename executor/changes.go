package executor

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// ChangedByRows returns variables of the global block of which the blocks change no more than the rows of one sparse gradient, and for each the variable in which
// these rows arrive: the input of get_selected_rows.
func (b *blocks) ChangedByRows() map[string]string {
	writers, by := b.writers(), map[string]string{}
	for _, block := range b.program.Blocks {
		for _, op := range block.Ops {
			def, known := ops.Lookup(op.Type)
			if !known || def.TouchesRows == nil || !def.TouchesRows(op) {
				continue
			}
			from := rowsFrom(block, op.In("Grad"), writers)
			if from == nil || from.Type != "get_selected_rows" { // what arrives are keys, whose rows are found
				continue
			}
			for slot := range op.Outputs {
				name := op.Out(slot)
				if v, ok := block.Find(name); ok && writers[v] == 1 && changesRows(block, op, def, name) {
					by[name] = from.In("X")
				}
			}
		}
	}
	return by
}

// WatchRows says who keeps rows before ops change them: of what ToldRows lists. It must be called before the first block runs.
func (b *blocks) WatchRows(watch func(variable string) (changing func(row int))) { b.watch = watch }

// Changing implements ops.RowWatcher.
func (b *blocks) Changing(variable string) func(row int) {
	if b.watch == nil {
		return nil
	}
	return b.watch(variable)
}

// ToldRows returns variables of the global block of which the blocks change no row before whoever watches rows has been told, and for each the names by which its
// rows are told: its own, where an op tells what it changes, and those of sparse gradients with which updates change it.
func (b *blocks) ToldRows() map[string][]string {
	told, writers := map[string][]string{}, b.writers() // nil: something changes it without a word
	for _, block := range b.program.Blocks {
		for _, op := range block.Ops {
			def, known := ops.Lookup(op.Type)
			if known && def.Class == ops.Serve {
				continue
			}
			_, writes := block.Touches(op)
			for name := range writes {
				by := ""
				if known {
					by = toldBy(block, op, def, name, writers)
				}
				switch before, again := told[name]; {
				case by == "" || again && before == nil:
					told[name] = nil
				case !slices.Contains(before, by):
					told[name] = append(before, by)
				}
			}
		}
	}
	maps.DeleteFunc(told, func(_ string, by []string) bool { return by == nil })
	return told
}

// toldBy returns the name by which the rows of a variable are told that an op changes, "" if they are not.
func toldBy(block *program.Block, op *program.Op, def *ops.Def, name string, writers map[*program.Var]int) string {
	if slices.ContainsFunc(def.TellsRows, func(slot string) bool { return slices.Contains(op.Inputs[slot], name) }) {
		return name
	}
	if !changesRows(block, op, def, name) {
		return ""
	}
	if find := rowsFrom(block, op.In("Grad"), writers); find != nil && find.Type == "lookup_sparse_table_rows" {
		return find.Out("Out")
	}
	return ""
}

// changesRows reports whether an op updates, of a variable with as many rows as its parameter, in place those rows alone that its sparse gradient has.
func changesRows(block *program.Block, op *program.Op, def *ops.Def, name string) bool {
	if def.TouchesRows == nil || !def.TouchesRows(op) {
		return false
	}
	param, _ := block.Find(op.In("Param"))
	v, ok := block.Find(name)
	if !ok || param == nil || len(v.Dims) == 0 || len(param.Dims) == 0 || v.Dims[0] != param.Dims[0] {
		return false
	}
	for slot := range op.Outputs {
		if op.Out(slot) == name && op.In(def.InPlace[slot]) == name {
			return true
		}
	}
	return false
}

// writers counts the ops of all blocks that write a variable.
func (b *blocks) writers() map[*program.Var]int {
	writers := map[*program.Var]int{}
	for _, block := range b.program.Blocks {
		for _, op := range block.Ops {
			if def, known := ops.Lookup(op.Type); known && def.Class == ops.Serve { // writes what the blocks do that it runs
				continue
			}
			_, writes := block.Touches(op)
			for name := range writes {
				if v, ok := block.Find(name); ok {
					writers[v]++
				}
			}
		}
	}
	return writers
}

// rowsFrom returns the op that gives a sparse gradient of a block its rows: one that takes them from what has arrived, or that finds those of its keys. It returns
// nil where they may come from several, or from elsewhere. Ops between keep the rows of the only sparse gradient that they read.
func rowsFrom(block *program.Block, name string, writers map[*program.Var]int) *program.Op {
	for range block.Ops {
		v, ok := block.Find(name)
		at := slices.IndexFunc(block.Ops, func(op *program.Op) bool { _, writes := block.Touches(op); return writes[name] })
		if !ok || v.Kind != program.SelectedRows || at < 0 || writers[v] != 1 {
			return nil
		}
		op := block.Ops[at]
		if op.Type == "get_selected_rows" || op.Type == "lookup_sparse_table_rows" {
			return op
		}
		reads, _ := block.Touches(op)
		name = ""
		for read := range reads {
			if v, ok := block.Find(read); ok && v.Kind == program.SelectedRows {
				if name != "" {
					return nil
				}
				name = read
			}
		}
	}
	return nil
}
