package transpiler

import (
	"slices"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Of a sparse gradient only the rows travel that the batch has: a trainer sums the places of each row and sends the sums; servers merge them by row. Where
// the update changes only these rows of the parameter, in sync mode only these rows come back. Trainers hold the whole table, and put them in their place.
//
//	trainer                                    pserver, for the slice S of the table W
//	split_selected_rows: W@GRAD -> G0, G1, ..
//	for each slice -------------- send ------> contribution to G
//	                                           merge, in rank order
//	                                           get_selected_rows: G -> S@GRAD, which the update reads
//	                                           update of S
//	                                           gather_rows: S, G -> S.rows
//	S.rows <--------------------- recv ------- S.rows
//	scatter_rows: all S.rows -> W

// travelsByRows reports whether a contribution is a sparse gradient.
func (s *state) travelsByRows(contribution string) bool {
	return s.variable(contribution).Kind == program.SelectedRows
}

// checkRows checks that a sparse gradient in an update has a form in which it can travel. hint is empty if it has.
func checkRows(v *program.Var) (hint string) {
	switch {
	case v.DType != tensor.Float32:
		return "on clusters only tables of float32 have sparse gradients: drop layers.Sparse"
	case len(v.Dims) != 2 || slices.Contains(v.Dims, program.Unknown) || v.Dims[0] > compress.MaxRows:
		return "on clusters only tables of known dims [rows, width], with fewer than 2^31 - 1 rows, have sparse gradients: drop layers.Sparse"
	}
	return ""
}

// rowsForm declares a variable in which rows of v travel.
func rowsForm(s *state, v program.Var) program.Var {
	form := v.Copy(s.names.free(v.Name + ".rows"))
	form.Kind, form.DType, form.Dims = program.LoDTensor, tensor.Int32, compress.RowsDims(v.Dims[0], v.Dims[1])
	form.Persistable, form.IsParameter, form.StopGradient = false, false, true
	return form
}

// declareRows declares what travels of the sparse gradients of a shard, and of the parameters of which a round changes only those rows.
func declareRows(s *state, u *shard) error {
	for _, gradient := range u.group.contributions {
		if !s.travelsByRows(gradient) {
			continue
		}
		if err := checkMerges(s, u.group.paramOf[gradient], gradient); err != nil {
			return err
		}
		at := s.at(u, gradient)
		form := rowsForm(s, at)
		if hasKeys(s, gradient) {
			form.DType = tensor.Int64
		}
		s.sent[at.Name] = form
		param := u.group.paramOf[gradient]
		name := u.name(param)
		if _, rounded := s.served[name]; !rounded && comesBackByRows(s, u.group, param, gradient) {
			s.changed[name] = rowsForm(s, s.at(u, param))
		}
	}
	return nil
}

// checkMerges refuses a sparse gradient where trainers would have to merge the rows of several trainers, and one of a distributed table in rounds that may have
// gone on without a trainer: nobody keeps the rows of the round that it asks for.
func checkMerges(s *state, param, gradient string) error {
	if s.cfg.MergeHosts {
		return unsupported(lastProducer(s, gradient), gradient, "a sparse gradient in a job whose trainers of one host merge", "dense gradients, or contributions of single trainers",
			"leave out --merge-hosts, or look the table up without layers.Sparse")
	}
	if s.cfg.Backups && s.tables[param] != nil {
		return unsupported(lastProducer(s, gradient), gradient, "a distributed table in a job with backup trainers", "a table that trainers hold, or rounds that wait for all trainers",
			"leave out --backup-trainers, or layers.Distributed")
	}
	return nil
}

// changesOnlyRows reports whether the update changes only those rows of a parameter that its sparse gradient has. Clips in between are fine: what they make
// of a sparse gradient has its rows.
func changesOnlyRows(s *state, g *group, param, gradient string) bool {
	for _, w := range s.use(param).writers {
		if w.duty != dutyUpdate || w.def.TouchesRows == nil || !w.def.TouchesRows(w.op) || w.op.In("Param") != param ||
			!hasRowsOf(s, w.op.In("Grad"), gradient) {
			return false
		}
	}
	return true
}

// hasRowsOf reports whether a sparse variable is the gradient, or what ops of the update make of it alone.
func hasRowsOf(s *state, name, gradient string) bool {
	if name == gradient || !s.travelsByRows(name) {
		return name == gradient
	}
	writers := s.use(name).writers
	return len(writers) == 1 && !slices.ContainsFunc(writers[0].reads, func(read string) bool {
		return s.travelsByRows(read) && !hasRowsOf(s, read, gradient)
	})
}

// isRows reports whether an op computes nothing but sparse gradients.
func isRows(s *state, n *node) bool {
	return !slices.ContainsFunc(n.writes, func(name string) bool { return !s.travelsByRows(name) })
}

// unpackRows appends ops to a block of a server that make sparse gradients of what has arrived, for those that the nodes read.
func (w *serverWriter) unpackRows(b *program.Block, u *shard, nodes []*node) {
	read := usages(nodes)
	for _, gradient := range u.group.contributions {
		if !w.travelsByRows(gradient) || read[gradient] == nil {
			continue
		}
		v := w.at(u, gradient)
		b.EnsureVar(v)
		b.Append(newOp("get_selected_rows", program.RoleOptimize, u.group.ops[0].op.Line(), slots{"X": {w.sent[v.Name].Name}}, slots{"Out": {v.Name}}))
	}
}

// packRows appends ops to the optimize block of a shard that take the changed rows from its parameters.
func (w *serverWriter) packRows(b *program.Block, u *shard) {
	for _, param := range u.group.params {
		form, ok := w.changed[u.name(param)]
		if !ok {
			continue
		}
		rows := w.sent[u.name(u.group.gradientOf(param))].Name
		b.Append(newOp("gather_rows", program.RoleOptimize, u.group.ops[0].op.Line(), slots{"X": {u.name(param)}, "Rows": {rows}}, slots{"Out": {form.Name}}))
	}
}

// splitRowsOp cuts a sparse gradient into runs of so many rows of its table.
func splitRowsOp(line, from string, into []string, rows []int64) *program.Op {
	op := splitOp(program.RoleDist, line, from, into, rows)
	op.Type = "split_selected_rows"
	return op
}

// scatterRowsOp puts rows into a table.
func scatterRowsOp(line string, from []string, into string) *program.Op {
	return newOp("scatter_rows", program.RoleDist, line, slots{"X": {into}, "Rows": from}, slots{"Out": {into}})
}

// rowsNames lists what travels by rows to and from a server, by its names there.
func (w *serverWriter) rowsNames() (names []string) {
	for _, u := range w.shards {
		for _, gradient := range u.group.contributions {
			if w.travelsByRows(gradient) {
				names = append(names, w.sent[u.name(gradient)].Name)
			}
		}
		for _, param := range u.group.params {
			if form, ok := w.changed[u.name(param)]; ok {
				names = append(names, form.Name)
			}
		}
	}
	return names
}

// changedParts returns the parts of a parameter as trainers receive them when only rows of it have changed, nil if they receive it whole.
func changedParts(s *state, parts []serverVar) []serverVar {
	parts = slices.Clone(parts)
	for i := range parts {
		form, ok := s.changed[parts[i].at.Name]
		if !ok {
			return nil
		}
		parts[i].at = form
	}
	return parts
}
