package program

// attrSparse is the attribute of a lookup by which its gradient has only the rows that were looked up.
const attrSparse = "is_sparse"

// MakeDense makes the gradient that op computes dense, if it has the choice.
func MakeDense(op *Op) {
	if sparse, ok := op.Bool(attrSparse); ok && sparse {
		op.SetAttr(attrSparse, false)
	}
}

// makeDense makes gradients dense that runs of a block add up, where Fluid collects rows: how many they are together is known only when the runs have ended. On a cluster trainers hold such a
// table, even if it is distributed.
func makeDense(p *Program) {
	for _, b := range p.Blocks[1:] {
		for _, op := range b.Ops {
			if sparse, _ := op.Bool(attrSparse); !sparse || !op.Role().Has(RoleBackward) {
				continue
			}
			MakeDense(op)
			for _, name := range op.OutputNames() {
				if v, ok := b.Var(name); ok && v.Kind == SelectedRows {
					v.Kind = LoDTensor
				}
			}
		}
	}
}
