package plan

import "slices"

// shareViews leaves out pieces that only copy (ops.Loop.Copies), where it is certain that nobody can tell the copy from the original. A variable
// that shares the elements of another is a view of it. Pieces name only variables that are not views: a piece that touches a view touches the variable
// that has the elements. So lifetimes, the order of steps and sharing in place take views into account by themselves.
//
//	w --split--> a, b     a and b become views of w: viewsOfInput
//	a, b --concat--> w    a and b become views of w, and whoever made them writes into w: viewsOfOutput
//	x --reshape2--> y     y becomes a view of x, or else x of y
//
// Programs decide, not names. The conditions speak of pieces in the order of the program. A transfer that goes on after its kernel counts as touching
// its variables until its barrier, because the barrier touches them, too (binder.hold).
func (f *fuser) shareViews() {
	for i := 0; i < len(f.pieces); {
		switch from, to := f.copied(f.pieces[i]); {
		case len(from) == 1 && f.viewsOfInput(i, from[0], to):
			f.copies = append(f.copies, sharing{f.pieces[i], to, from[0]})
		case len(to) == 1 && f.viewsOfOutput(i, from, to[0]):
			f.copies = append(f.copies, sharing{f.pieces[i], from, to[0]})
		default:
			i++
			continue
		}
		f.pieces = slices.Delete(f.pieces, i, i+1)
	}
}

// A sharing is a piece that is left out, because views share the elements of a variable one after the other.
type sharing struct {
	piece *piece
	views []*variable
	of    *variable
}

// copied returns what a piece copies, one variable after the other: the elements of from are those of to. It returns nil for other pieces.
func (f *fuser) copied(p *piece) (from, to []*variable) {
	if !p.isLoop() || !p.loop.Copies {
		return nil, nil
	}
	for _, name := range p.op.Inputs[p.loop.Reads[0]] {
		from = append(from, f.variables.named[name])
	}
	for _, name := range p.op.Outputs[p.loop.Writes[0]] {
		to = append(to, f.variables.named[name])
	}
	return from, to
}

// viewsOfInput makes the outputs of piece i, which copies, views of its input x. The conditions:
//
//   - x is not written after piece i, so it always has the elements that the copies would have;
//   - each copy is a temporary, so nobody reads it after the run, and only piece i writes it;
//   - if x is fed, the copy is all of it: a feed exchanges the elements without making new views.
func (f *fuser) viewsOfInput(i int, x *variable, copies []*variable) bool {
	root := elementsOf(x)
	if f.writtenAfter(i, root) || !f.mayBeViews(copies, root) {
		return false
	}
	for _, c := range copies {
		if root.place == fed && c.elements() != root.elements() || f.written(0, i, c) || f.writtenAfter(i, c) {
			return false
		}
	}
	f.share(copies, x)
	return true
}

// viewsOfOutput makes the inputs of piece i, which copies, views of its output. Who writes a part then writes into the output earlier than piece i
// would have. The conditions:
//
//   - each part is a temporary with elements of its own, so nobody reads it after the run;
//   - from the first piece that touches a part up to piece i, nobody touches the output: its old elements are not needed any more;
//   - after piece i nobody writes the output or a part, so both always have the same elements;
//   - no transfer that nobody waits for touches the output or a part;
//   - if the output outlives the run, no part is written before the update and joined within it, so that a check and an undo before the update see
//     the output as it was.
func (f *fuser) viewsOfOutput(i int, parts []*variable, whole *variable) bool {
	if whole.viewOf != nil || f.isHeld(whole) || f.writtenAfter(i, whole) || !f.mayBeViews(parts, whole) {
		return false
	}
	first := i
	for _, v := range parts {
		if f.isHeld(v) || f.writtenAfter(i, v) {
			return false
		}
		first = min(first, slices.IndexFunc(f.pieces, func(p *piece) bool { return uses(p.reads, v) || uses(p.writes, v) }))
	}
	for _, p := range f.pieces[first:i] {
		if uses(p.reads, whole) || uses(p.writes, whole) {
			return false
		}
	}
	if update := slices.IndexFunc(f.pieces, (*piece).isUpdate); whole.place != temporary && first < update && update <= i {
		return false
	}
	f.share(parts, whole)
	return true
}

// mayBeViews reports whether all variables are temporaries with elements of their own, each listed once, and other than root.
func (f *fuser) mayBeViews(list []*variable, root *variable) bool {
	for i, v := range list {
		if v.place != temporary || v.viewOf != nil || v == root || uses(list[:i], v) || v.rows != nil {
			return false
		}
	}
	return root.rows == nil && !(f.moving && root.place == scoped)
}

// written reports whether one of the pieces [from, to) writes v.
func (f *fuser) written(from, to int, v *variable) bool {
	return slices.ContainsFunc(f.pieces[from:to], func(p *piece) bool { return uses(p.writes, v) })
}

func (f *fuser) writtenAfter(i int, v *variable) bool { return f.written(i+1, len(f.pieces), v) }

func (f *fuser) isHeld(v *variable) bool {
	return slices.ContainsFunc(f.held, func(h *variable) bool { return elementsOf(h) == v })
}

// share makes variables views of another, whose elements they share one after the other, and lets all pieces touch the variable that has the elements.
func (f *fuser) share(views []*variable, of *variable) {
	at := 0
	for _, v := range views {
		v.viewOf, v.offset = of, at
		at += v.elements()
		root := elementsOf(v)
		for _, p := range f.pieces {
			p.replace(v, root)
		}
	}
}

// replace makes the piece touch the elements of a view as those of the variable that has them.
func (p *piece) replace(view, root *variable) {
	touched := false
	for _, list := range [][]*variable{p.reads, p.writes, p.whole, p.parts} {
		for i, v := range list {
			if v == view {
				list[i], touched = root, true
			}
		}
	}
	if touched && view.elements() != root.elements() {
		p.parts = append(p.parts, root)
	}
}

// elementsOf returns the variable whose elements v shares, or v itself.
func elementsOf(v *variable) *variable {
	for v.viewOf != nil {
		v = v.viewOf
	}
	return v
}

// offsetOf returns where the elements of v begin in those of elementsOf(v).
func offsetOf(v *variable) (offset int) {
	for ; v.viewOf != nil; v = v.viewOf {
		offset += v.offset
	}
	return offset
}
