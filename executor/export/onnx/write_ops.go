package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/onnx"
	"github.com/edl-go/edl/tensor"
)

// writers write the nodes of each op that has a counterpart. Its inputs have values by then. The op round has none, because ONNX rounds halves to even numbers.
var writers map[string]func(c *call) error

func init() {
	writers = map[string]func(*call) error{
		"relu": unary("Relu"), "sigmoid": unary("Sigmoid"), "tanh": unary("Tanh"), "exp": unary("Exp"), "log": unary("Log"), "sqrt": unary("Sqrt"), "abs": unary("Abs"),
		"floor": unary("Floor"), "ceil": unary("Ceil"), "reciprocal": unary("Reciprocal"), "softsign": unary("Softsign"), "sin": unary("Sin"), "cos": unary("Cos"),
		"assign": unary("Identity"), "logical_not": unary("Not"), "erf": unary("Erf"),
		"square": square, "rsqrt": rsqrt, "softplus": softplus, "logsigmoid": logSigmoid,
		"leaky_relu": alpha("LeakyRelu"), "elu": alpha("Elu"), "relu6": relu6, "clip": clip, "hard_sigmoid": hardSigmoid, "swish": swish, "silu": swish, "hard_swish": hardSwish,
		"gelu": gelu, "pow": power, "scale": scale, "dropout": dropout, "cast": cast, "prelu": prelu, "fill_constant": fill,
		"softmax": onAxis("Softmax", "X", "Out"), "log_softmax": onAxis("LogSoftmax", "X", "Out"),
		"elementwise_add": pairwise("Add"), "elementwise_sub": pairwise("Sub"), "elementwise_mul": pairwise("Mul"), "elementwise_div": pairwise("Div"),
		"elementwise_max": pairwise("Max"), "elementwise_min": pairwise("Min"), "elementwise_pow": pairwise("Pow"),
		"less_than": pairwise("Less"), "greater_than": pairwise("Greater"), "equal": pairwise("Equal"), "logical_and": pairwise("And"), "logical_or": pairwise("Or"),
		"sum":  func(c *call) error { return c.last("Out", "Sum", c.ins("X")) },
		"mean": func(c *call) error { return c.reduced("ReduceMean", c.in("X"), nil, false) },
		"mul":  mul, "matmul": matmul, "matmul_v2": matmul, "bmm": matmul,
		"conv2d": conv, "depthwise_conv2d": conv, "conv3d": conv, "conv2d_transpose": convTranspose, "pool2d": pool,
		"batch_norm": batchNorm, "layer_norm": layerNorm, "instance_norm": instanceNorm, "lookup_table": lookUp, "lookup_table_v2": lookUp,
		"reduce_sum": reduce("ReduceSum"), "reduce_mean": reduce("ReduceMean"), "reduce_max": reduce("ReduceMax"), "reduce_min": reduce("ReduceMin"), "reduce_prod": reduce("ReduceProd"),
	}
	for name, write := range shapeOps {
		writers[name] = write
	}
}

func unary(kind string) func(*call) error {
	return func(c *call) error { return c.last("Out", kind, []string{c.in("X")}) }
}

// alpha is an activation whose attribute has the same name and another default.
func alpha(kind string) func(*call) error {
	return func(c *call) error {
		return c.last("Out", kind, []string{c.in("X")}, attrFloat("alpha", c.Float("alpha")))
	}
}

func onAxis(kind, in, out string) func(*call) error {
	return func(c *call) error { return c.last(out, kind, []string{c.in(in)}, attrInt("axis", c.Int("axis"))) }
}

func square(c *call) error {
	x := c.in("X")
	return c.last("Out", "Mul", []string{x, x})
}

func rsqrt(c *call) error {
	return c.last("Out", "Reciprocal", []string{c.between("Sqrt", []string{c.in("X")})})
}

func softplus(c *call) error {
	if b, t := c.Float("beta"), c.Float("threshold"); b != 1 || t < 15 {
		return c.refuse(fmt.Sprintf("beta %v, threshold %v", b, t), "beta 1 and a threshold of at least 15")
	}
	return c.last("Out", "Softplus", []string{c.in("X")})
}

// logSigmoid is -log(1 + exp(-X)).
func logSigmoid(c *call) error {
	return c.last("Out", "Neg", []string{c.between("Softplus", []string{c.between("Neg", []string{c.in("X")})})})
}

// limited writes min(max(x, low), high).
func (c *call) limited(x string, dtype tensor.DType, low, high float64) string {
	return c.between("Clip", []string{x, c.number(dtype, low), c.number(dtype, high)})
}

func relu6(c *call) error {
	dtype := c.In("X").DType
	return c.last("Out", "Clip", []string{c.in("X"), c.number(dtype, 0), c.number(dtype, c.Float("threshold"))})
}

func clip(c *call) error {
	dtype := c.In("X").DType
	return c.last("Out", "Clip", []string{c.in("X"), c.number(dtype, c.Float("min")), c.number(dtype, c.Float("max"))})
}

func hardSigmoid(c *call) error {
	return c.last("Out", "HardSigmoid", []string{c.in("X")}, attrFloat("alpha", c.Float("slope")), attrFloat("beta", c.Float("offset")))
}

func swish(c *call) error {
	x := c.in("X")
	inner := x
	if c.op.Type == "swish" && c.Float("beta") != 1 {
		inner = c.between("Mul", []string{x, c.number(c.In("X").DType, c.Float("beta"))})
	}
	return c.last("Out", "Mul", []string{x, c.between("Sigmoid", []string{inner})})
}

func hardSwish(c *call) error {
	x, dtype := c.in("X"), c.In("X").DType
	lifted := c.between("Add", []string{x, c.number(dtype, c.Float("offset"))})
	part := c.between("Div", []string{c.limited(lifted, dtype, 0, c.Float("threshold")), c.number(dtype, c.Float("scale"))})
	return c.last("Out", "Mul", []string{x, part})
}

// gelu is X*(1 + erf(X/sqrt(2)))/2, or its approximation by tanh.
func gelu(c *call) error {
	x, dtype := c.in("X"), c.In("X").DType
	var curve string
	if c.Bool("approximate") {
		cube := c.between("Mul", []string{c.between("Mul", []string{x, x}), x})
		sum := c.between("Add", []string{x, c.between("Mul", []string{cube, c.number(dtype, 0.044715)})})
		curve = c.between("Tanh", []string{c.between("Mul", []string{sum, c.number(dtype, math.Sqrt(2/math.Pi))})})
	} else {
		curve = c.between("Erf", []string{c.between("Mul", []string{x, c.number(dtype, math.Sqrt2/2)})})
	}
	half := c.between("Mul", []string{x, c.number(dtype, 0.5)})
	return c.last("Out", "Mul", []string{half, c.between("Add", []string{curve, c.number(dtype, 1)})})
}

func power(c *call) error {
	if err := c.noTensors("FactorTensor"); err != nil {
		return err
	}
	return c.last("Out", "Pow", []string{c.in("X"), c.number(c.In("X").DType, c.Float("factor"))})
}

func scale(c *call) error {
	if err := c.noTensors("ScaleTensor"); err != nil {
		return err
	}
	x, dtype := c.in("X"), c.In("X").DType
	factor, bias := c.Float("scale"), c.Float("bias")
	if !dtype.IsFloat() && (factor != math.Trunc(factor) || bias != math.Trunc(bias)) {
		return c.refuse(fmt.Sprintf("%s times %v plus %v", dtype, factor, bias), "whole numbers")
	}
	if !c.Bool("bias_after_scale") {
		if bias != 0 {
			x = c.between("Add", []string{x, c.number(dtype, bias)})
		}
		return c.last("Out", "Mul", []string{x, c.number(dtype, factor)})
	}
	if bias == 0 {
		return c.last("Out", "Mul", []string{x, c.number(dtype, factor)})
	}
	if factor != 1 {
		x = c.between("Mul", []string{x, c.number(dtype, factor)})
	}
	return c.last("Out", "Add", []string{x, c.number(dtype, bias)})
}

func dropout(c *call) error {
	switch {
	case !c.Bool("is_test"):
		return c.refuse("dropout of training", "is_test true")
	case c.Str("dropout_implementation") == "upscale_in_train":
		return c.last("Out", "Identity", []string{c.in("X")})
	}
	return c.last("Out", "Mul", []string{c.in("X"), c.number(c.In("X").DType, 1-c.Float("dropout_prob"))})
}

func cast(c *call) error {
	to, err := elementType(c.Outs("Out")[0].DType, c.op.Out("Out"))
	if err != nil {
		return err
	}
	return c.last("Out", "Cast", []string{c.in("X")}, attrInt("to", int64(to)))
}

func prelu(c *call) error {
	slope, dims := c.in("Alpha"), c.In("X").Dims
	if c.Str("mode") == "channel" {
		slope = c.aligned(slope, int64(len(dims)-2))
	}
	return c.last("Out", "PRelu", []string{c.in("X"), slope})
}

func fill(c *call) error {
	if err := c.noTensors("ValueTensor", "ShapeTensor", "ShapeTensorList"); err != nil {
		return err
	}
	m := c.Outs("Out")[0]
	if slices.Contains(m.Dims, program.Unknown) {
		return c.refuse(fmt.Sprintf("dims %v", m.Dims), "known dims")
	}
	return c.last("Out", "Expand", []string{c.number(m.DType, c.Float("value")), c.ints(m.Dims...)})
}

// aligned gives a value of one axis others of extent 1 behind it.
func (c *call) aligned(value string, behind int64) string {
	if behind <= 0 {
		return value
	}
	axes := make([]int64, behind)
	for i := range axes {
		axes[i] = int64(i) + 1
	}
	return c.between("Unsqueeze", []string{value, c.ints(axes...)})
}

// pairwise aligns the axes of Y with those of X from axis on. ONNX aligns the last ones.
func pairwise(kind string) func(*call) error {
	return func(c *call) error {
		x, y := c.In("X"), c.In("Y")
		right := c.in("Y")
		if axis := c.Int("axis"); axis >= 0 && len(y.Dims) > 0 {
			if behind := int64(len(x.Dims)) - axis - int64(len(y.Dims)); behind > 0 {
				axes := make([]int64, behind)
				for i := range axes {
					axes[i] = int64(len(y.Dims) + i)
				}
				right = c.between("Unsqueeze", []string{right, c.ints(axes...)})
			}
		}
		if kind == "Div" && !x.DType.IsFloat() {
			return c.refuse("a division of "+x.DType.String(), "one of floats")
		}
		return c.last("Out", kind, []string{c.in("X"), right})
	}
}

// mul is a product of two matrices whose rows are several axes. Reshape copies an extent where its list has 0.
func mul(c *call) error {
	x, y := c.In("X"), c.In("Y")
	rows, inner := int(c.Int("x_num_col_dims")), int(c.Int("y_num_col_dims"))
	left, right := c.in("X"), c.in("Y")
	if rows < len(x.Dims)-1 {
		left = c.between("Reshape", []string{left, c.ints(append(make([]int64, rows), -1)...)})
	}
	if len(y.Dims) == 2 {
		return c.last("Out", "MatMul", []string{left, right})
	}
	k, n := ops.Product(y.Dims[:inner]), ops.Product(y.Dims[inner:])
	if k < 0 || n < 0 {
		return c.refuse(fmt.Sprintf("Y of dims %v", y.Dims), "known extents")
	}
	right = c.between("Reshape", []string{right, c.ints(k, n)})
	product := c.between("MatMul", []string{left, right})
	return c.last("Out", "Reshape", []string{product, c.ints(append(make([]int64, rows), y.Dims[inner:]...)...)})
}

func matmul(c *call) error {
	x, y := c.In("X"), c.In("Y")
	left, right := c.in("X"), c.in("Y")
	var turnX, turnY bool
	factor := 1.0
	switch c.op.Type {
	case "matmul":
		turnX, turnY, factor = c.Bool("transpose_X"), c.Bool("transpose_Y"), c.Float("alpha")
	case "matmul_v2":
		turnX, turnY = c.Bool("trans_x"), c.Bool("trans_y")
	}
	if len(x.Dims) < 2 || len(y.Dims) < 2 {
		return c.refuse(fmt.Sprintf("X of dims %v and Y of %v", x.Dims, y.Dims), "matrices")
	}
	if turnX {
		left = c.turned(left, len(x.Dims))
	}
	if turnY {
		right = c.turned(right, len(y.Dims))
	}
	if factor == 1 {
		return c.last("Out", "MatMul", []string{left, right})
	}
	return c.last("Out", "Mul", []string{c.between("MatMul", []string{left, right}), c.number(x.DType, factor)})
}

// turned transposes the last two axes.
func (c *call) turned(value string, rank int) string {
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	axes[rank-1], axes[rank-2] = axes[rank-2], axes[rank-1]
	return c.between("Transpose", []string{value}, attrInts("perm", axes))
}

// channelsFirst refuses images whose last axis has the channels.
func (c *call) channelsFirst(attribute string) error {
	switch layout := c.Str(attribute); layout {
	case "NHWC", "NDHWC", "NWC":
		return c.refuse(attribute+" "+layout, "NCHW")
	}
	return nil
}

// window returns the attributes that windows have in common, with the padding as ONNX wants it: all beginnings, then all ends.
func (c *call) window() ([]*onnx.AttributeProto, error) {
	strides := c.Ints("strides")
	given := c.Ints("paddings")
	n := len(strides)
	pads := make([]int64, 2*n)
	switch algorithm := c.Str("padding_algorithm"); algorithm {
	case "VALID":
	case "SAME":
		return []*onnx.AttributeProto{attrInts("strides", strides), attrStr("auto_pad", "SAME_UPPER")}, nil
	default:
		for i := range n {
			if len(given) == 2*n {
				pads[i], pads[n+i] = given[2*i], given[2*i+1]
			} else {
				pads[i], pads[n+i] = given[i], given[i]
			}
		}
	}
	return []*onnx.AttributeProto{attrInts("strides", strides), attrInts("pads", pads)}, c.channelsFirst("data_format")
}

func conv(c *call) error {
	attributes, err := c.window()
	if err != nil {
		return err
	}
	if c.Str("padding_algorithm") == "SAME" && slices.ContainsFunc(c.Ints("dilations"), func(d int64) bool { return d != 1 }) {
		return c.refuse("padding_algorithm SAME with dilations", "paddings as numbers") // Fluid sets dilations to 1 there
	}
	in := []string{c.in("Input"), c.in("Filter")}
	if c.Has("Bias") {
		in = append(in, c.in("Bias"))
	}
	return c.last("Output", "Conv", in, append(attributes, attrInts("dilations", c.Ints("dilations")), attrInt("group", c.Int("groups")))...)
}

func convTranspose(c *call) error {
	if c.Str("padding_algorithm") == "SAME" || len(c.Ints("output_size")) > 0 {
		return c.refuse("padding_algorithm SAME or output_size", "paddings as numbers")
	}
	attributes, err := c.window()
	if err != nil {
		return err
	}
	in := []string{c.in("Input"), c.in("Filter")}
	if c.Has("Bias") {
		in = append(in, c.in("Bias"))
	}
	if more := c.Ints("output_padding"); len(more) > 0 {
		attributes = append(attributes, attrInts("output_padding", more))
	}
	return c.last("Output", "ConvTranspose", in, append(attributes, attrInts("dilations", c.Ints("dilations")), attrInt("group", c.Int("groups")))...)
}

func pool(c *call) error {
	if err := c.channelsFirst("data_format"); err != nil {
		return err
	}
	kind := map[string]string{"max": "MaxPool", "avg": "AveragePool"}[c.Str("pooling_type")]
	ones := func(size []int64) bool { return !slices.ContainsFunc(size, func(n int64) bool { return n != 1 }) }
	if c.Bool("global_pooling") || c.Bool("adaptive") && ones(c.Ints("ksize")) {
		return c.last("Out", "Global"+kind, []string{c.in("X")})
	}
	if c.Bool("adaptive") {
		return c.refuse("an adaptive pool2d of several windows", "windows of one size")
	}
	attributes, err := c.window()
	if err != nil {
		return err
	}
	attributes = append(attributes, attrInts("kernel_shape", c.Ints("ksize")))
	if c.Bool("ceil_mode") {
		if kind == "AveragePool" && !c.Bool("exclusive") {
			return c.refuse("ceil_mode with exclusive false", "one of them: engines differ in the size of a window beyond the edge")
		}
		attributes = append(attributes, attrInt("ceil_mode", 1))
	}
	if kind == "AveragePool" {
		attributes = append(attributes, attrBool("count_include_pad", !c.Bool("exclusive")))
	}
	return c.last("Out", kind, []string{c.in("X")}, attributes...)
}

func batchNorm(c *call) error {
	if err := c.channelsFirst("data_layout"); err != nil {
		return err
	}
	if !c.Bool("use_global_stats") && (!c.Bool("is_test") || c.Bool("trainable_statistics")) {
		return c.refuse("batch_norm by the statistics of its batch", "is_test true, and trainable_statistics false")
	}
	return c.last("Y", "BatchNormalization", []string{c.in("X"), c.in("Scale"), c.in("Bias"), c.in("Mean"), c.in("Variance")}, attrFloat("epsilon", c.Float("epsilon")))
}

func layerNorm(c *call) error {
	x, axis := c.In("X"), c.Int("begin_norm_axis")
	row := x.Dims[axis:]
	if slices.Contains(row, program.Unknown) {
		return c.refuse(fmt.Sprintf("X of dims %v", x.Dims), "known extents from begin_norm_axis on")
	}
	scale := c.in("Scale")
	if scale == "" {
		scale = c.between("Expand", []string{c.number(x.DType, 1), c.ints(row...)})
	} else if len(row) > 1 {
		scale = c.between("Reshape", []string{scale, c.ints(row...)})
	}
	in := []string{c.in("X"), scale}
	if bias := c.in("Bias"); bias != "" {
		if len(row) > 1 {
			bias = c.between("Reshape", []string{bias, c.ints(row...)})
		}
		in = append(in, bias)
	}
	return c.last("Y", "LayerNormalization", in, attrInt("axis", axis), attrFloat("epsilon", c.Float("epsilon")))
}

func instanceNorm(c *call) error {
	x := c.In("X")
	if !c.Has("Scale") || !c.Has("Bias") || len(x.Dims) < 3 {
		return c.refuse("instance_norm without Scale, Bias or images", "all three")
	}
	return c.last("Y", "InstanceNormalization", []string{c.in("X"), c.in("Scale"), c.in("Bias")}, attrFloat("epsilon", c.Float("epsilon")))
}

// lookUp gathers rows. The row of padding_idx is zeros in the model, because it reads as zeros.
func lookUp(c *call) error {
	ids := c.in("Ids")
	if c.op.Type == "lookup_table" { // whose ids have a last extent of 1
		ids = c.between("Squeeze", []string{ids, c.ints(int64(len(c.In("Ids").Dims)) - 1)})
	}
	padding := c.Int("padding_idx")
	if padding < 0 {
		return c.last("Out", "Gather", []string{c.in("W"), ids})
	}
	table, err := c.value(c.op.In("W"))
	if err != nil {
		return err
	}
	if padding >= table.Dims()[0] {
		return c.last("Out", "Gather", []string{c.in("W"), ids})
	}
	table = table.Clone()
	row, err := table.Rows(padding, padding+1)
	if err != nil {
		return err
	}
	tensor.Zero(row)
	return c.last("Out", "Gather", []string{c.constant(table, nil), ids})
}

func reduce(kind string) func(*call) error {
	return func(c *call) error {
		axes := c.Ints("dim")
		if c.Bool("reduce_all") || len(axes) == len(c.In("X").Dims) {
			axes = nil
		}
		return c.reduced(kind, c.in("X"), axes, c.Bool("keep_dim"))
	}
}

// reduced writes a reduction over axes, nil for all. Fluid leaves one axis where ONNX leaves none. Only ReduceSum has its axes as an input in opset 17.
func (c *call) reduced(kind, x string, axes []int64, keep bool) error {
	in := []string{x}
	attributes := []*onnx.AttributeProto{attrBool("keepdims", keep)}
	switch {
	case axes != nil && kind == "ReduceSum":
		in = append(in, c.ints(axes...))
	case axes != nil:
		attributes = append(attributes, attrInts("axes", axes))
	}
	if axes != nil || keep {
		return c.last("Out", kind, in, attributes...)
	}
	return c.last("Out", "Reshape", []string{c.between(kind, in, attributes...), c.ints(1)})
}
