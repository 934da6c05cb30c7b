package plan

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A buffer is the memory of one temporary, or of several of which each overwrites the one before.
type buffer struct {
	elements    int // that it has room for
	need        int // elements that are in use, if the plan was given other dims
	first, last int // pieces that touch it; packArenas turns them into steps
	offset      int // in elements, set by arena.place
}

// A layout is the stage that gives tensors their memory. It takes the variables and the steps, and hands on how much memory there is.
type layout struct {
	variables *variables
	pieces    []*piece
	steps     []step
	held      []*variable // that pieces go on using until the end of the block
	spaces    *spaces
	arenas    map[tensor.DType]*arena
	demands   []demand // of all arenas
	store     *Store
	room      *room
	memory    Memory
}

// layOut finds how long each temporary lives, packs the arenas and gives every tensor its elements.
func (l *layout) layOut() error {
	l.findLifetimes()
	for _, v := range l.held {
		elementsOf(v).last = len(l.pieces)
	}
	for _, v := range l.variables.order {
		if v.place == temporary && v.viewOf == nil && v.first >= 0 {
			v.buffer = &buffer{elements: v.elements(), first: v.first, last: v.last}
		}
	}
	for i := range l.steps {
		s := &l.steps[i]
		for k, p := range s.pieces {
			l.shareInPlace(s, p, s.first+k)
		}
	}
	l.packArenas()
	l.measure()
	return l.attach()
}

// findLifetimes finds the first and the last piece that touch each variable, and the first that writes it; -1 for none.
func (l *layout) findLifetimes() {
	for _, v := range l.variables.order {
		v.first, v.last, v.writer = -1, -1, -1
	}
	for i, p := range l.pieces {
		p.touches(func(v *variable, write bool) {
			if v.first < 0 {
				v.first = i
			}
			if write && v.writer < 0 {
				v.writer = i
			}
			v.last = i
		})
	}
}

// shareInPlace lets the outputs of piece i, a piece of step s, take over the memory of inputs that no later piece touches, if the op allows it.
func (l *layout) shareInPlace(s *step, p *piece, i int) {
	slots := make([]string, 0, len(p.def.InPlace))
	for slot := range p.def.InPlace {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	for _, slot := range slots {
		outs, ins := p.op.Outputs[slot], p.op.Inputs[p.def.InPlace[slot]]
		for k := range min(len(outs), len(ins)) {
			if outs[k] == program.Empty || ins[k] == program.Empty {
				continue
			}
			out, in := l.variables.named[outs[k]], elementsOf(l.variables.named[ins[k]])
			if uses(p.writes, out) && uses(p.reads, in) {
				l.takeOver(s, p, i, out, in)
			}
		}
	}
	if p.term != nil && p.loop.InPlace {
		l.takeOver(s, p, i, p.writes[0], p.term)
	}
}

func (l *layout) takeOver(s *step, p *piece, i int, out, in *variable) {
	if out.place != temporary || in.place != temporary || out.buffer == in.buffer || out.meta.DType != in.meta.DType {
		return
	}
	if out.first != i || in.buffer.last != i || out.buffer.elements != in.buffer.elements {
		return
	}
	if l.timesRead(p, in.buffer) != 1 || !s.isKernel() && !s.rowsOnly(in.buffer) {
		return
	}
	in.buffer.last = out.buffer.last
	out.buffer = in.buffer
}

// timesRead counts how often the op of a piece names a variable of a buffer as an input.
func (l *layout) timesRead(p *piece, b *buffer) int {
	times := 0
	if p.term != nil && p.term.buffer == b {
		times++
	}
	for slot, names := range p.op.Inputs {
		if p.isLoop() && p.loop.Reads != nil && !slices.Contains(p.loop.Reads, slot) {
			continue
		}
		for _, name := range names {
			if name != program.Empty && elementsOf(l.variables.named[name]).buffer == b {
				times++
			}
		}
	}
	return times
}

// rowsOnly reports whether each iteration of the loops of a step touches only its own part of a buffer. Then it may overwrite this part before other
// iterations have run.
func (s *step) rowsOnly(b *buffer) bool {
	return len(s.chains) == 1 && !slices.ContainsFunc(s.pieces, func(p *piece) bool {
		return slices.ContainsFunc(slices.Concat(p.whole, p.parts), func(v *variable) bool { return v.buffer == b })
	})
}

// align is the granule of an arena in elements: 64 bytes of float32, so that two variables do not share a cache line.
const align = 16

// An arena packs the buffers of one dtype. There is one per dtype so that no memory changes its Go type.
type arena struct {
	space  int
	placed []*buffer // sorted by offset
	size   int       // in elements
	memory *tensor.Tensor
}

// packArenas places all buffers, the largest first: large ones leave gaps that small ones fill. Two buffers that one step touches never overlap,
// because the loops of a step may run at the same time.
func (l *layout) packArenas() {
	l.arenas = map[tensor.DType]*arena{}
	stepOf := l.stepOf()
	seen := map[*buffer]bool{}
	for _, v := range l.variables.order {
		if v.buffer != nil && !seen[v.buffer] {
			seen[v.buffer] = true
			v.buffer.first, v.buffer.last = stepOf[v.buffer.first], stepOf[v.buffer.last]
			l.demands = append(l.demands, demand{v.meta.DType, v.buffer})
		}
	}
	l.placeBuffers()
}

// A demand is a buffer of elements of a dtype.
type demand struct {
	dtype tensor.DType
	*buffer
}

// placeBuffers finds a place in the arenas for each buffer.
func (l *layout) placeBuffers() {
	for _, a := range l.arenas {
		a.placed, a.size = a.placed[:0], 0
	}
	slices.SortStableFunc(l.demands, func(a, b demand) int { return cmp.Compare(b.elements, a.elements) })
	for _, d := range l.demands {
		a := l.arenas[d.dtype]
		if a == nil {
			a = &arena{space: l.spaces.next(0).space}
			l.arenas[d.dtype] = a
		}
		a.place(d.buffer)
	}
}

// stepOf returns the step of each piece. The end of the block counts as one more piece and step.
func (l *layout) stepOf() []int {
	of := make([]int, 0, len(l.pieces)+1)
	for i, s := range l.steps {
		for range s.pieces {
			of = append(of, i)
		}
	}
	return append(of, len(l.steps))
}

// place puts b into the smallest gap that holds it between the buffers that are alive at the same time, or behind them.
func (a *arena) place(b *buffer) {
	need := rounded(b.elements)
	best, bestGap, end := -1, 0, 0
	for _, other := range a.placed {
		if other.last < b.first || b.last < other.first {
			continue
		}
		if gap := other.offset - end; gap >= need && (best < 0 || gap < bestGap) {
			best, bestGap = end, gap
		}
		end = max(end, other.offset+rounded(other.elements))
	}
	if best < 0 {
		best = end
	}
	a.insert(b, best)
}

func (a *arena) insert(b *buffer, offset int) {
	b.offset = offset
	a.size = max(a.size, offset+rounded(b.elements))
	at, _ := slices.BinarySearchFunc(a.placed, b, func(x, y *buffer) int { return cmp.Compare(x.offset, y.offset) })
	a.placed = slices.Insert(a.placed, at, b)
}

// rounded returns the room for n elements: at least one granule, so that empty tensors have an address of their own, too.
func rounded(n int) int { return max(1, (n+align-1)/align) * align }

// attach makes the arenas and gives every tensor its elements, which kernels see from now on.
func (l *layout) attach() error {
	if err := l.room.arenas(l); err != nil {
		return err
	}
	l.memory.Arena = 0
	for dtype, a := range l.arenas {
		memory, err := l.store.layIn(dtype, a.size)
		if err != nil {
			return err
		}
		a.memory = memory
		l.memory.Arena += int64(a.size) * int64(dtype.Size())
	}
	for _, v := range l.variables.order {
		if v.place == temporary {
			if err := l.attachTemporary(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// attachTemporary gives the tensor of a temporary its dims, and the elements that the layout has found for it.
func (l *layout) attachTemporary(v *variable) error {
	of := elementsOf(v)
	if of.place != temporary {
		v.span = of.span
		return tensor.Lay(v.tensor, of.tensor, offsetOf(v), v.meta.Stored()...)
	}
	b := of.buffer
	if b == nil { // nothing touches it
		return nil
	}
	a := l.arenas[v.meta.DType]
	v.span = span{space: a.space, from: b.offset, to: b.offset + rounded(b.elements)}
	return tensor.Lay(v.tensor, a.memory, b.offset+offsetOf(v), v.meta.Stored()...)
}

// measure adds up what variables need.
func (l *layout) measure() {
	l.memory.Own, l.memory.Sum = 0, 0
	for _, v := range l.variables.order {
		switch v.place {
		case temporary:
			l.memory.Sum += v.bytes()
		case own:
			l.memory.Own += v.tensor.Bytes()
		case fed, scoped, dynamic, valueless:
		}
	}
}
