package transpiler

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A trainerWriter adds to the block of a trainer what connects it with servers.
type trainerWriter struct {
	*state
	*controls
	produced map[*node][]contribution // by last producer
	sent     map[string]string        // contribution -> control variable of its send
	order    []string                 // control variables of all sends
}

// A contribution is a gradient of a group, or forward state.
type contribution struct {
	group    *group
	gradient string
	forward  *forwardState // nil for a gradient
}

func newTrainerWriter(s *state, b *program.Block) *trainerWriter {
	w := &trainerWriter{state: s, controls: &controls{block: b, names: s.names}, produced: map[*node][]contribution{}, sent: map[string]string{}}
	for _, g := range s.groups {
		for _, name := range g.contributions {
			n := s.lastProducer(name)
			w.produced[n] = append(w.produced[n], contribution{group: g, gradient: name})
		}
	}
	for _, f := range s.forward {
		n := s.lastProducer(f.name)
		w.produced[n] = append(w.produced[n], contribution{forward: f})
	}
	return w
}

// sendsAfter appends the sends of what n was the last to produce.
func (w *trainerWriter) sendsAfter(n *node) error {
	for _, c := range w.produced[n] {
		if f := c.forward; f != nil {
			w.send(n, f.name, []part{{f.name, f.name, f.server}}, f.merge, nil)
			continue
		}
		if err := w.sendGradient(n, c.group, c.gradient); err != nil {
			return err
		}
	}
	return nil
}

// sendGradient appends the send of a gradient, cut first when its parameter is sliced.
func (w *trainerWriter) sendGradient(n *node, g *group, gradient string) error {
	pair := []string{g.paramOf[gradient], gradient}
	var parts []part
	var rows []int64
	for _, u := range w.unitsOf(g) {
		v := w.at(u, gradient)
		parts = append(parts, part{v.Name, v.Name, u.server})
		rows = append(rows, rowsOf(v.Dims))
		w.block.EnsureVar(v)
	}
	if len(parts) > 1 {
		if err := checkSections(gradient, rowsOf(w.state.variable(gradient).Dims)); err != nil {
			return err
		}
		split := w.block.Append(splitOp(program.RoleDist, n.op.Line(), gradient, locals(parts), rows))
		split.SetAttr(program.AttrRoleVar, pair)
	}
	w.send(n, gradient, parts, w.merge, pair)
	return nil
}

func (w *trainerWriter) send(n *node, name string, parts []part, merge ops.Merge, pair []string) {
	control := w.add()
	op := w.block.Append(sendOp(n.op.Line(), parts, merge, control))
	if pair != nil {
		op.SetAttr(program.AttrRoleVar, pair)
	}
	w.sent[name] = control
	w.order = append(w.order, control)
}

// exchange appends the barrier that ends the contribution and receives what servers made of it.
//
// In async mode there is no round to end, and so no send barrier; a recv by itself waits for the trainer's own sends.
func (w *trainerWriter) exchange() {
	g := &gather{controls: w.controls, role: program.RoleDist}
	after := func(contribution string) []string {
		if control := w.sent[contribution]; control != "" {
			return []string{control}
		}
		return nil
	}
	if len(w.order) > 0 && w.cfg.Mode == Sync {
		control := w.add()
		w.block.Append(barrierOp("send_barrier", w.order, control))
		after = func(string) []string { return []string{control} }
	}
	for _, group := range w.groups {
		for _, param := range group.params {
			var pair []string
			grad := group.gradientOf(param)
			if grad != "" {
				pair = []string{param, grad}
			}
			g.variable(w.state.variable(param), w.held.of(param), group.ops[0].op.Line(), after(grad), pair)
		}
	}
	for _, f := range w.forward {
		g.variable(w.state.variable(f.name), w.held.of(f.name), w.lastProducer(f.name).op.Line(), after(f.name), nil)
	}
	for _, f := range w.fetched {
		g.variable(&f.declaration, f.parts, "", after(""), nil)
	}
	w.block.Ops = append(w.block.Ops, g.ops()...)
}
