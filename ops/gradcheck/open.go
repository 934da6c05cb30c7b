package gradcheck

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// openExtents infers op with the batch open and with every extent open; both must agree with what is known.
func openExtents(t *trace, op *program.Op) error {
	known, err := t.Infer(op)
	if err != nil {
		return err
	}
	if err := costs(known); err != nil {
		return err
	}
	for what, open := range map[string]func(axis int) bool{
		"batch":        func(axis int) bool { return axis == 0 },
		"every extent": func(int) bool { return true },
	} {
		s, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
			v, ok := t.Vars[name]
			if !ok {
				return ops.Meta{}, false
			}
			meta := ops.MetaOfValue(v)
			dims := slices.Clone(meta.Dims)
			for axis := range dims {
				if open(axis) && dims[axis] > 0 {
					dims[axis] = program.Unknown
				}
			}
			meta.Dims, meta.Sequences = dims, nil
			if meta.Kind == program.SelectedRows {
				meta.Rows = program.Unknown
			}
			return meta, true
		})
		if err != nil {
			return fmt.Errorf("with %s open: %w", what, err)
		}
		if err := costs(s); err != nil {
			return err
		}
		for slot := range op.Outputs {
			for i, m := range s.Outs(slot) {
				if want := known.Outs(slot)[i]; m.Kind != want.Kind || m.DType != want.DType || !ops.Compatible(m.Dims, want.Dims) {
					return fmt.Errorf("with %s open %s is %v, want %v", what, slot, m, want)
				}
			}
		}
	}
	return nil
}

// costs checks that the estimate of one run is not negative.
func costs(s *ops.Shapes) error {
	def, _ := ops.Lookup(s.Op().Type)
	if def.Cost == nil {
		return nil
	}
	if c := def.Cost(s); c.Flops < 0 || c.Bytes < 0 {
		return fmt.Errorf("negative cost %+v", c)
	}
	return nil
}
