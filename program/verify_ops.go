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
			if _, ok := b.resolve(name); !ok {
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

// checkSlots refuses names in the slots of an op of b that nothing declares.
func checkSlots(b *Block, slots map[string][]string, wrong func(kind fault.Kind, variable, got, want string)) {
	for _, slot := range sortedKeys(slots) {
		for _, name := range slots[slot] {
			if _, ok := b.resolve(name); name != Empty && !ok {
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
			wrong(fault.InvalidProgram, "", fmt.Sprintf("block %d in attribute %s", index, fault.Quote(name)), fmt.Sprintf("1 to %d", len(v.program.Blocks)-1))
		}
	}
}

// resolve finds a name as Find does and, in a block that is the gradient of another, also where that one finds it.
func (b *Block) resolve(name string) (*Var, bool) {
	if v, ok := b.Find(name); ok {
		return v, true
	}
	if b.Forward > NoBlock && b.Forward < len(b.program.Blocks) {
		return b.program.Blocks[b.Forward].Find(name)
	}
	return nil, false
}
