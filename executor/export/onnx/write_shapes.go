package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// shapeOps are the ops that move elements and compute none.
var shapeOps = map[string]func(*call) error{
	"reshape": reshape, "reshape2": reshape, "flatten": flatten, "flatten2": flatten, "flatten_contiguous_range": flattenRange,
	"squeeze": squeeze, "squeeze2": squeeze, "unsqueeze": unsqueeze, "unsqueeze2": unsqueeze,
	"transpose": transpose, "transpose2": transpose, "concat": concat, "split": split, "slice": slice, "stack": stack,
	"expand": expand, "tile": expand, "gather": gather, "pad2d": pad2d, "one_hot": oneHot, "one_hot_v2": oneHot,
	"arg_max": argMax, "top_k": topK, "top_k_v2": topK, "nearest_interp": resize, "bilinear_interp": resize, "nearest_interp_v2": resize, "bilinear_interp_v2": resize,
}

func reshape(c *call) error {
	if err := c.noTensors("Shape", "ShapeTensor"); err != nil {
		return err
	}
	return c.last("Out", "Reshape", []string{c.in("X"), c.ints(c.Ints("shape")...)})
}

func flatten(c *call) error {
	return c.last("Out", "Flatten", []string{c.in("X")}, attrInt("axis", c.Int("axis")))
}

// flattenRange joins axes. Extents before them are copied, and one that is joined or comes after may be open.
func flattenRange(c *call) error {
	rank := int64(len(c.In("X").Dims))
	start, stop := c.Int("start_axis"), c.Int("stop_axis")
	if start < 0 {
		start += rank
	}
	if stop < 0 {
		stop += rank
	}
	shape := append(make([]int64, start), -1)
	for _, n := range c.In("X").Dims[stop+1:] {
		if n == program.Unknown {
			return c.refuse(fmt.Sprintf("X of dims %v", c.In("X").Dims), "known extents behind the axes that are joined")
		}
		shape = append(shape, n)
	}
	return c.last("Out", "Reshape", []string{c.in("X"), c.ints(shape...)})
}

func squeeze(c *call) error {
	axes, dims := []int64{}, c.In("X").Dims
	for _, a := range c.Ints("axes") {
		if a < 0 {
			a += int64(len(dims))
		}
		if dims[a] == 1 { // others stay in Fluid, and are an error in ONNX
			axes = append(axes, a)
		}
	}
	switch {
	case len(c.Ints("axes")) == 0:
		return c.last("Out", "Squeeze", []string{c.in("X")})
	case len(axes) == 0:
		return c.last("Out", "Identity", []string{c.in("X")})
	}
	return c.last("Out", "Squeeze", []string{c.in("X"), c.ints(axes...)})
}

// unsqueeze inserts one axis after the other, as Fluid counts them.
func unsqueeze(c *call) error {
	if err := c.noTensors("AxesTensor", "AxesTensorList"); err != nil {
		return err
	}
	axes := c.Ints("axes")
	value := c.in("X")
	for _, a := range axes[:len(axes)-1] {
		value = c.between("Unsqueeze", []string{value, c.ints(a)})
	}
	return c.last("Out", "Unsqueeze", []string{value, c.ints(axes[len(axes)-1])})
}

func transpose(c *call) error {
	return c.last("Out", "Transpose", []string{c.in("X")}, attrInts("perm", c.Ints("axis")))
}

func concat(c *call) error {
	if err := c.noTensors("AxisTensor"); err != nil {
		return err
	}
	return c.last("Out", "Concat", c.ins("X"), attrInt("axis", c.Int("axis")))
}

func split(c *call) error {
	if err := c.noTensors("AxisTensor", "SectionsTensorList"); err != nil {
		return err
	}
	axis := c.Int("axis")
	at := axis
	if at < 0 {
		at += int64(len(c.In("X").Dims))
	}
	in := []string{c.in("X")}
	var sizes []int64
	for _, m := range c.Outs("Out") {
		sizes = append(sizes, m.Dims[at])
	}
	if slices.Contains(sizes, program.Unknown) {
		return c.refuse(fmt.Sprintf("X of dims %v", c.In("X").Dims), "a known extent where it is divided")
	}
	in = append(in, c.ints(sizes...))
	var out []string
	for _, name := range c.op.Outputs["Out"] {
		out = append(out, c.result(name))
	}
	c.node("Split", in, out, attrInt("axis", axis))
	return nil
}

func slice(c *call) error {
	if err := c.noTensors("StartsTensor", "EndsTensor", "StartsTensorList", "EndsTensorList"); err != nil {
		return err
	}
	axes, starts := c.Ints("axes"), c.Ints("starts")
	if len(axes) == 0 {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	in := []string{c.in("Input"), c.ints(starts...), c.ints(c.Ints("ends")...), c.ints(axes...)}
	gone := c.Ints("decrease_axis")
	if len(gone) == 0 {
		return c.last("Out", "Slice", in)
	}
	part := c.between("Slice", in)
	if len(gone) == len(c.In("Input").Dims) { // Fluid leaves one axis
		return c.last("Out", "Reshape", []string{part, c.ints(1)})
	}
	return c.last("Out", "Squeeze", []string{part, c.ints(gone...)})
}

func stack(c *call) error {
	axis := c.ints(c.Int("axis"))
	var parts []string
	for _, x := range c.ins("X") {
		parts = append(parts, c.between("Unsqueeze", []string{x, axis}))
	}
	return c.last("Y", "Concat", parts, attrInt("axis", c.Int("axis")))
}

func expand(c *call) error {
	name := map[string]string{"expand": "expand_times", "tile": "repeat_times"}[c.op.Type]
	if err := c.noTensors("ExpandTimes", "expand_times_tensor", "RepeatTimes", "repeat_times_tensor"); err != nil {
		return err
	}
	times, rank := c.Ints(name), len(c.In("X").Dims)
	x := c.in("X")
	for len(times) < rank {
		times = append([]int64{1}, times...)
	}
	for range len(times) - rank {
		x = c.between("Unsqueeze", []string{x, c.ints(0)})
	}
	return c.last("Out", "Tile", []string{x, c.ints(times...)})
}

func gather(c *call) error {
	if err := c.noTensors("Axis"); err != nil {
		return err
	}
	index := c.in("Index")
	if dims := c.In("Index").Dims; len(dims) == 2 { // of one column
		index = c.between("Squeeze", []string{index, c.ints(1)})
	}
	return c.last("Out", "Gather", []string{c.in("X"), index}, attrInt("axis", c.Int("axis")))
}

func pad2d(c *call) error {
	if err := c.noTensors("Paddings"); err != nil {
		return err
	}
	if err := c.channelsFirst("data_format"); err != nil {
		return err
	}
	p := c.Ints("paddings") // above, below, left, right
	in := []string{c.in("X"), c.ints(0, 0, p[0], p[2], 0, 0, p[1], p[3])}
	if c.Str("mode") == "constant" {
		in = append(in, c.number(c.In("X").DType, c.Float("pad_value")))
	}
	return c.last("Out", "Pad", in, attrStr("mode", c.Str("mode")))
}

func oneHot(c *call) error {
	if err := c.noTensors("depth_tensor"); err != nil {
		return err
	}
	if c.Bool("allow_out_of_range") {
		return c.refuse("allow_out_of_range", "numbers of classes: ONNX counts negative ones from the end")
	}
	x := c.in("X")
	if c.op.Type == "one_hot" { // whose numbers have a last extent of 1
		x = c.between("Squeeze", []string{x, c.ints(int64(len(c.In("X").Dims)) - 1)})
	}
	values, err := encodeBoth(c.Outs("Out")[0].DType)
	if err != nil {
		return err
	}
	return c.last("Out", "OneHot", []string{x, c.ints(c.Int("depth")), c.constant(values, nil)}, attrInt("axis", -1))
}

// encodeBoth is the list of what one_hot writes: 0 elsewhere, and 1.
func encodeBoth(dtype tensor.DType) (*tensor.Tensor, error) {
	switch dtype {
	case tensor.Float32:
		return tensor.FromSlice([]float32{0, 1}, 2)
	case tensor.Float64:
		return tensor.FromSlice([]float64{0, 1}, 2)
	case tensor.Int32:
		return tensor.FromSlice([]int32{0, 1}, 2)
	}
	return tensor.FromSlice([]int64{0, 1}, 2)
}

func argMax(c *call) error {
	x := c.in("X")
	axis := c.Int("axis")
	if c.Bool("flatten") {
		x, axis = c.between("Reshape", []string{x, c.ints(-1)}), 0
	}
	keep := c.Bool("keepdims") || len(c.In("X").Dims) == 1 || c.Bool("flatten")
	out := c.Outs("Out")[0]
	found := c.between("ArgMax", []string{x}, attrInt("axis", axis), attrBool("keepdims", keep))
	to, err := elementType(out.DType, c.op.Out("Out"))
	if err != nil {
		return err
	}
	return c.last("Out", "Cast", []string{found}, attrInt("to", int64(to)))
}

func topK(c *call) error {
	if err := c.noTensors("K"); err != nil {
		return err
	}
	attributes := attrInt("axis", -1)
	largest := true
	if c.op.Type == "top_k_v2" {
		attributes, largest = attrInt("axis", c.Int("axis")), c.Bool("largest")
	}
	in := []string{c.in("X"), c.ints(c.Int("k"))}
	values, places := c.fresh("top_k"), c.fresh("top_k")
	if c.Wants("Out") {
		values = c.out("Out")
	}
	if c.Wants("Indices") {
		places = c.out("Indices")
	}
	c.node("TopK", in, []string{values, places}, attributes, attrBool("largest", largest), attrInt("sorted", 1))
	return nil
}

// resize writes an interpolation of images. Fluid rounds places of the nearest pixel down, or with align_corners to the nearest number.
func resize(c *call) error {
	if err := c.noTensors("OutSize", "SizeTensor", "Scale"); err != nil {
		return err
	}
	if err := c.channelsFirst("data_layout"); err != nil {
		return err
	}
	out := c.Outs("Out")[0].Dims
	x := c.In("X").Dims
	if slices.Min(out[2:]) < 0 || slices.Min(x[2:]) <= 0 {
		return c.refuse(fmt.Sprintf("images of dims %v", x), "known heights and widths")
	}
	mode, places, rounding := "linear", "asymmetric", ""
	nearest := c.op.Type == "nearest_interp" || c.op.Type == "nearest_interp_v2"
	switch {
	case nearest && c.Bool("align_corners"):
		return c.refuse("align_corners of the nearest pixel", "align_corners false: engines round halves otherwise")
	case nearest:
		mode, rounding = "nearest", "floor"
	case c.Bool("align_corners"):
		places = "align_corners"
	case c.Int("align_mode") == 0:
		places = "half_pixel"
	}
	factors := []float32{1, 1}
	for i, extent := range out[2:] {
		f := float32(float64(extent) / float64(x[2+i]))
		if int64(f*float32(x[2+i])) < extent { // engines round the size down
			f = math.Nextafter32(f, 2*f)
		}
		factors = append(factors, f)
	}
	t, err := tensor.FromSlice(factors, int64(len(factors)))
	attributes := attrStr("coordinate_transformation_mode", places)
	if rounding != "" {
		return c.last("Out", "Resize", []string{c.in("X"), "", c.constant(t, err)}, attrStr("mode", mode), attributes, attrStr("nearest_mode", rounding))
	}
	return c.last("Out", "Resize", []string{c.in("X"), "", c.constant(t, err)}, attrStr("mode", mode), attributes)
}
