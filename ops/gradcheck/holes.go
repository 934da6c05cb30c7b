package gradcheck

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// unwanted runs op with one output after the other replaced by a hole; the others must keep their bits. Random ops are left
// out, because the name of an output is what they draw by.
func unwanted(t *trace, op *program.Op) error {
	if def, _ := ops.Lookup(op.Type); def.Class == ops.Random {
		return nil
	}
	whole := t.copyFor(op)
	if err := whole.Run(context.Background(), op); err != nil {
		return err
	}
	for slot, names := range op.Outputs {
		for i, name := range names {
			if name == program.Empty {
				continue
			}
			without := op.Clone()
			without.Outputs[slot][i] = program.Empty
			part := t.copyFor(op)
			if err := part.Run(context.Background(), without); err != nil {
				return fmt.Errorf("without %s: %w", name, err)
			}
			for _, other := range without.OutputNames() {
				if err := sameBits(part.Vars[other], whole.Vars[other]); err != nil {
					return fmt.Errorf("%s without %s: %w", other, name, err)
				}
			}
		}
	}
	return nil
}
