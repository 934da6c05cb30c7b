package optimizer

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/kernel"
)

// insertKeys gives the keys of a gradient of a table that grows (layers.SparseEmbedding) their rows, and takes the gradient with row numbers in its place, which
// clips and updates read. Another gradient stays as it is.
func insertKeys(p Pair) Pair {
	m := p.Param.Model()
	if m == nil || !p.Param.OK() || !p.Grad.IsSparse() {
		return p
	}
	for _, lookup := range m.Building().Global().Ops {
		keys, ok := m.Variable(lookup.In("Keys"))
		if lookup.Type != "lookup_sparse_table" || lookup.In("W") != p.Param.Name() || !ok {
			continue
		}
		region := p.Param.Dims()[0] / kernel.KeyRegions
		attrs := layers.Attrs{"region_rows": region}
		for _, name := range []string{"table_name", "seed", "min", "max", "at_bound"} {
			if value, ok := lookup.Attrs[name]; ok {
				attrs[name] = value
			}
		}
		gradient := p.Grad
		p.Build(func() {
			table, of := one(p.Param), one(keys)
			layers.OpInto(m, "lookup_sparse_table_insert", layers.In{"Param": table, "Keys": of, "Grad": one(gradient)}, attrs, layers.In{"ParamOut": table, "KeysOut": of})
			p.Grad = layers.Op(m, "lookup_sparse_table_rows", layers.In{"X": one(gradient), "Keys": of}, layers.Attrs{"region_rows": region}).One("Out")
		})
		return p
	}
	return p
}
