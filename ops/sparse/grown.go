package sparse

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// Grown returns the variables of a program that have something for each row of a table that grows: the table, its keys, their index and counts, and the state of
// its optimizer. Their files have the rows in use (tensor.WriteShort).
func Grown(p *program.Program) map[string]bool {
	grown := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			var slots []string
			switch op.Type {
			case "lookup_sparse_table":
				slots = []string{"W", "Keys", "Index"}
			case "lookup_sparse_table_insert":
				slots = []string{"Param", "Keys", "Index", "Counts", "Moments"}
			}
			for _, slot := range slots {
				for _, name := range op.Inputs[slot] {
					grown[name] = true
				}
			}
		}
	}
	return grown
}

// KeyFields returns the variables that a program looks up in tables that grow, each once. Their elements are keys of rows.
func KeyFields(p *program.Program) (names []string) {
	for _, op := range p.Global().Ops {
		if name := op.In("Ids"); op.Type == "lookup_sparse_table" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
