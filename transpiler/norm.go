package transpiler

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// writeNorms writes the prepare blocks and the global block.
func (w *serverWriter) writeNorms() error {
	w.service.global = comm.NoBlock
	if w.exchange == nil {
		return nil
	}
	for _, u := range w.shards {
		if err := w.writePrepare(u); err != nil {
			return err
		}
	}
	b, index := w.newBlock()
	w.service.global = index
	if err := w.writeExchange(b); err != nil || !w.isActive(w.server) {
		return err
	}
	return w.writeScalars(b)
}

// writePrepare writes the block that computes the norms of a shard, if it has norms.
func (w *serverWriter) writePrepare(u *shard) error {
	before, _ := u.group.prepare(w.state)
	if len(before) == 0 {
		return nil
	}
	b, index := w.newBlock()
	w.service.prepare = append(w.service.prepare, index)
	w.shareAcross(u)
	w.unpackRows(b, u, before)
	for _, n := range before {
		if !n.norm {
			w.copyOp(b, n, u)
			continue
		}
		op := newOp("squared_l2_norm_partial", n.op.Role(), n.op.Line(), slots{"X": {u.name(n.reads[0])}}, slots{"Out": {w.exchange.partial[u][n]}})
		if err := infer(b, op, w.share); err != nil {
			return err
		}
		b.Append(op)
	}
	return nil
}

// shareAcross declares in block 0 the temporaries that both the prepare block and the optimize block of a shard use.
func (w *serverWriter) shareAcross(u *shard) {
	before, update := u.group.prepare(w.state)
	prepared := usages(before)
	updated := usages(update)
	for _, name := range u.group.temporaries {
		if prepared[name] != nil && updated[name] != nil && !w.travelsByRows(name) {
			w.share(w.at(u, name))
		}
	}
}

// writeExchange joins the server's parts of all norms and exchanges them. If the server has no part of a norm, its part is zero.
func (w *serverWriter) writeExchange(b *program.Block) error {
	var rows []string
	for k, n := range w.exchange.norms {
		row, err := w.ownPart(b, k, n)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return w.emit(b,
		concatOp(program.RoleDist, "", rows, w.exchange.own),
		newOp("exchange_partials", program.RoleDist, "", slots{"X": {w.exchange.own}}, slots{"Out": w.exchange.all}))
}

// ownPart returns the variable with the server's part of norm k.
func (w *serverWriter) ownPart(b *program.Block, k int, n *node) (string, error) {
	var parts []string
	for _, u := range w.shards {
		if name := w.exchange.partial[u][n]; name != "" {
			parts = append(parts, name)
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	row := w.exchange.rows[k]
	if len(parts) > 1 {
		return row, w.emit(b, newOp("sum", program.RoleDist, n.op.Line(), slots{"X": parts}, slots{"Out": {row}}))
	}
	zero := newOp("fill_constant", program.RoleDist, n.op.Line(), nil, slots{"Out": {row}})
	zero.SetAttr("shape", []int64{kernel.SquareSumWords})
	zero.SetAttr("dtype", int32(tensor.Int64))
	zero.SetAttr("value", float32(0))
	return row, w.emit(b, zero)
}

// writeScalars computes the norms of the whole, and then the scalars that depend on them.
func (w *serverWriter) writeScalars(b *program.Block) error {
	totals := w.exchange.totals
	words := slices.Repeat([]int64{kernel.SquareSumWords}, len(totals))
	if err := w.emit(b,
		newOp("sum", program.RoleDist, "", slots{"X": w.exchange.all}, slots{"Out": {w.exchange.total}}),
		splitOp(program.RoleDist, "", w.exchange.total, totals, words)); err != nil {
		return err
	}
	for k, n := range w.exchange.norms {
		w.share(w.variable(n.writes[0]).Copy(""))
		merge := newOp("squared_l2_norm_merge", n.op.Role(), n.op.Line(), slots{"X": {totals[k]}}, slots{"Out": {n.writes[0]}})
		merge.SetAttr("dtype", int32(w.variable(n.writes[0]).DType))
		b.Append(merge)
	}
	for _, n := range w.nodes {
		if n.duty == dutyScalar {
			w.share(w.variable(n.writes[0]).Copy(""))
			w.copyOp(b, n, nil)
		}
	}
	return nil
}

// emit appends ops and declares their outputs in the block.
func (w *serverWriter) emit(b *program.Block, list ...*program.Op) error {
	for _, op := range list {
		if err := infer(b, op, func(v program.Var) { b.EnsureVar(v) }); err != nil {
			return err
		}
		b.Append(op)
	}
	return nil
}

// A normExchange names the variables that servers exchange to compute norms together. The names are equal on all servers.
type normExchange struct {
	norms   []*node                     // of all groups, in order
	partial map[*shard]map[*node]string // exact partial sums, one per norm of a shard
	rows    []string                    // per norm: the partial sum of one server, if it must be made from several or none
	own     string                      // the partial sums of one server, one norm after another
	all     []string                    // those of each server
	total   string                      // sums over all servers
	totals  []string                    // per norm: its part of total
}

// newNormExchange returns nil if the program has no norm that servers compute together.
func newNormExchange(s *state) *normExchange {
	e := &normExchange{partial: map[*shard]map[*node]string{}}
	for _, n := range s.nodes {
		if n.norm {
			e.norms = append(e.norms, n)
		}
	}
	if len(e.norms) == 0 {
		return nil
	}
	for _, u := range s.shards {
		e.partial[u] = map[*node]string{}
		for _, n := range u.group.norms() {
			name := n.writes[0] + ".partial"
			if u.block != Whole {
				name = fmt.Sprintf("%s.block%d", name, u.block)
			}
			e.partial[u][n] = s.names.free(name)
		}
	}
	e.own = s.names.free("norms.partial")
	for i := range s.cfg.PServers {
		e.all = append(e.all, s.names.free(fmt.Sprintf("norms.partial.pserver_%d", i)))
	}
	e.total = s.names.free("norms.total")
	for k := range e.norms {
		e.rows = append(e.rows, s.names.free(fmt.Sprintf("norms.partial.%d", k)))
		e.totals = append(e.totals, s.names.free(fmt.Sprintf("norms.total.%d", k)))
	}
	return e
}

// keepClipping keeps the global part on trainers, in async mode: servers have no common round in which they could combine norms. So each trainer
// clips its own contribution. On the trainer stay norms, the scalars that depend on them, the ops that scale gradients by these, and every update
// op that one of them depends on. Their results become the contribution.
func keepClipping(s *state) error {
	var kept []*node
	keep := func(n *node) {
		n.duty, n.norm, n.late = dutyTrainer, false, false
		kept = append(kept, n)
	}
	for _, n := range s.nodes {
		if n.duty == dutyScalar || n.norm || n.duty == dutyUpdate && readsScalar(s, n) {
			keep(n)
		}
	}
	for i := 0; i < len(kept); i++ {
		for _, name := range kept[i].reads {
			for _, w := range s.use(name).writers {
				if w.duty == dutyUpdate && w.at < kept[i].at && !s.variable(name).Persistable {
					keep(w)
				}
			}
		}
	}
	for _, n := range s.nodes {
		n.late = false
	}
	s.scalars = map[string]bool{}
	for _, n := range kept {
		if err := checkKept(s, n); err != nil {
			return err
		}
	}
	return nil
}

// checkKept checks that trainers have all inputs of a clipping op, and that it does not change a variable of servers.
func checkKept(s *state, n *node) error {
	for _, name := range n.writes {
		if s.variable(name).Persistable {
			return unsupported(n, name, "an update that reads the norm of gradients", "clipping that yields gradients",
				"use sync mode, or clip before the optimizer's own op")
		}
	}
	for _, name := range n.reads {
		onServers := slices.ContainsFunc(s.use(name).writers, func(w *node) bool { return w.duty != dutyTrainer && w.duty != dutyConstant })
		if onServers && !s.isParameter(name) {
			return unsupported(n, name, "clipping that reads a variable of servers", "clipping by gradients and parameters", "use sync mode")
		}
	}
	return nil
}

// isParameter reports whether a variable that updates write is a parameter. Trainers receive its new value in every step. Other persistable
// variables that updates write are accumulators, which only servers have.
func (s *state) isParameter(name string) bool {
	v := s.variable(name)
	return v.Persistable && (v.IsParameter || by(s.use(name).readers, dutyTrainer) && !isKeys(s, name))
}
