package onnx

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Models of systems that trace compute shapes of shapes: the batch of an input, times the heads, beside a constant. fold computes them while a model is read, so
// that what is left takes constants. A list that fold knows is a list of extents, or one extent.
const (
	open    = program.Unknown     // an open extent of an input
	derived = program.Unknown - 1 // a number that is computed from one

	// mostFolded is how many numbers of its inputs a node may take together: lists that are joined with themselves would grow beyond the file.
	mostFolded = 64
)

// fold computes the node if it is arithmetic of extents. It reports whether it has done so.
func fold(r *reader) (bool, error) {
	if r.node.GetOpType() == "Shape" && len(r.node.Input) == 1 && len(r.node.Attribute) == 0 {
		x := r.in(0)
		if r.err != nil {
			return false, r.err
		}
		return true, learn(r, slices.Clone(r.dims(x)))
	}
	var lists [][]int64
	fromShape, numbers := false, 0
	for _, name := range r.node.Input {
		list, ok := r.known[name]
		fromShape = fromShape || ok
		if t := r.values[r.names[name]]; !ok && t != nil && t.DType() == tensor.Int64 && len(t.Dims()) <= 1 {
			list, ok = t.Int64s(), true
		}
		if numbers += len(list); !ok || numbers > mostFolded {
			return false, nil
		}
		lists = append(lists, list)
	}
	if !fromShape || len(lists) == 0 {
		return false, nil
	}
	switch kind := r.node.GetOpType(); {
	case slices.Contains([]string{"Identity", "Unsqueeze", "Squeeze"}, kind):
		return true, learn(r, lists[0])
	case kind == "Cast" && r.integer("to", 0) == int64(elementTypes[tensor.Int64]):
		return true, learn(r, lists[0])
	case kind == "Concat":
		return true, learn(r, slices.Concat(lists...))
	case kind == "Gather" && len(lists) == 2:
		return true, pick(r, lists[0], lists[1])
	case kind == "Slice" && len(lists) >= 3 && len(lists[1]) == 1 && len(lists[2]) == 1 && (len(lists) < 5 || slices.Equal(lists[4], []int64{1})):
		n := int64(len(lists[0]))
		from, to := place(lists[1][0], n), place(lists[2][0], n)
		return true, learn(r, lists[0][min(from, to):to])
	case len(lists) == 2 && len(lists[0]) == 1 && len(lists[1]) == 1:
		v, ok := calculate(kind, lists[0][0], lists[1][0])
		if ok {
			return true, learn(r, []int64{v})
		}
	}
	return false, nil
}

// place is where a slice of n elements begins or ends.
func place(at, n int64) int64 {
	if at < 0 {
		at += n
	}
	return min(max(at, 0), n)
}

func pick(r *reader, list, places []int64) error {
	var chosen []int64
	for _, p := range places {
		if p < 0 {
			p += int64(len(list))
		}
		if p < 0 || p >= int64(len(list)) {
			return fault.E(fault.InvalidArgument, fault.Gotf("place %d of %d extents", p, len(list)), fault.Want("one that is there"))
		}
		chosen = append(chosen, list[p])
	}
	return learn(r, chosen)
}

// calculate computes with two extents. What follows from an open one is open, too, but is not the same number.
func calculate(kind string, a, b int64) (v int64, ok bool) {
	switch {
	case kind != "Mul" && kind != "Div" && kind != "Add" && kind != "Sub":
		return 0, false
	case b == 1 && (kind == "Mul" || kind == "Div"), b == 0 && (kind == "Add" || kind == "Sub"):
		return a, true
	case a < 0 || b < 0:
		return derived, true
	case kind == "Mul":
		return a * b, a < 1<<31 && b < 1<<31
	case kind == "Add":
		return a + b, true
	case kind == "Sub":
		return a - b, a >= b
	}
	if b == 0 {
		return 0, false
	}
	return a / b, true
}

// learn remembers the list that the node computes.
func learn(r *reader, list []int64) error {
	if len(r.node.Output) != 1 {
		return fault.E(fault.InvalidArgument, fault.Gotf("%d outputs", len(r.node.Output)), fault.Want("one"))
	}
	r.known[r.node.Output[0]] = list
	return nil
}

// reshaped gives a known list the form of Reshape's attribute: 0 for an open extent that stays where it was, and -1 for one number that follows from the others.
func reshaped(r *reader, x string, list []int64) []int64 {
	list = slices.Clone(list)
	dims := r.dims(x)
	unknown := 0
	for _, n := range list {
		if n < 0 {
			unknown++
		}
	}
	for i, n := range list {
		switch {
		case n == open && unknown > 1 && r.openExtents == 1 && i < len(dims) && dims[i] == open:
			list[i] = 0
			unknown--
		case n == derived:
			list[i] = -1
		}
	}
	return list
}
