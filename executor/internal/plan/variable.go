package plan

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A place says where the value of a variable lives.
type place int

const (
	temporary place = iota // in the arena, for as long as pieces touch it
	own                    // in memory of its own, which can be read after the run
	fed                    // in the tensor that was fed
	scoped                 // in the scope
	dynamic                // in memory of its own, which grows: the dims are known only when the kernel that writes it has run
	valueless              // nowhere: readers and other variables that are not tensors. Some have a value of another kind
)

// A variable is what the stages know about one name.
type variable struct {
	name        string
	meta        ops.Meta // dims are concrete
	place       place
	rows        *variable // of program.SelectedRows: the numbers of its rows. A piece that touches the variable touches these, too
	viewOf      *variable // the variable whose elements it shares; nil if it has elements of its own
	offset      int       // of its elements in those of viewOf
	partial     bool      // it is a view of some elements only
	first, last int       // pieces that touch it; last counts pieces that use it after their kernel returned
	writer      int       // first piece that writes it; -1 for none
	made        bool      // an op of the plan gives it its dims, also if no piece writes it because it has no elements
	buffer      *buffer
	tensor      *tensor.Tensor
	value       any // of one that is no tensor; see ops.NewValue
	span        span

	walk    int            // of the inference, that has met it last (again.go)
	changed int            // the last walk in which its type has changed
	laid    int            // the last walk whose dims its tensor has got
	room    *tensor.Tensor // of one in memory of its own that has had other dims: a vector, of which it has the first elements
}

// hasDims reports whether the plan gives a variable of the scope its dims.
func (v *variable) hasDims() bool { return v.place == scoped && (v.made || v.writer >= 0) }

func (v *variable) elements() int { return max(0, int(ops.Product(v.meta.Stored()))) }

func (v *variable) bytes() int64 {
	if v.place == valueless {
		return 0
	}
	return int64(v.elements()) * int64(v.meta.DType.Size())
}

// showSequences gives the tensor of a variable a LoD with the right number of sequences, because kernels read it when they are bound.
func (v *variable) showSequences() {
	if v.meta.LoDLevel == 0 || v.tensor == nil || v.place == dynamic || len(v.tensor.LoD()) == v.meta.LoDLevel {
		return
	}
	if v.meta.LoD != nil {
		v.tensor.SetLoD(v.meta.LoD)
		return
	}
	lod := make([][]int64, len(v.meta.Sequences))
	for i, n := range v.meta.Sequences {
		lod[i] = make([]int64, n+1)
	}
	v.tensor.SetLoD(lod)
}

// shareElements makes one tensor refer to the elements of another, and keeps its LoD, which may differ.
func shareElements(t, from *tensor.Tensor) error {
	lod := t.LoD()
	err := tensor.Share(t, from)
	t.SetLoD(lod)
	return err
}

// A variables is the table of all variables of a compilation. The first stage fills it; later stages add the scratch memory of ops.
type variables struct {
	named map[string]*variable
	order []*variable // in the order in which ops touch them; scratch memory of an op is a variable without a name

	dynamic bool // some variable has dims that are known only when the op that writes it has run
}

// add records a variable. One with an empty name is found in order only.
func (t *variables) add(name string, meta ops.Meta, where place) *variable {
	v := &variable{name: name, meta: meta, place: where}
	if name != "" {
		t.named[name] = v
	}
	t.order = append(t.order, v)
	t.dynamic = t.dynamic || where == dynamic
	return v
}

// An opTensors has the tensors of the slots of an op. A variable has the same tensor for all dims, so they are found once.
type opTensors struct {
	op      *program.Op
	in, out map[string][]*tensor.Tensor
}

// tensorsOf returns the tensors of the op of a node.
func (t *variables) tensorsOf(n *node) *opTensors {
	if n.tensors == nil || n.tensors.op != n.op {
		n.tensors = &opTensors{n.op, t.tensors(n.op.Inputs), t.tensors(n.op.Outputs)}
	}
	return n.tensors
}

// tensors returns the tensors of the variables in some slots; nil for an empty name.
func (t *variables) tensors(slots map[string][]string) map[string][]*tensor.Tensor {
	bound := make(map[string][]*tensor.Tensor, len(slots))
	for slot, names := range slots {
		list := make([]*tensor.Tensor, len(names))
		for i, name := range names {
			if name != program.Empty {
				list[i] = t.named[name].tensor
			}
		}
		bound[slot] = list
	}
	return bound
}

// list returns the variables in some slots, each once, sorted by name. If some is nil, it takes all slots.
func (t *variables) list(slots map[string][]string, some []string) []*variable {
	var list []*variable
	for slot, names := range slots {
		if some != nil && !slices.Contains(some, slot) {
			continue
		}
		for _, name := range names {
			if v := t.named[name]; name != program.Empty && !uses(list, v) {
				list = append(list, v)
				if v.rows != nil {
					list = append(list, v.rows)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *variable) int { return cmp.Compare(a.name, b.name) })
	return list
}

// followers returns the tensors that have the LoD of a feed.
func (t *variables) followers(of *variable) []sequenced {
	var list []sequenced
	for _, v := range t.order {
		if v.meta.LoDLevel > 0 && v.meta.LoDOf == of.name && v.tensor != nil {
			list = append(list, sequenced{v.tensor, v.meta.LoDLevel})
		}
	}
	return list
}

// uses reports whether v is in list.
func uses(list []*variable, v *variable) bool { return slices.Contains(list, v) }

// A span is a piece of memory: elements [from, to) of a space. Pieces of different spaces never overlap.
type span struct {
	space    int
	from, to int
}

func (a span) overlaps(b span) bool { return a.space == b.space && a.from < b.to && b.from < a.to }

// A spaces is the number of the space that was made last.
type spaces int

// next makes a space of n elements, at least one, and returns all of it.
func (s *spaces) next(n int) span {
	*s++
	return span{space: int(*s), to: max(n, 1)}
}
