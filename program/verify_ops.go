package program

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
)

// op checks one op: names, attributes, references to blocks, and the rules of the registry.
func (v *verifier) op(b *Block, position int, op *Op) {
	var faults fault.List
	wrong := func(kind fault.Kind, variable, got, want string) {
		faults.Add(fault.E(kind, fault.Var(variable), fault.Got(got), fault.Want(want)))
	}
	if op.Type == "" {
		wrong(fault.InvalidProgram, "", "an op without a type", "a type")
	}
	checkSlots(b, op.Inputs, wrong)
	checkSlots(b, op.Outputs, wrong)
	for _, name := range sortedKeys(op.Attrs) {
		v.attr(op, name, wrong)
	}
	if pairs, ok := op.Strs(AttrRoleVar); ok {
		if len(pairs)%2 != 0 {
			wrong(fault.InvalidProgram, "", fmt.Sprintf("%d names in %s", len(pairs), AttrRoleVar), "pairs of parameter and gradient")
		}
		for _, name := range pairs {
			if _, ok := b.Find(name); !ok {
				wrong(fault.InvalidProgram, name, "a name in "+AttrRoleVar+" that is not declared", "a declared variable")
			}
		}
	}
	if v.spec.Ops != nil && op.Type != "" {
		faults = slices.Concat(faults, v.spec.Ops.CheckOp(b, op))
		if len(faults) == 0 {
			faults = v.spec.Ops.CheckTypes(b, op)
		}
	}
	for _, f := range faults {
		v.report.add(at(b, position, op, f))
	}
}

// checkSlots refuses names in the slots of an op of b that no block declares.
func checkSlots(b *Block, slots map[string][]string, wrong func(kind fault.Kind, variable, got, want string)) {
	for _, slot := range sortedKeys(slots) {
		for _, name := range slots[slot] {
			if _, ok := b.Find(name); name != Empty && !ok {
				wrong(fault.InvalidProgram, name, "a name in slot "+fault.Quote(slot)+" that neither the block nor an enclosing one declares",
					"a declared variable")
			}
		}
	}
}

func (v *verifier) attr(op *Op, name string, wrong func(kind fault.Kind, variable, got, want string)) {
	value := op.Attrs[name]
	if _, ok := attrType(value); !ok {
		wrong(fault.TypeMismatch, "", fmt.Sprintf("attribute %s of %s", fault.Quote(name), AttrTypeName(value)), "a type that program.Attr lists")
	}
	var references []BlockIndex
	switch value := value.(type) {
	case BlockIndex:
		references = []BlockIndex{value}
	case []BlockIndex:
		references = value
	}
	for _, index := range references {
		if index <= 0 || int(index) >= len(v.program.Blocks) {
			want := "no such attribute, as the program has one block"
			switch last := len(v.program.Blocks) - 1; last {
			case 0:
			case 1:
				want = "block 1, the only one that an op can run"
			default:
				want = fmt.Sprintf("1 to %d", last)
			}
			wrong(fault.InvalidProgram, "", fmt.Sprintf("block %d in attribute %s", index, fault.Quote(name)), want)
		}
	}
}

// flow checks that ops write tensors before other ops read them, in the order of a run: the global block from its first op on, and each sub-block
// at the position of the op that owns it. Blocks that nothing refers to come last.
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
			if variable, ok := b.Find(name); ok {
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
			variable, ok := b.Find(name)
			if !ok || f.available(b, op, variable) {
				continue
			}
			got, want := "a variable that no op writes", "a feed, a persistable variable, or an op that computes it"
			if f.somewhere[variable] {
				got, want = "a variable that is written later only", "an op before this one that writes it"
			}
			f.report.add(at(b, i, op, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got(got), fault.Want(want))))
			f.written[variable] = true // report it only once
		}
		for _, index := range op.SubBlocks() {
			if f.isBlock(int(index)) {
				f.block(f.program.Blocks[index])
			}
		}
		f.write(b, op, f.written)
	}
}

// available reports whether the variable can have a value when op of block b reads it.
func (f *flow) available(b *Block, op *Op, variable *Var) bool {
	switch {
	case variable.Kind != LoDTensor && variable.Kind != SelectedRows: // readers and lists have no writers
		return true
	case variable.Persistable, variable.NeedCheckFeed, f.written[variable], f.given[variable]:
		return true
	case f.spec.Fed && f.program.Global().vars[variable.Name] == variable:
		if !f.somewhere[variable] || slices.Contains(op.OutputNames(), variable.Name) { // or the op changes a feed in place
			return true
		}
	}
	// The gradient of a block runs on the values that the block left.
	return b.Forward != NoBlock
}
