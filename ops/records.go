package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// A model may flatten records to rows, [batch, boxes, width] to [batch*boxes, width], and later put the rows of each record together again. Open extents do not tell that rows of
// different records stay apart then. So inference runs for batches of one record and of two: if an op makes whole rows of what one record has, and twice as many of two, it keeps
// records apart, because it keeps the order of elements.

// records knows the types of a forward pass for batches of one record and of two.
type records struct {
	block   *program.Block
	forward []*program.Op
	fed     func(name string) bool
	types   [2]map[string]Meta // nil until they are asked for
}

// keptApart reports whether an op that keeps the order of the elements of X keeps those of each record apart.
func (r *records) keptApart(op *program.Op) bool {
	switch op.Type {
	case "reshape", "reshape2", "flatten", "flatten2":
	default:
		return false
	}
	for _, name := range []string{op.In("X"), op.Out("Out")} {
		one, two := r.rows(name, 1), r.rows(name, 2)
		if one < 1 || two != 2*one {
			return false
		}
	}
	return true
}

// rows returns how many rows a variable has in a batch of n records, 1 or 2, and 0 if that is not known.
func (r *records) rows(name string, n int) int64 {
	if r.types[n-1] == nil {
		r.types[n-1] = r.infer(int64(n))
	}
	m, ok := r.types[n-1][name]
	if !ok || len(m.Dims) == 0 || m.LoDLevel > 0 || slices.Contains(m.Dims, program.Unknown) {
		return 0
	}
	return m.Dims[0]
}

func (r *records) infer(n int64) map[string]Meta {
	types := map[string]Meta{}
	brought := func(name string) (Meta, bool) {
		v, ok := r.block.Find(name)
		if !ok {
			return Meta{}, false
		}
		m := MetaOf(v)
		if r.fed(name) && m.LoDLevel == 0 && len(m.Dims) > 0 && m.Dims[0] == program.Unknown {
			m.Dims = slices.Clone(m.Dims)
			m.Dims[0] = n
		}
		return m, true
	}
	for _, op := range r.forward {
		def, ok := Lookup(op.Type)
		if !ok {
			continue
		}
		if def.Class == Read || def.Class == Feed {
			for _, name := range op.OutputNames() {
				if m, ok := brought(name); ok {
					types[name] = m
				}
			}
			continue
		}
		shapes, err := Infer(op, func(name string) (Meta, bool) {
			if m, ok := types[name]; ok {
				return m, true
			}
			return brought(name)
		})
		if err != nil {
			continue // what it writes stays unknown
		}
		for slot, names := range op.Outputs {
			for i, name := range names {
				if m := shapes.Outs(slot)[i]; name != program.Empty && m.Kind != 0 {
					types[name] = m
				}
			}
		}
	}
	return types
}
