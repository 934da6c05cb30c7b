package transpiler

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/random"
	"github.com/edl-go/edl/program"
)

// buildPServers writes one program for each server: block 0 with its variables and listen_and_serv, and the blocks that listen_and_serv runs in
// every round. A server without slices serves an empty update, as in Fluid.
//
// Unlike in Fluid, no block sums and scales contributions: the server merges them by rows, for any number of trainers. Variables that several
// blocks share are in block 0 and persistable, so that they keep their value from block to block. Only the slices of listen_and_serv keep it from
// round to round.
func buildPServers(s *state) error {
	exchange := newNormExchange(s)
	for server := range s.cfg.PServers {
		p := program.New()
		w := &serverWriter{state: s, exchange: exchange, server: server, program: p, shards: s.shardsOn(server)}
		w.service.server = server
		if err := w.write(); err != nil {
			return err
		}
		s.result.PServers = append(s.result.PServers, p)
	}
	return nil
}

// A serverWriter writes the program of one server.
type serverWriter struct {
	*state
	exchange *normExchange
	server   int
	program  *program.Program
	shards   []*shard
	service  service
}

func (w *serverWriter) write() error {
	block := w.program.Global()
	for _, h := range w.serverVars.on(w.server) {
		block.EnsureVar(h.at)
	}
	for _, u := range w.shards {
		for _, name := range u.group.contributions {
			v := w.at(u, name)
			if !w.travelsByRows(name) {
				w.share(v)
			}
			if form, ok := w.sent[v.Name]; ok {
				w.share(form)
			}
		}
		for _, name := range u.group.params {
			if form, ok := w.served[u.name(name)]; ok {
				w.share(form)
			}
			if form, ok := w.changed[u.name(name)]; ok {
				w.share(form)
			}
		}
	}
	if err := w.writeRates(); err != nil {
		return err
	}
	if err := w.writeNorms(); err != nil {
		return err
	}
	if err := w.writeUpdates(); err != nil {
		return err
	}
	for _, f := range w.forward {
		if f.server == w.server {
			w.service.states = append(w.service.states, f)
		}
	}
	op := block.Append(w.service.op(w.cfg.Mode, w.serverVars.on(w.server)))
	if names := w.rowsNames(); len(names) > 0 {
		op.SetAttr("rows_names", names)
	}
	setTables(w, op)
	return nil
}

// share declares a variable in block 0, for all blocks.
func (w *serverWriter) share(v program.Var) {
	v.Persistable, v.IsParameter = true, false
	w.program.Global().EnsureVar(v)
}

// newBlock appends a block that finds variables in block 0.
func (w *serverWriter) newBlock() (*program.Block, program.BlockIndex) {
	b := w.program.NewBlock(w.program.Global())
	return b, program.BlockIndex(b.Index)
}

// writeRates writes the learning-rate block.
func (w *serverWriter) writeRates() error {
	w.service.rates = comm.NoBlock
	if !w.isActive(w.server) {
		return nil
	}
	var b *program.Block
	for _, n := range w.nodes {
		if n.duty != dutyRate {
			continue
		}
		if b == nil {
			b, w.service.rates = w.newBlock()
		}
		for _, name := range slices.Concat(n.reads, n.writes) {
			if !w.constants[name] {
				w.share(w.variable(name).Copy(""))
			}
		}
		w.copyOp(b, n, nil)
	}
	return nil
}

// writeUpdates writes one optimize block per shard. It ends with the compressed form of the parameters that it updates, or with their changed rows.
func (w *serverWriter) writeUpdates() error {
	for _, u := range w.shards {
		b, index := w.newBlock()
		_, update := u.group.prepare(w.state)
		w.unpackRows(b, u, update)
		for _, n := range update {
			w.copyOp(b, n, u)
		}
		w.service.updates = append(w.service.updates, index)
		for _, name := range u.group.params {
			if form, ok := w.served[u.name(name)]; ok {
				b.Append(compressOp(u.group.ops[0].op.Line(), u.name(name), form))
			}
		}
		w.packRows(b, u)
		for _, name := range u.group.contributions {
			g := gradient{name: u.name(name), into: u.name(name), block: index, merge: w.merge}
			if form, ok := w.sent[g.name]; ok {
				g.name = form.Name
				if w.travelsByRows(name) {
					g.into = form.Name
				}
			}
			w.service.gradients = append(w.service.gradients, g)
		}
	}
	if len(w.shards) == 0 {
		_, index := w.newBlock()
		w.service.updates = append(w.service.updates, index)
	}
	return nil
}

// copyOp appends a copy of an op of the user's program that works on the variables of shard u, or of the whole program if u is nil. A variable that
// no enclosing block declares is declared in this block. Ops for constants that the op reads come first.
func (w *serverWriter) copyOp(b *program.Block, n *node, u *shard) *program.Op {
	for _, name := range n.reads {
		if _, made := b.Find(name); w.constants[name] && !made {
			b.EnsureVar(w.variable(name).Copy(""))
			setRoleVars(b, b.Append(w.use(name).writers[0].op.Clone()), u)
		}
	}
	op := n.op.Clone()
	if u != nil {
		for _, name := range slices.Concat(n.reads, n.writes) {
			v := w.at(u, name)
			if _, declared := b.Find(v.Name); !declared {
				b.EnsureVar(v)
			}
		}
		renameArguments(op, u)
		setRegions(op, u)
		setRounding(op, u, rowsOf(w.variable(u.group.params[0]).Dims))
	}
	setRoleVars(b, op, u)
	w.copyBlocks(b, op)
	return b.Append(op)
}

// copyBlocks gives op, a copy of an op of the user's program for block b, copies of the blocks that it runs. Gradients of them are not copied, so nothing is
// left for these.
func (w *serverWriter) copyBlocks(b *program.Block, op *program.Op) {
	for _, name := range slices.Sorted(maps.Keys(op.Attrs)) {
		index, ok := op.Attrs[name].(program.BlockIndex)
		if !ok {
			continue
		}
		from, err := w.source.Block(index)
		if err != nil {
			continue // the program has been verified
		}
		to := w.program.NewBlock(b)
		for _, v := range from.Vars() {
			to.EnsureVar(v.Copy(""))
		}
		for _, inner := range from.Ops {
			copied := inner.Clone()
			setRoleVars(to, copied, nil)
			w.copyBlocks(to, copied)
			to.Append(copied)
		}
		op.Attrs[name] = program.BlockIndex(to.Index)
	}
	maps.DeleteFunc(op.Outputs, func(slot string, names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			v, ok := w.source.Global().Find(name)
			return ok && v.Kind == program.StepScopes
		})
	})
}

// renameArguments gives the arguments of op the names of a shard. It renames all at once, so that swapped names do not collide.
func renameArguments(op *program.Op, u *shard) {
	for _, slots := range []map[string][]string{op.Inputs, op.Outputs} {
		for _, args := range slots {
			for i, name := range args {
				args[i] = u.name(name)
			}
		}
	}
}

// setRoleVars reduces the role variables of op, for block b, to the pairs that the shard updates, under their names at the server. A pair whose gradient the block does not have is left
// out: rows of a sparse gradient that is merged over steps and clipped by the global norm live in the block before the norms are exchanged.
func setRoleVars(b *program.Block, op *program.Op, u *shard) {
	var pairs []string
	for _, pair := range op.RoleVars() {
		if u == nil {
			break
		}
		grad := u.group.gradientOf(pair[0])
		if grad == "" {
			continue
		}
		if _, known := b.Find(u.name(grad)); known {
			pairs = append(pairs, u.name(pair[0]), u.name(grad))
		}
	}
	delete(op.Attrs, program.AttrRoleVar)
	if pairs != nil {
		op.SetAttr(program.AttrRoleVar, pairs)
	}
}

// infer infers the outputs of an op under construction. It declares each output that no enclosing block declares, in the block that declare
// chooses.
func infer(b *program.Block, op *program.Op, declare func(program.Var)) error {
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		v, ok := b.Find(name)
		if !ok {
			return ops.Meta{}, false
		}
		return ops.MetaOf(v), true
	})
	if err != nil {
		return err
	}
	for slot, names := range op.Outputs {
		for i, name := range names {
			if _, ok := b.Find(name); ok {
				continue
			}
			m := shapes.Outs(slot)[i]
			declare(program.Var{Name: name, Kind: m.Kind, DType: m.DType, Dims: m.Dims, StopGradient: true})
		}
	}
	return nil
}

// A service collects the content of the listen_and_serv op of one server.
type service struct {
	server    int
	prepare   []program.BlockIndex
	global    program.BlockIndex
	rates     program.BlockIndex
	updates   []program.BlockIndex
	gradients []gradient
	states    []*forwardState
}

// A gradient is a contribution with the optimize block that reads it.
type gradient struct {
	name  string
	into  string // where contributions merge: name, unless they are compressed
	block program.BlockIndex
	merge ops.Merge
}

// op returns the listen_and_serv op. serverVars are the variables that keep their value from round to round. They are inputs of the op, so that
// they must have values before it runs.
func (s *service) op(mode Mode, serverVars []serverVar) *program.Op {
	op := newOp("listen_and_serv", program.RoleRPC, "", nil, nil)
	if len(serverVars) > 0 {
		op.Inputs = slots{"X": nil}
		for _, h := range serverVars {
			op.Inputs["X"] = append(op.Inputs["X"], h.at.Name)
		}
	}
	op.SetAttr("endpoint", comm.Address(s.server))
	op.SetAttr("pserver_id", int32(s.server))
	op.SetAttr("sync_mode", mode == Sync)
	if len(s.prepare) > 0 {
		op.SetAttr("prepare_blocks", s.prepare)
	}
	op.SetAttr("global_block", int32(s.global))
	op.SetAttr("lr_decay_block_id", int32(s.rates))
	op.SetAttr("optimize_blocks", s.updates)
	s.setContributions(op)
	setSlices(op, serverVars)
	return op
}

func (s *service) setContributions(op *program.Op) {
	if len(s.gradients) > 0 {
		names, blocks, merges := make([]string, len(s.gradients)), make([]int32, len(s.gradients)), make([]int32, len(s.gradients))
		into := make([]string, len(s.gradients))
		for i, g := range s.gradients {
			names[i], blocks[i], merges[i], into[i] = g.name, int32(g.block), int32(g.merge), g.into
		}
		if !slices.Equal(names, into) {
			op.SetAttr("grad_into", into)
		}
		op.SetAttr("grad_names", names)
		op.SetAttr("grad_block_ids", blocks)
		op.SetAttr("grad_merge", merges)
	}
	if len(s.states) > 0 {
		names, merges := make([]string, len(s.states)), make([]int32, len(s.states))
		for i, f := range s.states {
			names[i], merges[i] = f.name, int32(f.merge)
		}
		op.SetAttr("state_names", names)
		op.SetAttr("state_merge", merges)
	}
}

// setSlices describes every variable that keeps its value from round to round: the variable of the user's program, and its rows. So a server can
// load its part from a file of the whole.
func setSlices(op *program.Op, serverVars []serverVar) {
	if len(serverVars) == 0 {
		return
	}
	n := len(serverVars)
	names, origins := make([]string, n), make([]string, n)
	first, rows, total := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, h := range serverVars {
		names[i], origins[i] = h.at.Name, h.variable
		first[i], rows[i], total[i] = h.first, rowsOf(h.at.Dims), h.total
	}
	op.SetAttr("slice_names", names)
	op.SetAttr("slice_origins", origins)
	op.SetAttr("slice_first_rows", first)
	op.SetAttr("slice_rows", rows)
	op.SetAttr("slice_total_rows", total)
	tables := make([]string, n)
	var striped []string
	for i, h := range serverVars {
		tables[i] = h.table
		if h.striped {
			striped = append(striped, h.at.Name)
		}
	}
	if striped != nil {
		op.SetAttr("striped_names", striped)
	}
	if slices.ContainsFunc(tables, func(name string) bool { return name != "" }) {
		op.SetAttr("slice_tables", tables)
	}
}

// buildPServerStartups writes the program that initializes each server. The values are those of the user's startup program, bit for bit. In Fluid
// they depend on the slicing, because it draws each slice by itself.
//
// The user's ops compute a variable that is not sliced. A copy of an op computes a slice of a constant or of a random variable: random ops draw by
// index of element. Any other slice is taken from the whole variable.
func buildPServerStartups(s *state) error {
	initializers := soleInitializers(s.source.Startup)
	for server, p := range s.result.PServers {
		w := &initWriter{state: s, serverVars: s.serverVars.on(server), initializers: initializers}
		if err := w.write(); err != nil {
			return err
		}
		p.Startup = w.program
	}
	return nil
}

// An initWriter writes the startup program of one server.
type initWriter struct {
	*state
	serverVars   []serverVar
	initializers map[string]*program.Op
	program      *program.Program
	copies       []*program.Op // compute a slice directly
	cut          []serverVar   // slices that need the whole
}

// soleInitializers returns ops of a startup program by variable: ops without inputs that are the only writers of the variable.
func soleInitializers(startup *program.Program) map[string]*program.Op {
	sole := map[string]*program.Op{}
	if startup == nil {
		return sole
	}
	b := startup.Global()
	for name, use := range b.Uses() {
		if len(use.Writers) != 1 {
			continue
		}
		op := b.Ops[use.Writers[0]]
		if reads, writes := b.Touches(op); len(reads) == 0 && len(writes) == 1 {
			sole[name] = op
		}
	}
	return sole
}

func (w *initWriter) write() error {
	if w.source.Startup == nil {
		w.program = program.NewStartup()
		return nil
	}
	own, whole := map[string]bool{}, []string{}
	for _, h := range w.serverVars {
		if _, ok := w.source.Startup.Global().Var(h.variable); !ok {
			continue // nothing initializes it, so its value comes from a file
		}
		if h.at.Name == h.variable {
			own[h.variable] = true
			whole = append(whole, h.variable)
			continue
		}
		op, err := w.sliceInitializer(h)
		switch {
		case err != nil:
			return err
		case op != nil:
			w.copies = append(w.copies, op)
		default:
			w.cut = append(w.cut, h)
			whole = append(whole, h.variable)
		}
	}
	var err error
	if w.program, err = startupOf(w.state, whole); err != nil {
		return err
	}
	b := w.program.Global()
	for _, v := range b.Vars() {
		v.Persistable = own[v.Name]
	}
	for _, h := range w.serverVars {
		b.EnsureVar(h.at)
	}
	b.Ops = append(b.Ops, w.copies...)
	for _, h := range w.cut {
		if err := w.cutOut(b, h); err != nil {
			return err
		}
	}
	return nil
}

// sliceInitializer returns a copy of the op that initializes a variable, changed so that it initializes the slice. It returns nil if the slice must
// be taken from the whole.
func (w *initWriter) sliceInitializer(h serverVar) (*program.Op, error) {
	writer := w.initializers[h.variable]
	if writer == nil {
		return nil, nil
	}
	if def, ok := ops.Lookup(writer.Type); ok && def.Class == ops.Random {
		if h.striped {
			return random.Stripes(writer, h.at.Name, h.first, h.first+rowsOf(h.at.Dims))
		}
		return random.Slice(writer, h.at.Name, h.first, h.first+rowsOf(h.at.Dims))
	}
	if writer.Type != "fill_constant" {
		return nil, nil
	}
	op := writer.Clone()
	op.RenameOutput(h.variable, h.at.Name)
	op.SetAttr("shape", append([]int64(nil), h.at.Dims...))
	return op, nil
}

// cutOut appends ops that take a slice from a variable that was computed as a whole.
func (w *initWriter) cutOut(b *program.Block, h serverVar) error {
	if !h.cut {
		b.Append(newOp("assign", program.RoleDist, "", slots{"X": {h.variable}}, slots{"Out": {h.at.Name}}))
		return nil
	}
	if err := checkSections(h.variable, h.total); err != nil {
		return err
	}
	from := h.variable
	if h.striped {
		from = w.declareLike(b, h, h.at.Name+".striped")
		b.Append(newOp("stripe_rows", program.RoleDist, "", slots{"X": {h.variable}}, slots{"Out": {from}}))
	}
	end := h.first + rowsOf(h.at.Dims)
	var names []string
	var rows []int64
	add := func(name string, n int64) {
		if n == 0 {
			return
		}
		v := w.variable(h.variable).Copy(name)
		v.Dims[0], v.Persistable, v.IsParameter = n, false, false
		b.EnsureVar(v)
		names, rows = append(names, name), append(rows, n)
	}
	add(w.names.free(h.at.Name+".before"), h.first)
	add(h.at.Name, end-h.first)
	add(w.names.free(h.at.Name+".after"), h.total-end)
	b.Append(cutOp(from, names, rows))
	return nil
}

// declareLike declares a temporary variable with the dims of a whole variable, and returns its name.
func (w *initWriter) declareLike(b *program.Block, h serverVar, name string) string {
	v := w.variable(h.variable).Copy(w.names.free(name))
	v.Persistable, v.IsParameter = false, false
	b.EnsureVar(v)
	return v.Name
}
