package transpiler

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A table that grows (lookup_sparse_table) is always a distributed table. In place of row numbers, trainers send keys: with the requests for rows, and with
// gradients. Its slices are whole regions of keys, so a key leads to its server. The op that gives new keys their rows is part of the update. So only what all
// trainers have sent in a round makes rows, in the order of keys.

// insertOp is the op that gives keys their rows; rowsOp finds the rows of a gradient; shrinkOp takes rows away.
const (
	insertOp = "lookup_sparse_table_insert"
	rowsOp   = "lookup_sparse_table_rows"
	shrinkOp = "lookup_sparse_table_shrink"
)

// insertOf returns the op of a group that gives the keys of a table their rows, nil if the parameter is no table that grows.
func insertOf(g *group, param string) *node {
	if at := slices.IndexFunc(g.ops, func(n *node) bool { return n.op.Type == insertOp && n.op.In("Param") == param }); at >= 0 {
		return g.ops[at]
	}
	return nil
}

// besideRows reports whether a variable has something for each row of the table that grows which a parameter is: its keys, their index, or counts of candidates.
func besideRows(g *group, param, variable string) bool {
	n := insertOf(g, param)
	return n != nil && (variable == n.op.In("Keys") || variable == n.op.In("Index") || variable == n.op.In("Counts"))
}

// hasKeys reports whether a contribution is the gradient of a table that grows.
func hasKeys(s *state, contribution string) bool {
	return slices.ContainsFunc(s.use(contribution).readers, func(n *node) bool { return n.op.Type == insertOp && n.op.In("Grad") == contribution })
}

// grownTableOf returns the table that grows that a parameter is. n is the op that gives keys their rows.
func grownTableOf(s *state, g *group, param string, insert *node) (*table, error) {
	t := &table{param: param, group: g, grown: insert}
	v := s.variable(param)
	keys, index := s.variable(insert.op.In("Keys")), s.variable(insert.op.In("Index"))
	region, _ := insert.op.Int("region_rows")
	if len(v.Dims) != 2 || v.Dims[0] > compress.MaxRows || region*kernel.KeyRegions != v.Dims[0] || !slices.Equal(keys.Dims, v.Dims[:1]) || keys.DType != tensor.Int64 || !slices.Equal(index.Dims, keys.Dims) {
		return nil, unsupported(insert, param, fmt.Sprintf("a table that grows with dims %v", v.Dims), "whole regions of keys, and a key and an entry of the index for each row", "")
	}
	for _, n := range slices.Concat(s.use(param).readers, s.use(keys.Name).readers, s.use(index.Name).readers) {
		switch {
		case n.duty == dutyUpdate:
		case n.op.Type != "lookup_sparse_table" || n.op.In("W") != param || n.op.In("Keys") != keys.Name || n.op.In("Index") != index.Name:
			return nil, unsupported(n, param, "an op on a table that grows", "only lookup_sparse_table", "")
		case !slices.Contains(t.lookups, n):
			t.lookups = append(t.lookups, n)
			s.lookups[n] = t
		}
	}
	return t, nil
}

// isKeys reports whether a variable has the keys of a table that grows, or their index or counts.
func isKeys(s *state, name string) bool {
	return slices.ContainsFunc(s.use(name).writers, func(n *node) bool { return n.op.Type == insertOp })
}

// setRegions tells an op on a table that grows with which region its slice begins.
func setRegions(op *program.Op, u *shard) {
	if region, ok := op.Int("region_rows"); ok && (op.Type == insertOp || op.Type == rowsOp || op.Type == shrinkOp) && u.block != Whole && region > 0 {
		op.SetAttr("first_region", u.first/region)
	}
}

// setRounding tells the update of a slice of a table that is stored as bfloat16 where the slice begins, so that it rounds by the chance of these rows.
func setRounding(op *program.Op, u *shard, rows int64) {
	if _, stored := op.Int("rounding_seed"); !stored || u.block == Whole {
		return
	}
	op.SetAttr("first_row", u.first)
	if u.striped {
		op.SetAttr("striped_rows", rows)
	}
}

// setTables describes the tables of a server that grow, so that it finds the rows that trainers ask for.
func setTables(w *serverWriter, op *program.Op) {
	var names, keys, indexes, counts []string
	counted := false
	var seeds []int64
	var ranges []float32
	for _, u := range w.shards {
		for _, param := range u.group.params {
			n := insertOf(u.group, param)
			if n == nil {
				continue
			}
			seed, _ := n.op.Int("seed")
			low, _ := n.op.Float("min")
			high, _ := n.op.Float("max")
			names, keys, indexes = append(names, u.name(param)), append(keys, u.name(n.op.In("Keys"))), append(indexes, u.name(n.op.In("Index")))
			counts = append(counts, "")
			if of := n.op.In("Counts"); of != "" {
				counts[len(counts)-1], counted = u.name(of), true
			}
			seeds, ranges = append(seeds, seed), append(ranges, float32(low), float32(high))
		}
	}
	if names != nil {
		op.SetAttr("table_names", names)
		op.SetAttr("table_keys", keys)
		op.SetAttr("table_indexes", indexes)
		if counted {
			op.SetAttr("table_counts", counts)
		}
		op.SetAttr("table_seeds", seeds)
		op.SetAttr("table_ranges", ranges)
	}
}
