package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/program"
)

// turns reports whether an op moves the records to another axis, or reads what has them there.
func (d *division) turns(op *program.Op, def *Def) bool {
	if d.largest(op.InputNames()) != apart {
		return false
	}
	to, _ := op.Int("output_dim_idx")
	return op.Type == "transpose" || op.Type == "transpose2" || def.RecordsAlong != nil || op.Type == "fill_constant_batch_size_like" && to != 0 || d.stacksBefore(op) || d.reshaped(op, 0) > 0 || slices.ContainsFunc(op.InputNames(), func(name string) bool { return d.axis[name] != 0 })
}

// stacksBefore reports whether an op puts variables that all have the rows of the batch beside one another along a new axis before them.
func (d *division) stacksBefore(op *program.Op) bool {
	axis, _ := op.Int("axis")
	return op.Type == "stack" && axis == 0 && !slices.ContainsFunc(op.InputNames(), func(name string) bool { return d.of[name] != apart })
}

// turn follows an op whose records lie along another axis than axis 0, or get there. It knows ops that transpose, that compute each element by itself, that work along other axes, and those
// whose definition says where records lie. Any other op mixes the records.
func (d *division) turn(op *program.Op, def *Def) {
	if def.RecordsAlong != nil {
		d.turnSlots(op, def)
		return
	}
	at, share := -1, apart
	for _, name := range op.InputNames() {
		switch {
		case d.of[name] != apart:
		case at < 0:
			at = spread(d, op, name)
		case at != spread(d, op, name):
			share = mixed
		}
	}
	if op.Type == "fill_constant_batch_size_like" {
		from, _ := op.Int("input_dim_idx")
		to, _ := op.Int("output_dim_idx")
		if from != int64(at) {
			share = mixed
		}
		at = int(to)
	} else if keepsOrder(op) {
		if at = d.reshaped(op, at); at < 0 {
			share = mixed
		}
	} else if move := alongAxes[op.Type]; move != nil {
		if at = move(d, op, at); at < 0 {
			share = mixed
		}
	} else if def.Class != Compute || !def.RowSliced {
		share = mixed
	}
	d.write(op, op.OutputNames(), share, false)
	for _, name := range op.OutputNames() {
		if share == apart && at > 0 {
			d.axis[name] = at
		}
	}
}

// spread returns along which axis of the result the records of an input lie, where op spreads Y over the axes of X that Y lacks.
func spread(d *division, op *program.Op, name string) int {
	at := d.axis[name]
	x, y := op.In("X"), op.In("Y")
	if name != y || x == y || !strings.HasPrefix(op.Type, "elementwise_") || d.rank(x) <= d.rank(y) || d.rank(y) == 0 {
		return at
	}
	if axis, ok := op.Int("axis"); ok && axis >= 0 {
		return at + int(axis)
	}
	return at + d.rank(x) - d.rank(y)
}

// alongAxes says for some ops which axis has the records afterwards, of those that lie along axis at before. It is -1 if the op mixes them, or if attributes do not
// tell: axes that count from the end need the rank.
var alongAxes = map[string]func(d *division, op *program.Op, at int) int{
	"transpose": transposed, "transpose2": transposed,
	"slice": sliced, "strided_slice": sliced,
	"squeeze": squeezed, "squeeze2": squeezed, "unsqueeze": squeezed, "unsqueeze2": squeezed,
	"split": sameAxis, "concat": sameAxis, "reverse": sameAxis, "flip": sameAxis,
	"unstack": func(_ *division, op *program.Op, at int) int {
		axis, _ := op.Int("axis")
		return without(at, []int64{axis})
	},
	"stack": func(_ *division, op *program.Op, at int) int {
		axis, _ := op.Int("axis")
		switch {
		case axis < 0:
			return -1
		case axis <= int64(at):
			return at + 1
		}
		return at
	},
	"reduce_sum": reduced, "reduce_mean": reduced, "reduce_max": reduced, "reduce_min": reduced,
	"lookup_table": func(_ *division, _ *program.Op, at int) int { return at },
	"mul": func(d *division, op *program.Op, at int) int {
		columns, _ := op.Int("x_num_col_dims")
		if d.of[op.In("Y")] == apart || int64(at) >= max(columns, 1) {
			return -1
		}
		return at
	},
	"matmul": multiplied, "matmul_v2": multiplied,
	"softmax": func(d *division, op *program.Op, at int) int {
		axis, ok := op.Int("axis")
		if !ok {
			axis = -1
		}
		return fromStart(axis, at, d.rank(op.In("X")))
	},
}

// reshaped returns which axis has the records after an op that gives elements other dims and keeps their order, -1 if that is not known or if none has them: the axis before
// which there are as many elements, and which has twice the extent in a batch of twice the records.
func (d *division) reshaped(op *program.Op, at int) int {
	if !keepsOrder(op) {
		return -1
	}
	x, two := d.records.known(1)[op.In("X")], d.records.known(2)[op.In("X")]
	out, outTwo := d.records.known(1)[op.Out("Out")], d.records.known(2)[op.Out("Out")]
	if at >= len(x.Dims) || len(out.Dims) == 0 || len(out.Dims) != len(outTwo.Dims) || len(x.Dims) != len(two.Dims) || two.Dims[at] != 2*x.Dims[at] || x.LoDLevel > 0 {
		return -1
	}
	before := Product(x.Dims[:at])
	for i := range out.Dims {
		if out.Dims[i] != outTwo.Dims[i] {
			if before < 1 || outTwo.Dims[i] != 2*out.Dims[i] || Product(out.Dims[:i]) != before || !slices.Equal(out.Dims[i+1:], outTwo.Dims[i+1:]) {
				return -1
			}
			return i
		}
	}
	return -1
}

func transposed(_ *division, op *program.Op, at int) int {
	order, _ := op.Ints("axis")
	return slices.Index(order, int64(at))
}

// WholeAxis is an end of a slice that leaves no element of an axis out, as programs of Paddle write it where they mean all: 1e9 or the largest int32. No axis that records lie along is
// as long.
const WholeAxis = 1e9

func sliced(d *division, op *program.Op, at int) int {
	axes, ok := positive(d, op.In("Input"), op, "axes")
	gone, known := positive(d, op.In("Input"), op, "decrease_axis")
	if !ok || !known || slices.Contains(axes, int64(at)) && !whole(op, slices.Index(axes, int64(at))) {
		return -1
	}
	return without(at, gone)
}

// whole reports whether a slice takes all of its axis number i, by attributes alone.
func whole(op *program.Op, i int) bool {
	starts, _ := op.Ints("starts")
	ends, _ := op.Ints("ends")
	strides, has := op.Ints("strides")
	return len(op.InputNames()) == 1 && i < len(starts) && i < len(ends) && starts[i] == 0 && ends[i] >= WholeAxis && (!has || i < len(strides) && strides[i] == 1)
}

// positive returns the axes of an attribute, counted from the start. It reports false if some count from the end and the rank of x is not known.
func positive(d *division, x string, op *program.Op, attribute string) ([]int64, bool) {
	axes, _ := op.Ints(attribute)
	axes = slices.Clone(axes)
	for i := range axes {
		if axes[i] < 0 {
			axes[i] += int64(d.rank(x))
		}
	}
	return axes, !slices.ContainsFunc(axes, func(axis int64) bool { return axis < 0 })
}

// squeezed is of ops that take away or add axes of extent 1. Without a list of them dims say which axes go.
func squeezed(d *division, op *program.Op, at int) int {
	axes, _ := op.Ints("axes")
	axis := at
	for i, a := range axes {
		comes := strings.HasPrefix(op.Type, "un")
		if a < 0 && d.rank(op.In("X")) > 0 { // it counts from the end of what there is, with the axes before it in the list
			a += int64(d.rank(op.In("X")))
			if comes {
				a += int64(i) + 1
			}
		}
		switch {
		case a < 0 || !comes && int(a) == at:
			return -1
		case comes && int(a) <= axis:
			axis++
		case !comes && int(a) < at:
			axis--
		}
	}
	if len(axes) == 0 {
		return -1
	}
	return axis
}

// sameAxis is of ops that work along axis, and keep all axes.
func sameAxis(d *division, op *program.Op, at int) int {
	axes, ok := op.Ints("axis")
	if axis, one := op.Int("axis"); one {
		axes, ok = []int64{axis}, true
	}
	for _, axis := range axes {
		if fromStart(axis, at, d.rank(op.In("X"))) < 0 {
			return -1
		}
	}
	if !ok {
		return -1
	}
	return at
}

func reduced(d *division, op *program.Op, at int) int {
	axes, ok := positive(d, op.In("X"), op, "dim")
	all, _ := op.Bool("reduce_all")
	left := without(at, axes)
	if keeps, _ := op.Bool("keep_dim"); keeps && left >= 0 {
		left = at
	}
	if all || !ok || len(axes) == 0 {
		return -1
	}
	return left
}

// multiplied is of products of matrices, which are the last two axes.
func multiplied(d *division, op *program.Op, at int) int {
	x, y := d.rank(op.In("X")), d.rank(op.In("Y"))
	if at >= x-2 || d.of[op.In("X")] != apart || y != x && (y != 2 || d.of[op.In("Y")] == apart) {
		return -1
	}
	return at
}

// fromStart returns at if it is not the axis that may count from the end of rank axes, and -1 if it is, or if the rank is not known.
func fromStart(axis int64, at, rank int) int {
	if axis < 0 && rank > 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis == int64(at) {
		return -1
	}
	return at
}

// without returns which axis at is when some axes are gone, -1 if it is one of them or if one counts from the end.
func without(at int, axes []int64) int {
	left := at
	for _, axis := range axes {
		switch {
		case axis < 0 || axis == int64(at):
			return -1
		case axis < int64(at):
			left--
		}
	}
	return left
}

// turnSlots follows an op whose definition says along which axes of its slots the records lie.
func (d *division) turnSlots(op *program.Op, def *Def) {
	share := apart
	for slot, names := range op.Inputs {
		axis, has := def.RecordsAlong[slot]
		for _, name := range names {
			if d.of[name] == apart && (!has || d.axis[name] != axis) {
				share = mixed
			}
		}
	}
	d.write(op, op.OutputNames(), share, false)
	for slot, axis := range def.RecordsAlong {
		for _, name := range op.Outputs[slot] {
			if share == apart && axis > 0 && name != program.Empty {
				d.axis[name] = axis
			}
		}
	}
}
