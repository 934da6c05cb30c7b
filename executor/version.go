package executor

import (
	"math"
	"reflect"
	"slices"

	"github.com/edl-go/edl/program"
)

// version names a program as it was at a time. A program that was changed has another number, in the same executor.
type version struct {
	program *program.Program
	number  uint64
}

// A versions knows the programs that were run last as they were then. Users may change every field of a program between two runs, so what it has to trust is a
// comparison.
type versions struct {
	known []remembered // the one that was used last at the end
	last  uint64       // number that was given
}

// A remembered is a program as it was when its number was given.
type remembered struct {
	version
	blocks []blockThen
}

// blockThen has of a block what a plan depends on. It shares strings with the program, and no memory that can change.
type blockThen struct {
	parent int
	vars   []program.Var
	ops    []opThen
}

type opThen struct {
	kind            string
	inputs, outputs []slotThen
	attrs           []attrThen
	all             int // attributes, with those that do not count
}

type slotThen struct {
	slot  string
	names []string
}

type attrThen struct {
	name  string
	value program.Attr
}

// of returns the version of p as it is now.
func (v *versions) of(p *program.Program) version {
	for i := len(v.known) - 1; i >= 0; i-- {
		r := v.known[i]
		if r.program != p {
			continue
		}
		if i != len(v.known)-1 {
			v.known = append(slices.Delete(v.known, i, i+1), r)
		}
		if !r.isStill(p) {
			r = v.remember(p)
			v.known[len(v.known)-1] = r
		}
		return r.version
	}
	if len(v.known) == cachedPlans {
		v.known = slices.Delete(v.known, 0, 1)
	}
	v.known = append(v.known, v.remember(p))
	return v.known[len(v.known)-1].version
}

func (v *versions) remember(p *program.Program) remembered {
	v.last++
	r := remembered{version: version{p, v.last}, blocks: make([]blockThen, len(p.Blocks))}
	for i, b := range p.Blocks {
		then := &r.blocks[i]
		then.parent = b.Parent
		for _, v := range b.Vars() {
			c := program.Var{Name: v.Name, Kind: v.Kind, DType: v.DType, Dims: slices.Clone(v.Dims), LoDLevel: v.LoDLevel, Persistable: v.Persistable}
			then.vars = append(then.vars, c)
		}
		for _, op := range b.Ops {
			then.ops = append(then.ops, opThen{op.Type, slotsThen(op.Inputs), slotsThen(op.Outputs), attrsThen(op.Attrs), len(op.Attrs)})
		}
	}
	return r
}

func slotsThen(slots map[string][]string) (list []slotThen) {
	for slot, names := range slots {
		list = append(list, slotThen{slot, slices.Clone(names)})
	}
	return list
}

func attrsThen(attrs map[string]program.Attr) (list []attrThen) {
	for name, value := range attrs {
		if name != program.AttrCallstack {
			list = append(list, attrThen{name, program.CloneAttr(value)})
		}
	}
	return list
}

// isStill reports whether nothing has changed that a plan depends on. The line of user code is no part of what a program computes.
func (r *remembered) isStill(p *program.Program) bool {
	if len(p.Blocks) != len(r.blocks) {
		return false
	}
	for i, b := range p.Blocks {
		then := &r.blocks[i]
		if b.Parent != then.parent || len(b.Ops) != len(then.ops) {
			return false
		}
		vars := b.Vars()
		if len(vars) != len(then.vars) {
			return false
		}
		for j, v := range vars {
			t := &then.vars[j]
			if v.Name != t.Name || v.Kind != t.Kind || v.DType != t.DType || v.LoDLevel != t.LoDLevel || v.Persistable != t.Persistable || !slices.Equal(v.Dims, t.Dims) {
				return false
			}
		}
		for j, op := range b.Ops {
			if !then.ops[j].isStill(op) {
				return false
			}
		}
	}
	return true
}

func (t *opThen) isStill(op *program.Op) bool {
	if op.Type != t.kind || len(op.Attrs) != t.all || !sameSlots(op.Inputs, t.inputs) || !sameSlots(op.Outputs, t.outputs) {
		return false
	}
	for i := range t.attrs {
		if value, ok := op.Attrs[t.attrs[i].name]; !ok || !sameAttr(value, t.attrs[i].value) {
			return false
		}
	}
	return true
}

func sameSlots(slots map[string][]string, then []slotThen) bool {
	if len(slots) != len(then) {
		return false
	}
	for i := range then {
		if names, ok := slots[then[i].slot]; !ok || !slices.Equal(names, then[i].names) {
			return false
		}
	}
	return true
}

// sameAttr compares values of attributes. Floats are the same if their bits are.
func sameAttr(a, b program.Attr) bool {
	switch b := b.(type) {
	case bool, int32, int64, string, program.BlockIndex:
		return a == b
	case float32:
		v, ok := a.(float32)
		return ok && math.Float32bits(v) == math.Float32bits(b)
	case float64:
		v, ok := a.(float64)
		return ok && math.Float64bits(v) == math.Float64bits(b)
	case []string:
		return sameList(a, b)
	case []int32:
		return sameList(a, b)
	case []int64:
		return sameList(a, b)
	case []bool:
		return sameList(a, b)
	case []float32:
		v, ok := a.([]float32)
		return ok && slices.EqualFunc(v, b, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
	case []float64:
		v, ok := a.([]float64)
		return ok && slices.EqualFunc(v, b, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
	}
	return reflect.DeepEqual(a, b)
}

func sameList[T comparable](a program.Attr, b []T) bool {
	v, ok := a.([]T)
	return ok && slices.Equal(v, b)
}
