package layers

import "github.com/edl-go/edl/fault"

// Squeeze removes axes of extent 1. Negative axes count from the end. Without axes it removes every axis of extent 1.
//
// Options: Axes, Name. Op: squeeze2.
func Squeeze(x Variable, opts ...Option) Variable {
	l := start("squeeze2", opts, []string{"Axes"}, x)
	return l.viewed("squeeze2", x, Attrs{"axes": l.axes})
}

// Unsqueeze inserts axes of extent 1: each number says where an axis of the result stands. Negative numbers count from the end.
//
// Options: Name. Op: unsqueeze2.
func Unsqueeze(x Variable, axes []int, opts ...Option) Variable {
	return start("unsqueeze2", opts, nil, x).viewed("unsqueeze2", x, Attrs{"axes": axes})
}

// Flatten makes a matrix of x: the first axes become its rows, and the others its columns. NumFlattenDims says how many axes are rows; the default is 1,
// the batch.
//
// Options: NumFlattenDims, Name. Op: flatten2.
func Flatten(x Variable, opts ...Option) Variable {
	l := start("flatten2", opts, []string{"NumFlattenDims"}, x)
	return l.viewed("flatten2", x, Attrs{"axis": l.flatten})
}

// viewed appends an op that has an output XShape for its gradient.
func (l *layer) viewed(opType string, x Variable, attrs Attrs) Variable {
	return l.result(l.multi(opType, In{"X": {x}}, attrs, "Out", "XShape")[0])
}

// Expand repeats x along its axes: axis i of the result has times[i] copies of x one after the other.
//
// Options: Name. Op: expand.
func Expand(x Variable, times []int, opts ...Option) Variable {
	l := start("expand", opts, nil, x)
	return l.result(l.op("expand", In{"X": {x}}, Attrs{"expand_times": times}, "Out"))
}

// ExpandAs gives x the dims of target: it repeats axes of extent 1, and adds axes before the first.
//
// Options: Name. Op: expand_as_v2.
func ExpandAs(x, target Variable, opts ...Option) Variable {
	l := start("expand_as_v2", opts, nil, x, target)
	return l.result(l.op("expand_as_v2", In{"X": {x}, "Y": {target}}, nil, "Out"))
}

// BroadcastTo gives x other extents: it repeats axes of extent 1, and adds axes before the first. A -1 keeps the extent of x.
//
// Options: Name. Op: expand_v2, which Paddle 2 calls expand.
func BroadcastTo(x Variable, dims []int64, opts ...Option) Variable {
	l := start("expand_v2", opts, nil, x)
	return l.result(l.op("expand_v2", In{"X": {x}}, Attrs{"shape": dims}, "Out"))
}

// Tile repeats x along its last axes: the last of times is for the last axis.
//
// Options: Name. Op: tile.
func Tile(x Variable, times []int, opts ...Option) Variable {
	l := start("tile", opts, nil, x)
	return l.result(l.op("tile", In{"X": {x}}, Attrs{"repeat_times": times}, "Out"))
}

// Stack puts variables of one shape side by side along a new axis, which a negative number counts from the end of the result.
//
// Options: Name. Op: stack.
func Stack(xs []Variable, axis int, opts ...Option) Variable {
	l := start("stack", opts, nil, xs...)
	return l.result(l.op("stack", In{"X": xs}, Attrs{"axis": axis}, "Y"))
}

// Unstack takes an axis of x apart: result i is what position i of it shows. The extent of the axis must be known. If x is poisoned, there are no results.
//
// Op: unstack.
func Unstack(x Variable, axis int, opts ...Option) []Variable {
	l := start("unstack", opts, nil, x)
	if !l.failed {
		axis, _ = l.resolveAxis(x, axis)
	}
	if l.failed {
		return nil
	}
	n := x.v.Dims[axis]
	if n < 1 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("an extent of %d on axis %d", n, axis), fault.Want("a known extent of at least 1")))
		return nil
	}
	slots := make([]string, n)
	for i := range slots {
		slots[i] = "Y"
	}
	return l.multi("unstack", In{"X": {x}}, Attrs{"axis": axis, "num": n}, slots...)
}

// Flip turns axes of x around. Negative axes count from the end. Fluid calls this layer reverse.
//
// Options: Name. Op: reverse.
func Flip(x Variable, axes []int, opts ...Option) Variable {
	l := start("reverse", opts, nil, x)
	return l.result(l.op("reverse", In{"X": {x}}, Attrs{"axis": axes}, "Out"))
}

// Roll moves the elements of x along axes, by one of shifts for each. What leaves an axis at its end comes in at its beginning.
//
// Options: Name. Op: roll.
func Roll(x Variable, shifts, axes []int, opts ...Option) Variable {
	l := start("roll", opts, nil, x)
	return l.result(l.op("roll", In{"X": {x}}, Attrs{"shifts": shifts, "axis": axes}, "Out"))
}

// BroadcastTensors gives variables the same dims: it repeats axes of extent 1, and adds axes before the first.
//
// Op: broadcast_tensors.
func BroadcastTensors(xs []Variable, opts ...Option) []Variable {
	return spread("broadcast_tensors", xs, opts)
}

// Meshgrid makes the coordinates of a grid from variables of rank 1: result k has xs[k] along axis k, the same for all places of the other axes.
//
// Op: meshgrid.
func Meshgrid(xs []Variable, opts ...Option) []Variable { return spread("meshgrid", xs, opts) }

func spread(opType string, xs []Variable, opts []Option) []Variable {
	l := start(opType, opts, nil, xs...)
	slots := make([]string, len(xs))
	for i := range slots {
		slots[i] = "Out"
	}
	return l.multi(opType, In{"X": xs}, nil, slots...)
}
