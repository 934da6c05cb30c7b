package onnx

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/tensor"
)

func readFlatten(r *reader) error {
	axis := r.integer("axis", 1)
	if axis < 0 {
		axis += int64(len(r.dims(r.in(0))))
	}
	return r.last("flatten2", attrs{"axis": int32(axis)})
}

func readReshape(r *reader) error {
	var shape []int64
	if len(r.node.Input) == 2 {
		shape = r.known[r.node.Input[1]]
	}
	if shape != nil {
		shape = reshaped(r, r.in(0), shape)
	} else if list, ok := r.list(1); ok {
		shape = list
	} else {
		return r.err
	}
	if r.integer("allowzero", 0) != 0 && slices.Contains(shape, 0) {
		return unsupported("allowzero with an extent of 0", "a shape without 0")
	}
	return r.last("reshape2", attrs{"shape": ints32(shape)})
}

func readTranspose(r *reader) error {
	perm := r.integers("perm")
	if len(perm) == 0 {
		for i := len(r.dims(r.in(0))) - 1; i >= 0; i-- {
			perm = append(perm, int64(i))
		}
	}
	return r.last("transpose2", attrs{"axis": ints32(perm)})
}

func readConcat(r *reader) error {
	var all []string
	for i := range r.node.Input {
		all = append(all, r.in(i))
	}
	if r.err != nil {
		return r.err
	}
	return r.add("concat", map[string][]string{"X": all}, one("Out", r.out(0)), attrs{"axis": int32(r.integer("axis", 0))})
}

func readSplit(r *reader) error {
	x := r.in(0)
	sizes := r.integers("split")
	if given, ok := r.list(1); ok {
		sizes = given
	}
	a := attrs{"axis": int32(r.integer("axis", 0))}
	if len(sizes) > 0 {
		a["sections"] = ints32(sizes)
	} else {
		a["num"] = int32(len(r.node.Output))
	}
	if r.err != nil {
		return r.err
	}
	var out []string
	for i := range r.node.Output {
		out = append(out, r.out(i))
	}
	return r.add("split", one("X", x), map[string][]string{"Out": out}, a)
}

func readSlice(r *reader) error {
	starts, ends, axes := r.integers("starts"), r.integers("ends"), r.integers("axes")
	if r.opset >= 10 {
		starts, _ = r.list(1)
		ends, _ = r.list(2)
		axes, _ = r.list(3)
		if steps, ok := r.list(4); ok && slices.ContainsFunc(steps, func(n int64) bool { return n != 1 }) {
			return unsupported(fmt.Sprintf("steps %v", steps), "steps of 1")
		}
	}
	if len(axes) == 0 {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	x := r.in(0)
	for i := range axes {
		if axes[i] < 0 {
			axes = slices.Clone(axes)
			axes[i] += int64(len(r.dims(x)))
		}
	}
	if r.err != nil {
		return r.err
	}
	return r.add("slice", one("Input", x), one("Out", r.out(0)), attrs{"axes": ints32(axes), "starts": ints32(starts), "ends": ints32(ends)})
}

// axes returns the axes of a node: an attribute before opset 13, an input since.
func (r *reader) axes() []int64 {
	if list, ok := r.list(1); ok {
		return list
	}
	return r.integers("axes")
}

func readSqueeze(r *reader) error {
	return r.last("squeeze2", attrs{"axes": ints32(r.axes())})
}

func readUnsqueeze(r *reader) error {
	axes := slices.Clone(r.axes())
	for i, a := range axes {
		if a < 0 {
			axes[i] += int64(len(r.dims(r.in(0))) + len(axes))
		}
	}
	slices.Sort(axes)
	return r.last("unsqueeze2", attrs{"axes": ints32(axes)})
}

// readGather: rows of a parameter are looked up, so that they are trained as an embedding is.
func readGather(r *reader) error {
	x, index := r.in(0), r.in(1)
	axis := r.integer("axis", 0)
	if v, ok := r.block.Var(x); ok && v.IsParameter && axis == 0 && len(v.Dims) == 2 && r.metas[index].DType == tensor.Int64 {
		if r.err != nil {
			return r.err
		}
		return r.add("lookup_table_v2", map[string][]string{"W": {x}, "Ids": {index}}, one("Out", r.out(0)), nil)
	}
	if len(r.dims(index)) == 0 { // one place: its axis goes
		index = r.step("unsqueeze2", index, attrs{"axes": []int32{0}})
		between := r.fresh("gather")
		if r.err != nil {
			return r.err
		}
		if err := r.add("gather", map[string][]string{"X": {x}, "Index": {index}}, one("Out", between), attrs{"axis": int32(axis)}); err != nil {
			return err
		}
		return r.lastOf("squeeze2", between, attrs{"axes": []int32{int32(axis)}})
	}
	if len(r.dims(index)) != 1 {
		return unsupported(fmt.Sprintf("places of dims %v", r.dims(index)), "a list, or rows of a parameter")
	}
	if r.err != nil {
		return r.err
	}
	return r.add("gather", map[string][]string{"X": {x}, "Index": {index}}, one("Out", r.out(0)), attrs{"axis": int32(axis)})
}

func readArgMax(r *reader) error {
	if r.integer("select_last_index", 0) != 0 {
		return unsupported("select_last_index", "the first of equal elements")
	}
	return r.last("arg_max", attrs{"axis": r.integer("axis", 0), "keepdims": r.integer("keepdims", 1) != 0, "dtype": int32(3)})
}

func readTopK(r *reader) error {
	k := r.number(1, 1)
	x := r.in(0)
	if r.err != nil {
		return r.err
	}
	return r.add("top_k_v2", one("X", x), map[string][]string{"Out": {r.out(0)}, "Indices": {r.out(1)}},
		attrs{"k": int32(k), "axis": int32(r.integer("axis", -1)), "largest": r.integer("largest", 1) != 0})
}

func readTile(r *reader) error {
	times, ok := r.list(1)
	if !ok {
		return r.err
	}
	return r.last("tile", attrs{"repeat_times": ints32(times)})
}

// readResize takes what interpolations of Fluid compute: the nearest pixel rounded down, or linear with one of three ways to place pixels.
func readResize(r *reader) error {
	x := r.in(0)
	dims := r.dims(x)
	if len(dims) != 4 || dims[2] < 0 || dims[3] < 0 {
		return unsupported(fmt.Sprintf("images of dims %v", dims), "rank 4, with known heights and widths")
	}
	var height, width int64
	if sizes, ok := r.list(3); ok && len(sizes) == 4 {
		height, width = sizes[2], sizes[3]
	} else if t := r.values[r.in(2)]; t != nil && t.DType() == tensor.Float32 && t.Len() == 4 {
		height, width = int64(t.Float32s()[2]*float32(dims[2])), int64(t.Float32s()[3]*float32(dims[3]))
	} else {
		return unsupported("a size that the model computes", "constant scales or sizes of 4 axes")
	}
	text := func(name, other string) string {
		if a := r.attribute(name); a != nil {
			return string(a.GetS())
		}
		return other
	}
	mode, places := text("mode", "nearest"), text("coordinate_transformation_mode", "half_pixel")
	a := attrs{"out_h": int32(height), "out_w": int32(width), "align_corners": places == "align_corners", "align_mode": int32(1)}
	switch {
	case mode == "nearest" && places == "asymmetric" && text("nearest_mode", "round_prefer_floor") == "floor":
		a["interp_method"] = "nearest"
		return r.last("nearest_interp", a)
	case mode == "linear" && (places == "asymmetric" || places == "align_corners"):
		return r.last("bilinear_interp", a)
	case mode == "linear" && places == "half_pixel":
		a["align_mode"] = int32(0)
		return r.last("bilinear_interp", a)
	}
	return unsupported(fmt.Sprintf("mode %s with %s", mode, places), "linear, or nearest with asymmetric places rounded down")
}

// readPad: of images pad2d, of others pad, which knows constants alone.
func readPad(r *reader) error {
	pads := r.integers("pads")
	if r.opset >= 11 {
		pads, _ = r.list(1)
		if r.in(3) != "" {
			return unsupported("axes of the paddings", "paddings of all axes")
		}
	}
	value := r.float("value", 0)
	if r.opset >= 11 {
		value = r.number(2, 0)
	}
	mode := "constant"
	if a := r.attribute("mode"); a != nil {
		mode = string(a.GetS())
	}
	rank := len(r.dims(r.in(0)))
	if len(pads) != 2*rank || slices.ContainsFunc(pads, func(n int64) bool { return n < 0 }) {
		return unsupported(fmt.Sprintf("paddings %v of %d axes", pads, rank), "two numbers for each axis, at least 0")
	}
	if rank == 4 && pads[0] == 0 && pads[1] == 0 && pads[4] == 0 && pads[5] == 0 {
		return r.last("pad2d", attrs{"paddings": ints32([]int64{pads[2], pads[6], pads[3], pads[7]}), "mode": mode, "pad_value": float32(value)})
	}
	if mode != "constant" {
		return unsupported("mode "+mode, "constant, or heights and widths of images")
	}
	var both []int64
	for i := range rank {
		both = append(both, pads[i], pads[rank+i])
	}
	return r.last("pad", attrs{"paddings": ints32(both), "pad_value": float32(value)})
}
