package plan

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A room bounds what a plan takes, before it is allocated. A plan of its own has a budget for what it needs in the worst run: variables that the scope does not have
// yet, feeds, arenas, and what lies in arrays and in blocks that its ops run. The plans of these blocks share the budget; the store of a block takes what it grows by.
type room struct {
	budget    *tensor.Budget
	store     *Store
	variables *variables
	shared    bool  // the budget is that of a plan around
	taken     int64 // bytes of the budget for arenas, where it is not shared
}

// newRoom refuses a plan that takes more than there is. It counts what a plan needs at least: what lasts, and the temporaries that one op touches, for the op where
// these are most.
func newRoom(request *Request, variables *variables, nodes []node) (*room, error) {
	r := &room{budget: request.Budget, store: request.Store, variables: variables, shared: request.Budget != nil}
	if r.budget == nil {
		r.budget = tensor.NewBudget(request.Memory)
	}
	lasting, err := checkMemory(r.left(), request, variables, nodes)
	if err != nil {
		return nil, err
	}
	return r, r.budget.Take("", lasting)
}

// left returns how many bytes arenas may have.
func (r *room) left() int64 {
	held := r.taken
	if r.shared {
		held = r.store.Bytes()
	}
	return add(r.budget.Left(), held)
}

// scratch checks that a node may have scratch memory of so many elements beside what it has, and its temporaries.
func (r *room) scratch(n *node, dtype tensor.DType, elements int) error {
	more := int64(math.MaxInt64)
	if size := int64(dtype.Size()); int64(elements) < more/size {
		more = int64(elements) * size
	}
	total := more
	for _, v := range n.scratch {
		total = add(total, v.bytes())
	}
	for i := range n.results {
		for v := r.variables.named[n.results[i].name]; v != nil; v = v.rows {
			if v.place == temporary && v.viewOf == nil {
				total = add(total, v.bytes())
			}
		}
	}
	if total <= r.left() {
		return nil
	}
	name := ""
	for _, out := range n.op.OutputNames() {
		if out != program.Empty {
			name = out
			break
		}
	}
	return fault.E(fault.TooLarge, fault.On(n.op), fault.Var(name), fault.Gotf("%d bytes or more, %d of them that the op works in", total, more), fault.Wantf("at most %d", r.left()),
		fault.Hint("make batches smaller, or allow more memory if the machine has it"))
}

// arenas takes what the arenas of a layout need; where the budget is shared, the store will. The error names the op where most temporaries are in use, and the largest of them.
func (r *room) arenas(l *layout) error {
	var all int64
	for dtype, a := range l.arenas {
		all = add(all, add(0, int64(a.size)*int64(dtype.Size())))
	}
	if growth := l.store.growth(l.arenas); r.shared {
		if growth > r.budget.Left() {
			return l.tooLarge(growth, r.budget.Left())
		}
		return nil
	}
	if all > r.left() {
		return l.tooLarge(all, r.left())
	}
	err := r.budget.Take("", all-r.taken)
	if err == nil {
		r.taken = all
	}
	return err
}

// tooLarge says that arenas need more bytes than there are.
func (l *layout) tooLarge(bytes, left int64) error {
	alive := make([]int64, len(l.steps)+1)
	for _, d := range l.demands {
		for at := d.first; at <= d.last; at++ {
			alive[at] = add(alive[at], int64(d.elements)*int64(d.dtype.Size()))
		}
	}
	worst := slices.Index(alive, slices.Max(alive))
	step := &l.steps[min(worst, len(l.steps)-1)]
	largest, most := "", int64(-1)
	for _, v := range l.variables.order {
		if b := v.buffer; b != nil && b.first <= worst && worst <= b.last && v.name != "" && v.bytes() > most {
			largest, most = v.name, v.bytes()
		}
	}
	return fault.E(fault.TooLarge, fault.On(step.pieces[0].op), fault.Var(largest), fault.Gotf("temporaries of %d bytes, most of them in use when this op runs, %d of them for this variable", bytes, most),
		fault.Wantf("at most %d", left), fault.Hint("make batches smaller, or allow more memory if the machine has it"))
}

// checkMemory returns the bytes of what lasts. It refuses a plan that takes more than limit bytes.
func checkMemory(limit int64, request *Request, variables *variables, nodes []node) (lasting int64, err error) {
	most := func(total int64, op *program.Op, names []string) error {
		largest, bytes := "", int64(-1)
		for _, name := range names {
			if v := variables.named[name]; v != nil && v.bytes() > bytes {
				largest, bytes = name, v.bytes()
			}
		}
		return fault.E(fault.TooLarge, fault.On(op), fault.Var(largest), fault.Gotf("a plan of %d bytes or more, %d of them for this variable", total, bytes),
			fault.Wantf("at most %d", limit), fault.Hint("make batches smaller, or allow more memory if the machine has it"))
	}
	counted := map[*variable]bool{}
	for i := range nodes {
		op := nodes[i].op
		names := slices.Concat(op.InputNames(), op.OutputNames())
		var here int64
		seen := map[*variable]bool{}
		for _, name := range names {
			v := variables.named[name]
			if v == nil || seen[v] || counted[v] {
				continue
			}
			seen[v] = true
			switch v.place {
			case temporary:
				here = add(here, v.bytes())
			case own, fed, scoped:
				counted[v] = true
				if _, has := request.Scope.Find(name); v.place != scoped || !has {
					lasting = add(lasting, v.bytes())
				}
			}
		}
		if total := add(lasting, here); total > limit {
			return 0, most(total, op, names)
		}
	}
	return lasting, nil
}

// add adds sizes and stops at the largest.
func add(a, b int64) int64 {
	if b < 0 || a > 1<<62-b {
		return 1 << 62
	}
	return a + b
}
