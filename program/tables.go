package program

import "slices"

// readTables makes tensors of the tables that pservers alone hold. Fluid declares the W of lookup_table with is_distributed as SELECTED_ROWS, rows with their numbers.
// A table with known dims has a row for each id, so it is the same as a tensor of these rows. One without is left as it is: nothing says which rows it has.
func readTables(p *Program) {
	tables := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if name := op.In("W"); op.Type == "lookup_table" || op.Type == "lookup_table_v2" {
				if v, ok := b.Find(name); ok && isTable(v) {
					tables[name] = true
				}
			}
		}
	}
	for _, whole := range []*Program{p, p.Startup} {
		if whole == nil {
			continue
		}
		for name := range tables {
			if v, ok := whole.Global().Var(name); ok && isTable(v) {
				v.Kind = LoDTensor
			}
		}
	}
}

// isTable reports whether a variable is declared as the rows of a whole table.
func isTable(v *Var) bool {
	return v.Kind == SelectedRows && v.Persistable && len(v.Dims) == 2 && !slices.ContainsFunc(v.Dims, func(n int64) bool { return n < 1 })
}
