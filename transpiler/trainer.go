package transpiler

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// buildTrainer writes the program of all trainers. It is the user's program without the update. A send follows the last producer of each
// contribution. In place of the last update, trainers exchange contributions for new parameters.
//
// Fluid renames gradients by trainer and averages with a constant. Here servers weight by rows, so the program contains neither the name nor the
// number of a trainer.
func buildTrainer(s *state) error {
	t := s.source.Clone()
	t.Startup = program.NewStartup()
	b := t.Global()
	w := newTrainerWriter(s, b)
	originals := b.Ops
	b.Ops = nil
	if ops.DropsGradients(s.global()) {
		for _, op := range originals {
			if role := op.Role(); role.Has(program.RoleLoss) && !role.Has(program.RoleBackward) {
				op.SetRole(role &^ program.RoleLoss) // ops.LossMayOverflow: executors refuse other losses that are not finite
			}
		}
	}
	last := exchangeAt(s)
	if s.cfg.Devices && last >= 0 {
		if err := w.mergeDevices(originals); err != nil {
			return err
		}
		w.exchange()
	} else {
		for i, n := range s.nodes {
			if err := w.write(n, originals[i]); err != nil {
				return err
			}
			if err := w.sendsAfter(n); err != nil {
				return err
			}
			if n.at == last {
				w.exchange()
			}
		}
	}
	t.DropUnreachable()
	dropServerVars(s, b)
	forgetTables(s, b)
	s.result.Trainer = t
	return nil
}

// write appends what trainers run of a node, whose op is a copy of the user's.
func (w *trainerWriter) write(n *node, op *program.Op) error {
	if w.lookups[n] != nil {
		return w.lookup.write(n)
	}
	if staysOnTrainer(w.state, n) {
		w.block.Append(op)
		if op.Role().Has(program.RoleOptimize) {
			op.SetRole(program.RoleBackward)
		}
	}
	return nil
}

// staysOnTrainer reports whether trainers run the op. They also compute constants that clipping on the trainer reads.
func staysOnTrainer(s *state, n *node) bool {
	return n.duty == dutyTrainer || n.duty == dutyConstant && by(s.use(n.writes[0]).readers, dutyTrainer)
}

// exchangeAt returns the position of the op after which trainers exchange contributions for new parameters: the last op that updates or contributes
// anything. It returns -1 if servers keep nothing.
func exchangeAt(s *state) int {
	last := -1
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			last = n.at
		}
	}
	for _, f := range s.forward {
		last = max(last, lastProducer(s, f.name).at)
	}
	return last
}

// dropServerVars removes variables that only server ops use.
func dropServerVars(s *state, b *program.Block) {
	for name := range s.uses {
		if !isOnTrainer(s, name) && !slices.ContainsFunc(s.fetched, func(f fetched) bool { return f.declaration.Name == name }) {
			b.RemoveVar(name)
		}
	}
}

// shardsOf returns the shards of a group, in order of rows.
func (s *state) shardsOf(g *group) []*shard {
	return slices.DeleteFunc(slices.Clone(s.shards), func(u *shard) bool { return u.group != g })
}

// A trainerWriter adds the ops that connect a trainer with servers.
type trainerWriter struct {
	*state
	*controls
	produced map[*node][]contribution // by last producer
	lookup   *lookupWriter
	merged   map[string]string // contribution -> merge of what the devices of a trainer have computed
	sent     map[string]string // contribution -> control variable of its send
	order    []string          // control variables of all sends
}

// A contribution is a gradient of a group, or forward state.
type contribution struct {
	group    *group
	gradient string
	forward  *forwardState // nil for a gradient
}

func newTrainerWriter(s *state, b *program.Block) *trainerWriter {
	w := &trainerWriter{state: s, controls: &controls{block: b, names: s.names}, produced: map[*node][]contribution{}, merged: map[string]string{},
		sent: map[string]string{}}
	w.lookup = &lookupWriter{state: s, block: b, places: map[*node]string{}, rows: map[*node]string{}}
	for _, g := range s.groups {
		for _, name := range g.contributions {
			n := lastProducer(s, name)
			w.produced[n] = append(w.produced[n], contribution{group: g, gradient: name})
		}
	}
	begin := slices.IndexFunc(s.nodes, func(n *node) bool { return n.op.Role().Has(program.RoleLoss | program.RoleBackward) })
	for _, f := range s.forward {
		n := lastProducer(s, f.name)
		if begin >= 0 && n.at < s.nodes[begin].at {
			n = s.nodes[begin] // what is sent before the loss is there could not be taken back, and would go without the weight that the loss gives
		}
		w.produced[n] = append(w.produced[n], contribution{forward: f})
	}
	return w
}

// sendsAfter appends the sends of contributions whose last producer is n.
func (w *trainerWriter) sendsAfter(n *node) error {
	for _, c := range w.produced[n] {
		if f := c.forward; f != nil {
			w.send(n, f.name, []part{{w.own(f.name), f.name, f.server}}, f.merge, nil)
			continue
		}
		if err := w.sendGradient(n, c.group, c.gradient); err != nil {
			return err
		}
	}
	return nil
}

// own returns the variable of a trainer that has a contribution.
func (w *trainerWriter) own(contribution string) string {
	if merged, ok := w.merged[contribution]; ok {
		return merged
	}
	return contribution
}

// sendGradient appends the send of a gradient, and before it a split if the parameter is sliced, or what compresses it.
func (w *trainerWriter) sendGradient(n *node, g *group, gradient string) error {
	pair := []string{g.paramOf[gradient], gradient}
	var parts []part
	var rows []int64
	var forms []program.Var
	for _, u := range w.shardsOf(g) {
		v := w.at(u, gradient)
		rows = append(rows, rowsOf(v.Dims))
		if form, ok := w.state.sent[v.Name]; ok {
			v = form
			forms = append(forms, form)
		}
		parts = append(parts, part{v.Name, v.Name, u.server})
		if v = v.Copy(""); w.travelsByRows(gradient) {
			v.Dims[0] = program.Unknown // as many as the batch names
		}
		w.block.EnsureVar(v)
	}
	residual, selects := w.residuals[gradient]
	if len(parts) > 1 || selects || w.travelsByRows(gradient) {
		if err := checkSections(gradient, rowsOf(w.state.variable(gradient).Dims)); err != nil {
			return err
		}
	}
	switch {
	case w.travelsByRows(gradient):
		op := w.block.Append(splitRowsOp(n.op.Line(), gradient, locals(parts), rows))
		op.SetAttr(program.AttrRoleVar, pair)
		if isStriped(w.state, g) {
			op.SetAttr("striped", true)
		}
		if hasKeys(w.state, gradient) {
			op.SetAttr("auto_grown_table", true)
		}
	case selects:
		w.block.EnsureVar(residual)
		w.block.Append(topKOp(n.op.Line(), w.own(gradient), residual.Name, rows, forms)).SetAttr(program.AttrRoleVar, pair)
	case forms != nil:
		w.block.Append(compressOp(n.op.Line(), w.own(gradient), forms...)).SetAttr(program.AttrRoleVar, pair)
	case len(parts) > 1:
		w.block.Append(splitOp(program.RoleDist, n.op.Line(), w.own(gradient), locals(parts), rows)).SetAttr(program.AttrRoleVar, pair)
	default:
		parts[0].local = w.own(gradient)
	}
	w.send(n, gradient, parts, w.merge, pair)
	if w.travelsByRows(gradient) {
		w.block.Ops[len(w.block.Ops)-1].SetAttr("rows", true)
	}
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

// exchange appends the barrier that completes the contribution, and receives the new values.
//
// In async mode there is no round and no send barrier. A recv waits for the trainer's own sends.
func (w *trainerWriter) exchange() {
	g := &gather{controls: w.controls, role: program.RoleDist, keep: w.cfg.KeepReceived}
	after := func(contribution string) []string {
		if control := w.sent[contribution]; control != "" {
			return []string{control}
		}
		return nil
	}
	g.sent = w.order
	if len(w.order) > 0 && w.cfg.Mode == Sync {
		control := w.add()
		g.sent = []string{control}
		w.block.Append(barrierOp("send_barrier", w.order, control))
		after = func(string) []string { return []string{control} }
	}
	for _, group := range w.groups {
		for _, param := range group.params {
			if w.tables[param] != nil {
				continue
			}
			var pair []string
			grad := group.gradientOf(param)
			if grad != "" {
				pair = []string{param, grad}
			}
			v, line, parts := w.state.variable(param), group.ops[0].op.Line(), w.serverVars.of(param)
			if changed := changedParts(w.state, parts); changed != nil {
				g.rows(v, changed, line, after(grad), pair)
			} else {
				g.variable(v, servedParts(w.state, parts), line, after(grad), pair)
			}
		}
	}
	for _, f := range w.forward {
		g.variable(w.state.variable(f.name), w.serverVars.of(f.name), lastProducer(w.state, f.name).op.Line(), after(f.name), nil)
	}
	for _, f := range w.fetched {
		f.declaration.Persistable = g.keep
		g.variable(&f.declaration, f.parts, "", after(""), nil)
	}
	w.block.Ops = append(w.block.Ops, g.ops()...)
	if w.cfg.Mode == Sync {
		list, vars := ops.Recounted(w.source)
		for _, v := range vars {
			w.block.EnsureVar(v)
		}
		w.block.Ops = append(w.block.Ops, list...)
	}
}

// A gather builds the ops that bring variables from servers into a program: a recv for each, one fetch barrier, and then a concat for each sliced
// variable, and for a striped one what puts its rows into their order, a decompress for each compressed one, or a scatter_rows for one of which only rows arrive.
type gather struct {
	*controls
	role  program.Role // of the concat ops
	keep  bool         // parts stay as they were received until they are received again
	sent  []string     // control variables that the barrier follows where nothing is received: it ends the step
	recvs []*program.Op
	joins []*program.Op
}

// variable receives one variable from its parts, after the ops that write the control variables. v is its declaration, which the block gets unless
// it has one.
func (g *gather) variable(v *program.Var, parts []serverVar, line string, after, pair []string) {
	from := g.receive(v, parts, line, after, pair)
	switch {
	case parts[0].striped:
		joined := v.Copy(g.names.free(v.Name + ".striped"))
		joined.Persistable, joined.IsParameter = false, false
		g.block.EnsureVar(joined)
		g.joins = append(g.joins, concatOp(g.role, line, locals(from), joined.Name),
			newOp("stripe_rows", g.role, line, slots{"X": {joined.Name}}, slots{"Out": {v.Name}}))
		g.joins[len(g.joins)-1].SetAttr("inverse", true)
	case parts[0].at.DType != v.DType:
		g.joins = append(g.joins, decompressOp(line, locals(from), v.Name))
	case parts[0].cut:
		g.joins = append(g.joins, concatOp(g.role, line, locals(from), v.Name))
	}
}

// rows is variable for rows of its parts, which are put in their place.
func (g *gather) rows(v *program.Var, parts []serverVar, line string, after, pair []string) {
	g.joins = append(g.joins, scatterRowsOp(line, locals(g.receive(v, parts, line, after, pair)), v.Name))
	if parts[0].striped {
		g.joins[len(g.joins)-1].SetAttr("striped", true)
	}
}

// receive adds the recv of the parts of a variable.
func (g *gather) receive(v *program.Var, parts []serverVar, line string, after, pair []string) (from []part) {
	g.block.EnsureVar(v.Copy(""))
	for _, h := range parts {
		local := v.Name
		if h.cut || h.at.DType != v.DType {
			local = h.at.Name
			piece := h.at.Copy("")
			piece.Persistable, piece.IsParameter = g.keep, false
			g.block.EnsureVar(piece)
		}
		from = append(from, part{local: local, remote: h.at.Name, server: h.server})
	}
	recv := recvOp(line, from, after)
	g.recvs = append(g.recvs, recv)
	if pair != nil {
		recv.SetAttr(program.AttrRoleVar, pair)
	}
	return from
}

// ops returns the ops, none if no variable was added and nothing was sent.
func (g *gather) ops() []*program.Op {
	switch {
	case len(g.recvs) > 0:
	case len(g.sent) > 0:
		return []*program.Op{barrierOp("fetch_barrier", g.sent, g.add())}
	default:
		return nil
	}
	var received []string
	for _, op := range g.recvs {
		received = append(received, op.Outputs["Out"]...)
	}
	all := append(g.recvs, barrierOp("fetch_barrier", received, g.add()))
	return append(all, g.joins...)
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

// checkSections checks that an attribute can hold the number of rows of a variable.
func checkSections(name string, rows int64) error {
	if rows != int64(int32(rows)) {
		return fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("%d rows", rows), fault.Want("fewer than 2^31"))
	}
	return nil
}

// buildTrainerStartup writes the program that initializes a trainer. It receives parameters and forward state, so that all trainers begin with the
// values of the servers. It rounds parameters that travel compressed later, so that a trainer that joins computes with the values of the others. Residuals
// are 0, and so is what is fetched from servers and kept. Other variables are computed as in the user's startup program. Values that would be overwritten are not computed.
func buildTrainerStartup(s *state) error {
	var own []string
	if s.source.Startup != nil {
		for _, v := range s.source.Startup.Global().Vars() {
			mine, ok := s.result.Trainer.Global().Var(v.Name)
			if ok && !s.isReceived(v.Name) && (mine.Persistable || mine.Kind != program.LoDTensor) && isOnTrainer(s, v.Name) {
				own = append(own, v.Name)
			}
		}
	}
	startup, err := startupOf(s, own)
	if err != nil {
		return err
	}
	g := &gather{controls: &controls{block: startup.Global(), names: s.names}, role: program.RoleDist, keep: s.cfg.KeepReceived}
	for _, group := range s.groups {
		for _, param := range group.params {
			if s.tables[param] != nil {
				continue
			}
			g.variable(s.variable(param), s.serverVars.of(param), group.ops[0].op.Line(), nil, nil)
		}
	}
	for _, f := range s.forward {
		g.variable(s.variable(f.name), s.serverVars.of(f.name), lastProducer(s, f.name).op.Line(), nil, nil)
	}
	b := startup.Global()
	b.Ops = append(b.Ops, g.ops()...)
	for _, group := range s.groups {
		for _, param := range group.params {
			roundAtStart(s, b, param, group.ops[0].op.Line())
			if residual, ok := s.residuals[group.gradientOf(param)]; ok {
				b.EnsureVar(residual)
				b.Append(zeroOp(residual))
			}
		}
	}
	for _, f := range s.fetched {
		if g.keep {
			f.declaration.Persistable = true
			b.EnsureVar(f.declaration)
			b.Append(zeroOp(f.declaration))
		}
	}
	s.result.Trainer.Startup = startup
	return nil
}

// roundAtStart rounds a parameter that a trainer has received, as its compressed form is rounded. Forms that trainers keep are those of the steps.
func roundAtStart(s *state, b *program.Block, param, line string) {
	form, ok := s.served[s.serverVars.of(param)[0].at.Name]
	if !ok {
		return
	}
	if s.cfg.KeepReceived {
		var forms []program.Var
		var names []string
		for _, part := range servedParts(s, s.serverVars.of(param)) {
			kept := part.at.Copy("")
			kept.Persistable = true
			b.EnsureVar(kept)
			forms, names = append(forms, kept), append(names, kept.Name)
		}
		b.Append(compressOp(line, param, forms...))
		b.Append(decompressOp(line, names, param))
		return
	}
	form = form.Copy(s.names.free(param + ".rounded"))
	form.Dims = slices.Clone(s.variable(param).Dims)
	b.EnsureVar(form)
	b.Append(compressOp(line, param, form))
	b.Append(decompressOp(line, []string{form.Name}, param))
}

// isReceived reports whether trainers receive the variable in every step because it changes.
func (s *state) isReceived(name string) bool {
	return forwardStateOf(s, name) != nil || by(s.use(name).writers, dutyUpdate) && s.isParameter(name)
}

// startupOf returns the part of the user's startup program that computes the given variables.
func startupOf(s *state, names []string) (*program.Program, error) {
	if s.source.Startup == nil || len(names) == 0 {
		return program.NewStartup(), nil
	}
	return s.source.Startup.Prune(names...)
}

// buildSave writes the program with which a trainer saves the model. It receives every persistable variable of the servers, joins slices, and
// writes each variable to a file named after it, as a local run does. If several servers have a copy, it receives one. Variables of trainers are
// saved from the trainer.
func buildSave(s *state) error {
	p := program.New()
	p.Startup = nil
	b := p.Global()
	g := &gather{controls: &controls{block: b, names: s.names}, role: program.RoleDist}
	grown := sparse.Grown(s.source)
	var saves []*program.Op
	for _, v := range s.global().Vars() {
		if !v.Persistable || v.Kind != program.LoDTensor {
			continue
		}
		if parts := s.serverVars.of(v.Name); parts != nil && (s.isReceived(v.Name) || !isOnTrainer(s, v.Name)) {
			local := v.Copy("")
			local.Persistable, local.IsParameter = false, false
			g.variable(&local, parts, "", nil, nil)
		} else {
			b.EnsureVar(v.Copy(""))
		}
		op := newOp("save", program.RoleForward, "", slots{"X": {v.Name}}, nil)
		op.SetAttr("file_path", v.Name)
		if grown[v.Name] {
			op.SetAttr("save_rows_in_use", true)
		}
		saves = append(saves, op)
	}
	b.Ops = append(g.ops(), saves...)
	s.result.Save = p
	return nil
}
