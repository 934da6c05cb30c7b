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

// KeyFields returns the variables that a program looks up in tables that grow, each once. Their elements are keys of rows. Of ids that only have got other dims, it is
// the variable that had them first: a field of several keys gets a last axis of extent 1 before it is looked up.
func KeyFields(p *program.Program) (names []string) {
	from := map[string]string{} // what an op gives other dims, by its result
	for _, op := range p.Global().Ops {
		switch op.Type {
		case "reshape", "reshape2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "flatten", "flatten2":
			first := op.In("X")
			if earlier, ok := from[first]; ok {
				first = earlier
			}
			from[op.Out("Out")] = first
		case "lookup_sparse_table":
			name := op.In("Ids")
			if first, ok := from[name]; ok {
				name = first
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
