package program

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

// flow checks that tensors are written before they are read, in the order in which ops run: the global block from its first op on, and
// sub-blocks where the op stands that owns them. Blocks that nothing refers to come last.
func (v *verifier) flow() {
	f := flow{verifier: v, somewhere: map[*Var]bool{}, written: map[*Var]bool{}, entered: make([]bool, len(v.program.Blocks))}
	for _, b := range v.program.Blocks {
		for _, op := range b.Ops {
			f.write(b, op, f.somewhere)
		}
	}
	for _, b := range v.program.Blocks {
		f.block(b)
	}
}

type flow struct {
	*verifier
	somewhere map[*Var]bool // some op writes it
	written   map[*Var]bool // by the ops so far
	entered   []bool
}

func (f *flow) write(b *Block, op *Op, into map[*Var]bool) {
	for _, args := range op.Outputs {
		for _, name := range args {
			if variable, ok := b.resolve(name); ok {
				into[variable] = true
			}
		}
	}
}

func (f *flow) block(b *Block) {
	if f.entered[b.Index] {
		return
	}
	f.entered[b.Index] = true
	for i, op := range b.Ops {
		for _, name := range op.InputNames() {
			variable, ok := b.resolve(name)
			if !ok || f.available(b, op, variable) {
				continue
			}
			got, want := "a variable that no op writes", "a feed, a persistable variable, or an op that computes it"
			if f.somewhere[variable] {
				got, want = "a variable that is written later only", "an op before this one that writes it"
			}
			f.report.add(at(b, i, op, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got(got), fault.Want(want))))
			f.written[variable] = true // once is enough
		}
		for _, index := range op.SubBlocks() {
			if f.isBlock(int(index)) {
				f.block(f.program.Blocks[index])
			}
		}
		f.write(b, op, f.written)
	}
}

// available reports whether the variable can hold a value when op of block b reads it.
func (f *flow) available(b *Block, op *Op, variable *Var) bool {
	switch {
	case variable.Kind != LoDTensor && variable.Kind != SelectedRows: // readers and lists are filled by other means
		return true
	case variable.Persistable, variable.NeedCheckFeed, f.written[variable]:
		return true
	case f.spec.Fed && f.program.Global().vars[variable.Name] == variable:
		if !f.somewhere[variable] || slices.Contains(op.OutputNames(), variable.Name) { // or a feed that is changed in place
			return true
		}
	}
	// The gradient of a block runs on the values that the block left.
	return b.Forward != NoBlock
}
