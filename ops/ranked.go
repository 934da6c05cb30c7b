package ops

import (
	"maps"
	"slices"
	"sort"

	"github.com/edl-go/edl/program"
)

// A step of a network over sequences has its rows in the order of a rank table: row r, or sequence r of a variable with a LoD, belongs to the sequence of rank r. A trainer ranks
// the sequences of its own part of a batch, so row r of a step is another record's row on one machine. What follows from the place of a record in the whole batch, such as a random
// number, asks the rank table for the record (RankTable.Place).

// Ranked returns the rank tables that order the rows of variables in a block, by the name of the variable: those of what the block takes from arrays of steps (lod_tensor_to_array) and
// from what has the order of the ranks, and of what it computes from such variables. Parameters have no rows of a batch. A variable of which two tables are known has the first one.
func Ranked(block *program.Block) map[string]string {
	tables := map[string]string{}
	var within func(b *program.Block)
	within = func(b *program.Block) {
		if parent := b.ParentBlock(); parent != nil {
			within(parent)
		}
		for _, op := range b.Ops {
			if len(op.SubBlocks()) > 0 || op.Role().Has(program.RoleOptimize) || op.Type == "array_to_lod_tensor" || op.Type == "lod_rank_table" || op.Type == "max_sequence_len" {
				continue
			}
			table := op.In("RankTable")
			for _, slot := range slices.Sorted(maps.Keys(op.Inputs)) {
				for _, name := range op.Inputs[slot] {
					if table == "" {
						table = tables[name]
					}
				}
			}
			if table == "" {
				continue
			}
			for _, name := range op.OutputNames() {
				if v, ok := b.Find(name); tables[name] == "" && !(ok && v.Persistable) {
					tables[name] = table
				}
			}
		}
	}
	within(block)
	return tables
}

// Rank returns the rank table that orders the rows of a variable, or its outermost sequences, nil if none is known. An op asks when it is bound; the table has its sequences when the
// kernel runs.
func (b *Binding) Rank(variable string) *RankTable {
	if b.Env == nil || b.Env.Rank == nil {
		return nil
	}
	return b.Env.Rank(variable)
}

// Place returns the record of the sequence at a rank, counted from the first of the trainer, and which of the sequences of that record it is.
func (r *RankTable) Place(rank int) (record, within int) {
	at := r.Order[rank]
	record = at
	for _, level := range slices.Backward(r.Outer) {
		record = sort.Search(len(level)-1, func(i int) bool { return level[i+1] > int64(record) })
	}
	first := int64(record)
	for _, level := range r.Outer {
		first = level[first]
	}
	within = at - int(first)
	if r.Around != nil && record < len(r.Around.Order) {
		outer, place := r.Around.Place(record)
		return outer, place<<16 + within
	}
	return record, within
}
