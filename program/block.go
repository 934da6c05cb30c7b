package program

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
)

// NoBlock is the parent of a root block, and the forward block of a block that is no gradient.
const NoBlock = -1

// A Block is a scope of variables and a list of ops that run in order.
type Block struct {
	Index   int
	Parent  int // NoBlock for a root
	Forward int // the block that this one is the gradient of, or NoBlock
	Ops     []*Op

	vars    map[string]*Var
	order   []string // names in order of creation
	program *Program
	unknown []byte
}

// Program returns the program that the block belongs to.
func (b *Block) Program() *Program { return b.program }

// ParentBlock returns the enclosing block, or nil for a root.
func (b *Block) ParentBlock() *Block {
	if b.Parent < 0 || b.Parent >= len(b.program.Blocks) {
		return nil
	}
	return b.program.Blocks[b.Parent]
}

// Var returns a variable of this block itself.
func (b *Block) Var(name string) (*Var, bool) {
	v, ok := b.vars[name]
	return v, ok
}

// Find returns the variable that name means in this block: its own, or that of the nearest enclosing block. A cycle of
// parents, which a hostile file may hold, ends the search.
func (b *Block) Find(name string) (*Var, bool) {
	for hops := 0; b != nil && hops <= len(b.program.Blocks); hops++ {
		if v, ok := b.vars[name]; ok {
			return v, true
		}
		b = b.ParentBlock()
	}
	return nil, false
}

// Vars returns the variables of this block in the order of their creation.
func (b *Block) Vars() []*Var {
	vars := make([]*Var, 0, len(b.order))
	for _, name := range b.order {
		vars = append(vars, b.vars[name])
	}
	return vars
}

// AddVar adds a copy of v. A second variable of one name is an error.
func (b *Block) AddVar(v Var) (*Var, error) {
	if _, ok := b.vars[v.Name]; ok {
		return nil, fault.E(fault.InvalidProgram, fault.Var(v.Name), fault.Got("a second variable of this name in block "+fmt.Sprint(b.Index)),
			fault.Want("unique names"))
	}
	if b.vars == nil {
		b.vars = map[string]*Var{}
	}
	c := v.clone()
	b.vars[v.Name] = c
	b.order = append(b.order, v.Name)
	return c, nil
}

// EnsureVar returns the block's own variable of v's name, adding a copy of v when there is none.
func (b *Block) EnsureVar(v Var) *Var {
	if have, ok := b.vars[v.Name]; ok {
		return have
	}
	added, _ := b.AddVar(v)
	return added
}

// RemoveVar removes a variable of this block. Ops that name it are left as they are.
func (b *Block) RemoveVar(name string) {
	if _, ok := b.vars[name]; !ok {
		return
	}
	delete(b.vars, name)
	b.order = slices.DeleteFunc(b.order, func(n string) bool { return n == name })
}

// Append adds op at the end and returns it.
func (b *Block) Append(op *Op) *Op {
	b.Ops = append(b.Ops, op)
	return op
}

// Insert puts ops before position i of the list; i == len(b.Ops) appends.
func (b *Block) Insert(i int, ops ...*Op) {
	b.Ops = slices.Insert(b.Ops, i, ops...)
}
