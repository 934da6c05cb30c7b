package layers

import (
	"github.com/edl-go/edl/fault"
)

// Concat joins variables along an axis, counted from the end when negative.
func Concat(xs []Variable, axis int, opts ...Option) Variable {
	l := start("concat", opts, nil, xs...)
	if l.failed {
		return l.fail()
	}
	axis, _ = l.resolveAxis(xs[0], axis)
	return l.result(l.op("concat", In{"X": xs}, Attrs{"axis": axis}, "Out"))
}

// Split divides x into parts of equal size along an axis. A negative axis counts from the end. If x is poisoned, so are the results.
func Split(x Variable, parts, axis int, opts ...Option) []Variable {
	return split(x, parts, axis, Attrs{"num": parts}, opts)
}

// SplitSections divides x into parts of the given sizes along an axis.
func SplitSections(x Variable, sections []int64, axis int, opts ...Option) []Variable {
	return split(x, len(sections), axis, Attrs{"sections": sections}, opts)
}

func split(x Variable, parts, axis int, attrs Attrs, opts []Option) []Variable {
	l := start("split", opts, nil, x)
	if !l.failed && parts < 1 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d parts", parts), fault.Want("at least 1")))
	}
	if !l.failed {
		attrs["axis"], _ = l.resolveAxis(x, axis)
	}
	slots := make([]string, max(parts, 0))
	for i := range slots {
		slots[i] = "Out"
	}
	return l.multi("split", In{"X": {x}}, attrs, slots...)
}

// Reshape gives the elements of x other dims. A 0 keeps the extent of x on that axis. One -1 takes what remains.
//
// Options: Act, Name. Op: reshape2.
func Reshape(x Variable, dims []int64, opts ...Option) Variable {
	l := start("reshape2", opts, []string{"Act"}, x)
	out := l.multi("reshape2", In{"X": {x}}, Attrs{"shape": dims}, "Out", "XShape")
	return l.result(l.activate(out[0]))
}

// Transpose reorders the axes: axis i of the result is axis order[i] of x. Op: transpose2.
func Transpose(x Variable, order []int, opts ...Option) Variable {
	l := start("transpose2", opts, nil, x)
	out := l.multi("transpose2", In{"X": {x}}, Attrs{"axis": order}, "Out", "XShape")
	return l.result(out[0])
}
