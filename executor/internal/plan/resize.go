package plan

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A plan serves feeds of other dims, too. Resize infers the types anew (again.go), and does again what follows from those that have changed, and nothing else:
//
//   - tensors get other dims. Temporaries keep their place in the arena as long as it has room for them. If not, the room of what has grown becomes a quarter
//     larger where memory allows it, and all buffers are placed anew. So a plan that meets ever new lengths has soon room for all of them;
//   - ops are bound again, and their loops take over what they took over before;
//   - steps are divided again.
//
// All else stays: which ops run, in which order, on which tensors, and what the blocks of loops and branches have compiled. So it costs much less than a plan, and
// computes the same bits as a plan that was compiled for the dims.

// A making is what a plan was made of.
type making struct {
	plan      *Plan
	in        *inference
	binder    *binder
	copies    []sharing
	scheduler *scheduler
	layout    *layout

	joined []*piece                // that have loops of several nodes
	owners map[*buffer][]*variable // that lie in it, each at its time
	useful map[*node]bool          // whose pieces the plan has not dropped
	spoilt bool                    // the plan is of no use any more

	binding rebinding
}

// errOtherForm says that types differ in more than numbers.
var errOtherForm = fault.New(fault.ShapeMismatch, "types of another form")

// Resize gives a plan the dims, lengths and values of other feeds. It reports false if they differ from those of Compile in more than numbers, if another division of
// the work would serve them much better, or if they are wrong. Then the plan is of no use any more. The bound on memory is that of the request, as it was.
func Resize(p *Plan, feeds map[string]ops.Meta) bool {
	m := p.making
	if m.spoilt {
		return false
	}
	m.prepare()
	m.spoilt = !m.resize(feeds)
	clear(m.binder.blanks)
	return !m.spoilt
}

// prepare finds what the first Resize needs to know.
func (m *making) prepare() {
	if m.useful != nil {
		return
	}
	m.useful, m.owners = map[*node]bool{}, map[*buffer][]*variable{}
	m.binding.making = m
	m.binding.scratch = m.binding.take
	for _, p := range m.plan.pieces {
		m.useful[p.node] = true
		for _, t := range p.taken {
			if t.epilogue != nil {
				m.useful[t.epilogue.node] = true
				m.joined = append(m.joined, p)
			}
		}
	}
	for _, c := range m.copies {
		m.useful[c.piece.node] = true
		for _, v := range c.views {
			v.partial = v.elements() != elementsOf(v).elements()
		}
	}
	for _, v := range m.in.variables.order {
		if v.buffer != nil {
			m.owners[v.buffer] = append(m.owners[v.buffer], v)
		}
	}
}

func (m *making) resize(feeds map[string]ops.Meta) bool {
	if !m.in.again(feeds) || !m.suits() {
		return false
	}
	if len(m.in.before) == 0 {
		return true
	}
	nodes, ok := m.toBind()
	if !ok || !m.moveViews() || !m.layOut() {
		return false
	}
	for _, n := range nodes {
		if !m.bind(n) {
			return false
		}
	}
	for _, p := range m.plan.pieces {
		if p.node.boundIn == m.in.walks && !p.takeAgain() {
			return false
		}
	}
	return m.divide() && m.connect()
}

// suits reports whether the work is still of the kind that the plan was made for, and fits into memory.
func (m *making) suits() bool {
	sc, in := m.scheduler, m.in
	if in.Workers > 1 {
		_, nanos := paceOf(in.variables, in.nodes)
		if border := smallestPlan * float64(sc.grain); sc.workers > 1 && nanos < border/2 || sc.workers == 1 && nanos > 2*border {
			return false
		}
	}
	if in.Memory <= 0 {
		return true
	}
	var all int64
	for _, v := range in.variables.order {
		all = add(all, v.bytes())
	}
	if all <= in.Memory {
		return true
	}
	_, err := checkMemory(in.Memory, in.Request, in.variables, in.nodes)
	return err == nil
}

// toBind returns the nodes that must be bound again: those that touch what has changed, and those whose loops have been joined with theirs. Kernels of class Control
// read dims when they run. It reports false if a node exchanges such variables with other machines.
func (m *making) toBind() (nodes []*node, ok bool) {
	in := m.in
	dirty := func(n *node) bool { return n.dirtyIn == in.walks }
	for i := range in.nodes {
		n := &in.nodes[i]
		if !m.useful[n] || n.def.Class == ops.Control || !in.isTouched(n) {
			continue
		}
		if exchanges(n.def) || n.def.Class == ops.Serve || n.def.Class == ops.FileIO {
			return nil, false
		}
		n.dirtyIn = in.walks
	}
	for again := true; again; {
		again = false
		for _, p := range m.joined {
			any, all := dirty(p.node), dirty(p.node)
			for _, t := range p.taken {
				if t.epilogue != nil {
					any, all = any || dirty(t.epilogue.node), all && dirty(t.epilogue.node)
				}
			}
			if !any || all {
				continue
			}
			again, p.node.dirtyIn = true, in.walks
			for _, t := range p.taken {
				if t.epilogue != nil {
					t.epilogue.node.dirtyIn = in.walks
				}
			}
		}
	}
	for i := range in.nodes {
		if n := &in.nodes[i]; dirty(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes, true
}

// moveViews finds where views lie in what they are views of. It reports false if they would be no views now.
func (m *making) moveViews() bool {
	for _, c := range m.copies {
		at := 0
		for _, v := range c.views {
			v.offset = at
			at += v.elements()
			if v.partial != (v.elements() != elementsOf(v).elements()) {
				return false
			}
		}
		if at != c.of.elements() {
			return false
		}
	}
	return true
}

// layOut gives the tensors of all variables that have changed their dims and their memory.
func (m *making) layOut() bool {
	l, in := m.layout, m.in
	grown := false
	for _, b := range in.before {
		v := b.variable
		if v.laid == in.walks {
			continue
		}
		v.laid = in.walks
		switch v.place {
		case temporary:
			more, ok := m.fit(v)
			if !ok || elementsOf(v).buffer == nil && m.blank(v) != nil {
				return false
			}
			grown = grown || more
		case own:
			if m.extend(v) != nil {
				return false
			}
		case fed:
			if m.blank(v) != nil {
				return false
			}
		case scoped:
			t, err := m.binder.scope.Var(v.name, v.meta.DType, v.meta.Dims)
			if err != nil || t != v.tensor {
				return false
			}
		case dynamic, valueless:
		}
		v.changeSequences()
	}
	if in.Stay != nil { // plans of other dims have written the variables, too
		for _, v := range in.variables.order {
			if v.hasDims() {
				if _, err := m.binder.scope.Var(v.name, v.meta.DType, v.meta.Dims); err != nil {
					return false
				}
			}
		}
	}
	if grown {
		return m.placeAnew()
	}
	for _, b := range in.before {
		if b.variable.place == temporary && l.attachTemporary(b.variable) != nil {
			return false
		}
	}
	for _, c := range m.copies {
		for _, v := range c.views {
			if l.attachTemporary(v) != nil {
				return false
			}
		}
	}
	return true
}

// fit makes room for a temporary. It reports whether its buffer has grown, and whether all that lies in it, one after the other, still has one size.
func (m *making) fit(v *variable) (grown, ok bool) {
	b := v.buffer
	if b == nil {
		return false, true
	}
	n := v.elements()
	if slices.ContainsFunc(m.owners[b], func(w *variable) bool { return w.elements() != n }) {
		return false, false
	}
	if b.need = n; rounded(n) <= rounded(b.elements) {
		return false, true
	}
	b.elements = max(n, b.elements+b.elements/4)
	return true, true
}

// placeAnew packs the arenas again, and gives each temporary its elements. Where memory must grow for that, buffers get no more room than they need.
func (m *making) placeAnew() bool {
	l := m.layout
	l.placeBuffers()
	if !l.store.holds(l.arenas) {
		for _, d := range l.demands {
			if d.need > 0 {
				d.buffer.elements = d.need
			}
		}
		l.placeBuffers()
	}
	if l.attach() != nil {
		return false
	}
	if m.scheduler.workers > 1 {
		m.plan.order()
	}
	return true
}

// blank gives a tensor its dims, and elements that mean nothing.
func (m *making) blank(v *variable) error {
	dims := v.meta.Stored()
	n, _ := tensor.Count(dims)
	memory, err := m.binder.blankMemory(v.meta.DType, n)
	if err != nil {
		return err
	}
	return tensor.Lay(v.tensor, memory, 0, dims...)
}

// extend gives a tensor in memory of its own other dims. The memory grows by a quarter or more.
func (m *making) extend(v *variable) (err error) {
	dims := v.meta.Stored()
	n, _ := tensor.Count(dims)
	if v.room == nil {
		if v.room, err = v.tensor.Reshape(int64(v.tensor.Len())); err != nil {
			return err
		}
	}
	if have := v.room.Len(); have < n {
		if v.room, err = tensor.New(v.meta.DType, int64(max(n, have+have/4))); err != nil {
			return err
		}
	}
	return tensor.Lay(v.tensor, v.room, 0, dims...)
}

// changeSequences is showSequences for a tensor that had other sequences. What is fed through the scope has its LoD.
func (v *variable) changeSequences() {
	if v.tensor == nil || v.place == scoped && v.writer < 0 {
		return
	}
	v.tensor.SetLoD(nil)
	v.showSequences()
}

// bind binds a node again. The new loops must be like the old ones.
func (m *making) bind(n *node) bool {
	r := &m.binding
	r.node, r.taken, r.grown, r.failed = n, 0, false, nil
	kernel, loops, err := m.binder.bindOp(n, &r.failed, r.scratch)
	if err != nil || r.grown && !m.placeAnew() {
		return false
	}
	n.boundIn = m.in.walks
	if loops == nil {
		if len(n.bound) != 1 || n.bound[0].isLoop() { // as where there is nothing to compute now
			return false
		}
		n.bound[0].kernel, n.bound[0].cost = kernel, n.cost
		return true
	}
	if len(loops) != len(n.bound) {
		return false
	}
	for i, l := range loops {
		p := n.bound[i]
		if !p.isLoop() || !alike(&p.loop, &l) {
			return false
		}
		p.loop, p.cost = l, share(n.cost, loops)
		if p.check() != nil {
			return false
		}
	}
	return true
}

// A rebinding gives a node that is bound again its scratch memory.
type rebinding struct {
	*making
	scratch func(tensor.DType, int) *tensor.Tensor // take
	node    *node
	taken   int
	grown   bool // a buffer
	failed  error
}

// take gives the node the next of its scratch memories. It returns nil, and sets failed, if it cannot.
func (r *rebinding) take(dtype tensor.DType, elements int) *tensor.Tensor {
	if r.failed != nil {
		return nil
	}
	if r.failed = r.binder.room.scratch(r.node, dtype, elements); r.failed != nil {
		return nil
	}
	if r.taken == len(r.node.scratch) {
		if r.failed = r.addScratch(r.node, dtype); r.failed != nil {
			return nil
		}
	}
	v := r.node.scratch[r.taken]
	r.taken++
	if v.meta.DType != dtype || elements < 0 {
		r.failed = errOtherForm
		return nil
	}
	v.meta.Dims = append(v.meta.Dims[:0], int64(elements))
	grown, ok := r.fit(v)
	if !ok {
		r.failed = errOtherForm
		return nil
	}
	r.grown = r.grown || grown
	if v.buffer != nil && !grown {
		r.failed = r.layout.attachTemporary(v)
	} else {
		r.failed = r.blank(v)
	}
	if r.failed != nil {
		return nil
	}
	return v.tensor
}

// addScratch gives a node more scratch memory than it had with other dims. It fails if loops of the node run range by range together: they would share it.
func (m *making) addScratch(n *node, dtype tensor.DType) error {
	v, err := m.binder.scratch(dtype, 0)
	if err != nil {
		return err
	}
	n.scratch = append(slices.Clip(n.scratch), v)
	first, last := -1, -1
	for i := range m.plan.steps {
		s := &m.plan.steps[i]
		users := 0
		for _, p := range s.pieces {
			if p.node == n {
				p.scratch, users = n.scratch, users+1
			}
		}
		if users > 1 {
			return errOtherForm
		}
		if users == 1 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first >= 0 {
		v.buffer = &buffer{first: first, last: last}
		m.owners[v.buffer] = []*variable{v}
		m.layout.demands = append(m.layout.demands, demand{dtype, v.buffer})
	}
	return nil
}

// alike reports whether two loops differ in numbers and dims only.
func alike(a, b *ops.Loop) bool {
	return slices.Equal(a.Reads, b.Reads) && slices.Equal(a.Whole, b.Whole) && slices.Equal(a.Writes, b.Writes) && a.Apart == b.Apart && a.Copies == b.Copies &&
		(a.Epilogue == nil) == (b.Epilogue == nil) && (a.TakeOver == nil) == (b.TakeOver == nil) &&
		(a.Accumulate == nil) == (b.Accumulate == nil) && (a.Reads == nil) == (b.Reads == nil) && (a.Whole == nil) == (b.Whole == nil) && (a.Writes == nil) == (b.Writes == nil)
}

// takeAgain gives a piece what the binder has bound anew, and takes over again what it had taken over. It reports false if the new loop does not.
func (p *piece) takeAgain() bool {
	o := p.origin()
	p.loop, p.kernel, p.cost = o.loop, o.kernel, o.cost
	for _, t := range p.taken {
		if t.epilogue == nil {
			if p.loop.Accumulate == nil {
				return false
			}
			p.loop.Accumulate(t.to.tensor, t.term.tensor)
			p.loop.Accumulate, p.loop.TakeOver = nil, nil
			p.loop.InPlace = p.loop.InPlace && p.taken[0].epilogue == nil
			if b := p.term.buffer; b != nil && b == p.writes[0].buffer && !p.loop.InPlace {
				return false
			}
			p.cost = withTerm(p.cost, t.to, t.term)
			continue
		}
		e := t.epilogue.loop.Epilogue
		if e == nil || p.loop.TakeOver == nil || !p.loop.TakeOver(*e) {
			return false
		}
		p.cost = withEpilogue(p.cost, t.epilogue.cost, t.between)
	}
	return true
}

// divide divides the steps with nodes that were bound again. It reports false if loops cannot run range by range together any more.
func (m *making) divide() bool {
	for i := range m.plan.steps {
		s := &m.plan.steps[i]
		if !slices.ContainsFunc(s.pieces, func(p *piece) bool { return p.node.boundIn == m.in.walks }) {
			continue
		}
		for _, c := range s.chains {
			if len(c.pieces) == 1 {
				continue
			}
			if _, ok := commonIterations(c.pieces, c.pieces[0]); !ok {
				return false
			}
		}
		s.nanos = 0
		m.scheduler.cut(s)
	}
	return true
}

// connect tells the rest of the plan what has changed.
func (m *making) connect() bool {
	p, in := m.plan, m.in
	for i := range p.feeds {
		f := &p.feeds[i]
		meta := in.variables.named[f.name].meta
		f.sequences, f.lod = meta.Sequences, meta.LoD
		if meta.Value != nil {
			f.values = ops.Integers(meta.Value)
		}
	}
	for name := range p.made {
		p.made[name] = in.variables.named[name].meta.LoD
	}
	p.weight = newWeight(in.variables.named[in.Weight.Variable], in.Weight.Value)
	for i := range p.undo.kept {
		if k := &p.undo.kept[i]; k.copy != nil && k.copy.Len() != k.value.Len() {
			k.copy, k.spare, k.filled = nil, nil, false
		}
	}
	m.layout.measure()
	p.memory = m.layout.memory
	return true
}
