package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// filled follows a fill_constant of the global block whose dims are computed, and reports whether it is one that has rows of records: one of its dims is the number of records, as shape of a
// variable says it, and the others do not depend on that number. All its elements are equal, so it keeps records apart along that axis. The first states of a network of Paddle 2
// ([layers, batch, width]) are filled so, and the places of words ([batch, length]).
func filled(d *division, op *program.Op) bool {
	if op.Type != "fill_constant" || d.inner || d.largest(op.Inputs["ValueTensor"]) != common {
		return false
	}
	at := -1
	if list := op.Inputs["ShapeTensorList"]; len(list) > 0 {
		for i, name := range list {
			switch of, known := countsRecords(d, name, 0); {
			case !known || of && at >= 0:
				return false
			case of:
				at = i
			}
		}
	} else if name := op.In("ShapeTensor"); name != "" {
		for i := 0; at < 0; i++ {
			of, known := countsRecords(d, name, i)
			if !known {
				return false
			}
			if of {
				at = i
			}
		}
	}
	if at < 0 {
		return false
	}
	d.set(op, op.Out("Out"), apart, at)
	return true
}

// countsRecords reports whether number i of a variable is the number of the records of the batch, and whether that is known: the ops that have written it are shape, slice and cast, or the
// number is constant.
func countsRecords(d *division, name string, i int) (records, known bool) {
	for range 4 {
		op := d.records.writer(name)
		if op == nil {
			return false, false
		}
		switch op.Type {
		case "fill_constant":
			return false, len(op.InputNames()) == 0
		case "shape":
			x := op.In("Input")
			if rank := d.rank(x); i >= rank || d.of[x] > apart || d.of[x] == steps || d.runs[x] > 1 || d.some[x] || d.chosen.rows[x] != "" {
				return false, false
			}
			return d.of[x] == apart && i == d.axis[x], true
		case "cast":
			name = op.In("X")
		case "slice":
			axes, _ := op.Ints("axes")
			starts, _ := op.Ints("starts")
			ends, _ := op.Ints("ends")
			if len(op.InputNames()) != 1 || !slices.Equal(axes, []int64{0}) || len(starts) != 1 || len(ends) != 1 || starts[0] < 0 || ends[0] >= 0 && starts[0]+int64(i) >= ends[0] {
				return false, false
			}
			name, i = op.In("Input"), i+int(starts[0])
			if m, ok := d.typeOf(name); !ok || len(m.Dims) != 1 || ends[0] < 0 && int64(i) >= m.Dims[0]+ends[0] {
				return false, false
			}
		default:
			return false, false
		}
	}
	return false, false
}

// writer returns the op of the forward pass that writes a variable, nil if there is not exactly one.
func (r *records) writer(name string) *program.Op {
	if name == "" || !r.once(name) {
		return nil
	}
	for _, op := range r.forward {
		if slices.Contains(op.OutputNames(), name) {
			return op
		}
	}
	return nil
}

// sameExtents reports whether a slice of the global block takes extents of a variable that is fed, and not the number of its records: a trainer has rows of the same extents as all others, as
// the height and width of images to which a result is scaled. Sequences are no such rows.
func sameExtents(d *division, op *program.Op) bool {
	shape := d.records.writer(op.In("Input"))
	m, ok := d.typeOf(op.Out("Out"))
	if d.inner || op.Type != "slice" || shape == nil || shape.Type != "shape" || !ok || len(m.Dims) != 1 || m.Dims[0] < 1 {
		return false
	}
	if x, ok := d.typeOf(shape.In("Input")); !ok || x.LoDLevel > 0 || !d.records.fed(shape.In("Input")) {
		return false
	}
	for i := range int(m.Dims[0]) {
		if records, known := countsRecords(d, op.Out("Out"), i); records || !known {
			return false
		}
	}
	return true
}
