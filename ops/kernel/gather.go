package kernel

import "github.com/edl-go/edl/tensor"

// Gathers and scatters move rows between a tensor and places in another, which numbers choose when the program runs.

// Index lists the types of these numbers.
type Index interface{ int32 | int64 }

// A GatherPlan says what numbers choose. The whole has the form [Pre, places, Post], the rows that are gathered from it or scattered to it
// [Pre, N, Post]. Every place is named by one number for each of Extents, whose product is the number of places.
type GatherPlan struct {
	Pre, N, Post int
	Extents      []int
	// Each says that every p in Pre has N names of its own. Else all share N names.
	Each bool
	// FromEnd says that a negative number counts from the end of its extent.
	FromEnd bool
}

// Places returns how many places there are.
func (p *GatherPlan) Places() int {
	n := 1
	for _, extent := range p.Extents {
		n *= extent
	}
	return n
}

// place returns the place with name i, -1 if there is none.
func place[I Index](p *GatherPlan, ids []I, i int) int {
	at := 0
	for j, extent := range p.Extents {
		v := int64(ids[i*len(p.Extents)+j])
		if v < 0 && p.FromEnd {
			v += int64(extent)
		}
		if v < 0 || v >= int64(extent) {
			return -1
		}
		at = at*extent + int(v)
	}
	return at
}

// name returns which name row i of all Pre*N rows has.
func (p *GatherPlan) name(i int) int {
	if p.Each || p.Pre == 1 {
		return i
	}
	return i % p.N
}

// Gather copies rows [from, to) of the Pre*N rows of out from x. It returns the first row whose name is that of no place, -1 if all are good.
func Gather[T any, I Index](p *GatherPlan, out, x []T, ids []I, from, to int) (bad int) {
	places := p.Places()
	for i := from; i < to; i++ {
		at := place(p, ids, p.name(i))
		if at < 0 {
			return i
		}
		at += i / p.N * places
		if p.Post == 1 {
			out[i] = x[at]
			continue
		}
		copy(out[i*p.Post:(i+1)*p.Post], x[at*p.Post:])
	}
	return -1
}

// A ScatterMode says what becomes of places that rows are scattered to.
type ScatterMode int

// Modes of Scatter.
const (
	ScatterAdd     ScatterMode = iota // rows are added to what is there
	ScatterReplace                    // the last row with the name of a place is there
	ScatterSum                        // the sum of the rows with the name of a place is there
)

// Iterations returns how many iterations Scatter has. Each owns one p, or one column of all places.
func (p *GatherPlan) Iterations() int {
	if p.Pre > 1 {
		return p.Pre
	}
	return p.Post
}

// Scatter writes base to out, zeros where base is nil, and then scatters rows to it, in their order. It does the iterations [from, to). base may be out.
// It returns the first row whose name is that of no place, -1 if all are good.
func Scatter[T Number, I Index](p *GatherPlan, mode ScatterMode, out, base, rows []T, ids []I, from, to int) (bad int) {
	places := p.Places()
	if p.Pre == 1 {
		return scatter(p, mode, out, base, rows, ids, from, to)
	}
	one := *p
	one.Pre = 1
	for i := from; i < to; i++ {
		names := ids
		if p.Each {
			names = ids[i*p.N*len(p.Extents):]
		}
		var under []T
		if base != nil {
			under = base[i*places*p.Post:]
		}
		if bad := scatter(&one, mode, out[i*places*p.Post:], under, rows[i*p.N*p.Post:], names, 0, p.Post); bad >= 0 {
			return i*p.N + bad
		}
	}
	return -1
}

// scatter is Scatter for Pre = 1 and columns [from, to).
func scatter[T Number, I Index](p *GatherPlan, mode ScatterMode, out, base, rows []T, ids []I, from, to int) (bad int) {
	LayBase(p, mode, out, base, ids, from, to)
	for i := range p.N {
		at := place(p, ids, i)
		if at < 0 {
			return i
		}
		here, row := out[at*p.Post+from:at*p.Post+to], rows[i*p.Post+from:i*p.Post+to]
		if mode == ScatterReplace {
			copy(here, row)
			continue
		}
		for j, v := range row {
			here[j] += v
		}
	}
	return -1
}

// LayBase writes columns [from, to) of base to out, zeros where base is nil, for Pre = 1. With ScatterSum and ScatterReplace the named places are zero. It
// passes over names of no place.
func LayBase[T Number, I Index](p *GatherPlan, mode ScatterMode, out, base []T, ids []I, from, to int) {
	for at := range p.Places() {
		here := out[at*p.Post+from : at*p.Post+to]
		switch {
		case base == nil:
			clear(here)
		case len(here) > 0:
			copy(here, base[at*p.Post+from:])
		}
	}
	if mode == ScatterAdd {
		return
	}
	for i := range p.N {
		if at := place(p, ids, i); at >= 0 {
			clear(out[at*p.Post+from : at*p.Post+to])
		}
	}
}

// Where chooses between x and y: out[i] = x[i] where condition[i], else y[i].
func Where[T any](out []T, condition []bool, x, y []T) {
	for i, c := range condition {
		if c {
			out[i] = x[i]
		} else {
			out[i] = y[i]
		}
	}
}

// WhereGrad computes the gradients of Where: each element of dout belongs to one of dx and dy, and the other is 0 there. dx or dy may be nil.
func WhereGrad[T tensor.Float](dx, dy []T, condition []bool, dout []T) {
	for i, c := range condition {
		toX, toY := dout[i], T(0)
		if !c {
			toX, toY = 0, dout[i]
		}
		if dx != nil {
			dx[i] = toX
		}
		if dy != nil {
			dy[i] = toY
		}
	}
}
