package transpiler

import (
	"cmp"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A distributed table is a parameter that no trainer holds: all that trainers do with it is to look rows up, by lookup_table or fused_embedding_seq_pool with is_sparse
// and is_distributed. In each step a trainer asks servers for the rows that its batch names, each once. The gradient travels by rows (rows.go).
//
//	trainer                                              pserver, for the slice S of the table W
//	split_ids: ids -> rows of each slice, places
//	prefetch ---------------- numbers of rows ------->   waits until the round before is applied
//	         <--------------- rows of S --------------
//	merge_ids: rows, places -> Out
//	...
//	lookup_table_rows_grad: ids, Out@GRAD -> W@GRAD
//	split_selected_rows, send ----------------------->   merge, update of S
type table struct {
	param   string
	group   *group
	lookups []*node // of the forward pass, in order
	grown   *node   // of a table that grows, the op that gives keys their rows; else nil
}

// lookupOps look rows up by their numbers.
var lookupOps = []string{"lookup_table", "lookup_table_v2", "fused_embedding_seq_pool"}

// findTables finds the distributed tables.
func findTables(s *state) error {
	s.tables, s.lookups = map[string]*table{}, map[*node]*table{}
	for _, g := range s.groups {
		for _, param := range g.params {
			t := tableOf(s, g, param)
			if insert := insertOf(g, param); insert != nil {
				var err error
				if t, err = grownTableOf(s, g, param, insert); err != nil {
					return err
				}
			}
			if t != nil {
				s.tables[param] = t
			}
		}
	}
	if len(s.tables) == 0 || s.cfg.CompressParameters == "" || s.cfg.CompressParameters == compress.None.String() {
		return nil
	}
	for _, n := range s.nodes {
		if t := s.lookups[n]; t != nil {
			return unsupported(n, t.param, "a distributed table in a job that compresses parameters", "rows in float32",
				"leave out --compress-parameters, or look the table up without layers.Distributed")
		}
	}
	return nil
}

// tableOf returns the table that a parameter is, nil if trainers must hold it.
func tableOf(s *state, g *group, param string) *table {
	t := &table{param: param, group: g}
	v, gradients := s.variable(param), []*node{}
	if insertOf(g, param) != nil || !s.travelsByRows(g.gradientOf(param)) || v.DType != tensor.Float32 && v.DType != tensor.BFloat16 || len(v.Dims) != 2 {
		return nil
	}
	for _, n := range s.use(param).readers {
		sparse, _ := n.op.Bool("is_sparse")
		distributed, _ := n.op.Bool("is_distributed")
		switch {
		case n.duty == dutyUpdate:
		case n.op.In("W") != param || !sparse || !distributed:
			return nil
		case slices.Contains(lookupOps, n.op.Type):
			t.lookups = append(t.lookups, n)
		case slices.Contains(lookupOps, strings.TrimSuffix(n.op.Type, "_grad")):
			gradients = append(gradients, n)
		default:
			return nil
		}
	}
	for _, n := range append(gradients, t.lookups...) {
		s.lookups[n] = t
	}
	return t
}

// A lookupWriter writes the lookups of distributed tables into a trainer's program.
type lookupWriter struct {
	*state
	block  *program.Block
	places map[*node]string // of a lookup whose rows are there: its places among them
	rows   map[*node]string // and the small table with them
}

// write appends what a trainer does in place of an op on a distributed table.
func (w *lookupWriter) write(n *node) error {
	t, ids := w.lookups[n], n.op.In("Ids")
	dims := w.variable(t.param).Dims
	padding, ok := n.op.Int("padding_idx")
	if !ok {
		padding = -1
	}
	op := newOp("lookup_table_rows_grad", n.op.Role(), n.op.Line(), slots{"Ids": {ids}, "Out@GRAD": n.op.Inputs["Out@GRAD"]}, slots{"W@GRAD": n.op.Outputs["W@GRAD"]})
	op.SetAttr("shape", slices.Clone(dims))
	if slices.Contains(t.lookups, n) {
		if w.places[n] == "" {
			if err := w.prefetch(n); err != nil {
				return err
			}
		}
		out := n.op.Out("Out")
		op = newOp("merge_ids", n.op.Role(), n.op.Line(), slots{"X": {w.rows[n]}, "Places": {w.places[n]}, "Ids": {ids}}, slots{"Out": {out}})
		op.SetAttr("shape", slices.Clone(w.variable(out).Dims))
	}
	if t.grown != nil {
		op.SetAttr("auto_grown_table", true)
	}
	if combiner, ok := n.op.Str("combiner"); ok {
		op.SetAttr("combiner", combiner)
	} else if strings.HasPrefix(n.op.Type, "fused_embedding_seq_pool") {
		op.SetAttr("combiner", "sum") // Fluid's default
	}
	op.SetAttr("padding_idx", padding)
	w.block.Append(op)
	return nil
}

// prefetch appends ops that bring the rows for a lookup, and for all others whose ids are there already.
func (w *lookupWriter) prefetch(at *node) error {
	ready := map[*table][]*node{}
	var tables []*table
	for _, n := range w.nodes {
		t := w.lookups[n]
		if t == nil || w.places[n] != "" || !slices.Contains(t.lookups, n) || slices.ContainsFunc(w.use(n.op.In("Ids")).writers, func(p *node) bool { return p.at >= at.at }) {
			continue
		}
		if ready[t] == nil {
			tables = append(tables, t)
		}
		ready[t] = append(ready[t], n)
	}
	var asked []part
	var outs, widths []int32
	var small []string
	for i, t := range tables {
		parts, err := w.split(t, ready[t], at.op.Line())
		if err != nil {
			return err
		}
		v := w.variable(t.param)
		rows := w.declare(t.param+".prefetch", tensor.Float32, program.Unknown, v.Dims[1])
		for _, n := range ready[t] {
			w.rows[n] = rows
		}
		asked = append(asked, parts...)
		outs = append(outs, slices.Repeat([]int32{int32(i)}, len(parts))...)
		small, widths = append(small, rows), append(widths, int32(v.Dims[1]))
	}
	op := newOp("prefetch", program.RoleForward|program.RoleRPC, at.op.Line(), slots{"X": locals(asked)}, slots{"Out": small})
	setDestinations(op, "table_names", asked)
	op.SetAttr("outs", outs)
	op.SetAttr("widths", widths)
	w.block.Append(op)
	return nil
}

// split appends the op that finds the rows which lookups in a table need of each slice.
func (w *lookupWriter) split(t *table, lookups []*node, line string) ([]part, error) {
	total := w.variable(t.param).Dims[0]
	if total > compress.MaxRows {
		return nil, fault.E(fault.TooLarge, fault.Var(t.param), fault.Gotf("%d rows", total), fault.Wantf("at most %d", compress.MaxRows))
	}
	var parts []part
	var sections []int32
	numbers := tensor.Int32
	if t.grown != nil {
		numbers = tensor.Int64
	}
	shards := w.shardsOf(t.group)
	slices.SortFunc(shards, func(a, b *shard) int { return cmp.Compare(a.first, b.first) })
	for _, u := range shards {
		at := w.at(u, t.param)
		parts = append(parts, part{w.declare(at.Name+".ids", numbers, program.Unknown), at.Name, u.server})
		sections = append(sections, int32(rowsOf(at.Dims)))
	}
	op := newOp("split_ids", program.RoleForward, line, slots{"Ids": nil}, slots{"Out": locals(parts), "Places": nil})
	for _, n := range lookups {
		ids := w.variable(n.op.In("Ids"))
		w.places[n] = w.declare(ids.Name+".places", tensor.Int64, ids.Dims...)
		op.Inputs["Ids"] = append(op.Inputs["Ids"], ids.Name)
		op.Outputs["Places"] = append(op.Outputs["Places"], w.places[n])
	}
	op.SetAttr("sections", sections)
	if isStriped(w.state, t.group) {
		op.SetAttr("striped", true)
	}
	if t.grown != nil {
		op.SetAttr("auto_grown_table", true)
	}
	w.block.Append(op)
	return parts, nil
}

// declare declares a variable of the trainer's program and returns its name.
func (w *lookupWriter) declare(name string, dtype tensor.DType, dims ...int64) string {
	name = w.names.free(name)
	w.block.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: slices.Clone(dims), StopGradient: true})
	return name
}

// forgetTables takes the names of distributed tables from the role variables of ops: they are not declared there.
func forgetTables(s *state, b *program.Block) {
	for _, op := range b.Ops {
		pairs := slices.DeleteFunc(op.RoleVars(), func(pair [2]string) bool { return s.tables[pair[0]] != nil })
		if len(pairs) == len(op.RoleVars()) {
			continue
		}
		delete(op.Attrs, program.AttrRoleVar)
		var names []string
		for _, pair := range pairs {
			names = append(names, pair[:]...)
		}
		if names != nil {
			op.SetAttr(program.AttrRoleVar, names)
		}
	}
}
