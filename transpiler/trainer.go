package transpiler

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// buildTrainer writes the program that all trainers run: the user's without its update, with a send after the last producer
// of each contribution, and with one exchange of contributions for new parameters where the last update was.
//
// Fluid renames gradients by trainer and averages with a constant; here trainers have one program and servers weight by
// rows, so neither name nor number of a trainer stands in it.
func buildTrainer(s *state) error {
	t := s.source.Clone()
	t.Startup = program.NewStartup()
	b := t.Global()
	w := newTrainerWriter(s, b)
	originals := b.Ops
	b.Ops = nil
	last := s.exchangeAt()
	for i, n := range s.nodes {
		if s.staysOnTrainer(n) {
			op := b.Append(originals[i])
			if op.Role().Has(program.RoleOptimize) {
				op.SetRole(program.RoleBackward)
			}
		}
		if err := w.sendsAfter(n); err != nil {
			return err
		}
		if n.at == last {
			w.exchange()
		}
	}
	s.dropServerVars(b)
	s.result.Trainer = t
	return nil
}

// staysOnTrainer reports whether a trainer runs the op. A constant that clipping on the trainer reads is made there too.
func (s *state) staysOnTrainer(n *node) bool {
	return n.duty == dutyTrainer || n.duty == dutyConstant && by(s.use(n.writes[0]).readers, dutyTrainer)
}

// exchangeAt returns the position of the op after which trainers exchange contributions for new parameters: the last one that
// updates or contributes anything, -1 when nothing lives on servers.
func (s *state) exchangeAt() int {
	last := -1
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			last = n.at
		}
	}
	for _, f := range s.forward {
		last = max(last, s.lastProducer(f.name).at)
	}
	return last
}

// dropServerVars removes what only ops of servers name.
func (s *state) dropServerVars(b *program.Block) {
	for name := range s.uses {
		if !s.isOnTrainer(name) && !slices.ContainsFunc(s.fetched, func(f fetched) bool { return f.declaration.Name == name }) {
			b.RemoveVar(name)
		}
	}
}

// unitsOf returns the units of a group, in order of rows.
func (s *state) unitsOf(g *group) []*unit {
	return slices.DeleteFunc(slices.Clone(s.units), func(u *unit) bool { return u.group != g })
}

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

// A gather builds the ops that bring variables from servers into a program: a recv for each, one fetch barrier, and then a
// concat for each that is sliced.
type gather struct {
	*controls
	role    program.Role // of the concat ops
	recvs   []*program.Op
	concats []*program.Op
}

// variable brings in one variable from the parts that servers hold, after what the control variables stand for. v is its
// declaration, which the block gets unless it has one.
func (g *gather) variable(v *program.Var, parts []heldVar, line string, after, pair []string) {
	g.block.EnsureVar(v.Copy(""))
	var from []part
	for _, h := range parts {
		local := v.Name
		if h.cut {
			local = h.at.Name
			piece := h.at.Copy("")
			piece.Persistable, piece.IsParameter = false, false
			g.block.EnsureVar(piece)
		}
		from = append(from, part{local: local, remote: h.at.Name, server: h.server})
	}
	recv := recvOp(line, from, after)
	g.recvs = append(g.recvs, recv)
	if pair != nil {
		recv.SetAttr(program.AttrRoleVar, pair)
	}
	if parts[0].cut {
		g.concats = append(g.concats, concatOp(g.role, line, locals(from), v.Name))
	}
}

// ops returns what was built, nothing when no variable was added.
func (g *gather) ops() []*program.Op {
	if len(g.recvs) == 0 {
		return nil
	}
	var received []string
	for _, op := range g.recvs {
		received = append(received, op.Outputs["Out"]...)
	}
	all := append(g.recvs, barrierOp("fetch_barrier", received, g.add()))
	return append(all, g.concats...)
}

// controls makes variables without elements that only fix the order of ops. Fluid calls them __control_var@<n>.
type controls struct {
	block *program.Block
	names nameSpace
	next  int
}

// add declares the next control variable and returns its name.
func (c *controls) add() string {
	for {
		name := fmt.Sprintf("__control_var@%d", c.next)
		c.next++
		if _, taken := c.block.Var(name); taken || c.names[name] {
			continue
		}
		c.block.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{0}, StopGradient: true})
		return name
	}
}

// checkSections checks that the rows of a variable fit the attribute that cuts it.
func checkSections(name string, rows int64) error {
	if rows != int64(int32(rows)) {
		return fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("%d rows", rows), fault.Want("fewer than 2^31"))
	}
	return nil
}
