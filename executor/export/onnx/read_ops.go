package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type attrs = map[string]program.Attr

// readers make the ops of each kind of node that has a counterpart.
var readers map[string]func(*reader) error

func init() {
	readers = map[string]func(*reader) error{
		"Relu": same("relu"), "Sigmoid": same("sigmoid"), "Tanh": same("tanh"), "Exp": same("exp"), "Log": same("log"), "Sqrt": same("sqrt"), "Abs": same("abs"),
		"Floor": same("floor"), "Ceil": same("ceil"), "Reciprocal": same("reciprocal"), "Softsign": same("softsign"), "Sin": same("sin"), "Cos": same("cos"),
		"Identity": same("assign"), "Not": same("logical_not"), "Erf": same("erf"), "Softplus": same("softplus"), "Dropout": same("assign"),
		"Neg":       func(r *reader) error { return r.last("scale", attrs{"scale": float32(-1)}) },
		"LeakyRelu": func(r *reader) error { return r.last("leaky_relu", attrs{"alpha": float32(r.float("alpha", 0.01))}) },
		"Elu":       func(r *reader) error { return r.last("elu", attrs{"alpha": float32(r.float("alpha", 1))}) },
		"HardSigmoid": func(r *reader) error {
			return r.last("hard_sigmoid", attrs{"slope": float32(r.float("alpha", 0.2)), "offset": float32(r.float("beta", 0.5))})
		},
		"HardSwish": same("hard_swish"),
		"Clip":      readClip, "Pow": readPow, "Sum": readSum, "Cast": readCast, "Constant": readConstant,
		"Add": pair("elementwise_add", true), "Sub": pair("elementwise_sub", false), "Mul": pair("elementwise_mul", true), "Div": pair("elementwise_div", false),
		"Max": pair("elementwise_max", true), "Min": pair("elementwise_min", true),
		"Softmax": readSoftmax("softmax"), "LogSoftmax": readSoftmax("log_softmax"),
		"MatMul": readMatMul, "Gemm": readGemm, "Conv": readConv, "ConvTranspose": readConvTranspose,
		"MaxPool": readPool("max"), "AveragePool": readPool("avg"), "GlobalMaxPool": readGlobalPool("max"), "GlobalAveragePool": readGlobalPool("avg"),
		"BatchNormalization": readBatchNorm, "LayerNormalization": readLayerNorm,
		"Flatten": readFlatten, "Reshape": readReshape, "Transpose": readTranspose, "Concat": readConcat, "Split": readSplit, "Slice": readSlice,
		"Squeeze": readSqueeze, "Unsqueeze": readUnsqueeze, "Gather": readGather, "ArgMax": readArgMax, "TopK": readTopK, "Tile": readTile, "Resize": readResize, "Pad": readPad,
		"ReduceSum": readReduce("reduce_sum"), "ReduceMean": readReduce("reduce_mean"), "ReduceMax": readReduce("reduce_max"), "ReduceMin": readReduce("reduce_min"),
		"ReduceProd": readReduce("reduce_prod"),
	}
}

func same(kind string) func(*reader) error {
	return func(r *reader) error { return r.last(kind, nil) }
}

// last adds an op of one input and one output that are those of the node.
func (r *reader) last(kind string, a attrs) error { return r.lastOf(kind, r.in(0), a) }

func (r *reader) lastOf(kind, x string, a attrs) error {
	if r.err != nil {
		return r.err
	}
	return r.add(kind, one("X", x), one("Out", r.out(0)), a)
}

func unsupported(got, want string) error {
	return fault.E(fault.Unsupported, fault.Got(got), fault.Want(want))
}

func ints32(values []int64) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(min(max(v, math.MinInt32), math.MaxInt32)) // places beyond the end mean the end
	}
	return out
}

func readClip(r *reader) error {
	low, high := -math.MaxFloat32, math.MaxFloat32
	if r.opset < 11 {
		low, high = r.float("min", low), r.float("max", high)
	} else {
		low, high = r.number(1, low), r.number(2, high)
	}
	return r.last("clip", attrs{"min": float32(low), "max": float32(high)})
}

func readPow(r *reader) error {
	if t := r.values[r.in(1)]; t != nil && t.Len() == 1 {
		return r.last("pow", attrs{"factor": float32(r.number(1, 1))})
	}
	return pair("elementwise_pow", false)(r)
}

func readSum(r *reader) error {
	var all []string
	for i := range r.node.Input {
		all = append(all, r.in(i))
	}
	for _, name := range all {
		if len(all) > 1 && !slices.Equal(r.dims(name), r.dims(all[0])) {
			return unsupported("terms of different dims", "terms of one shape")
		}
	}
	if r.err != nil {
		return r.err
	}
	return r.add("sum", map[string][]string{"X": all}, one("Out", r.out(0)), nil)
}

// elementNumbers are Fluid's numbers of types, which attributes have.
var elementNumbers = map[tensor.DType]int32{tensor.Bool: 0, tensor.Int32: 2, tensor.Int64: 3, tensor.Float32: 5, tensor.Float64: 6}

func readCast(r *reader) error {
	to, err := dtypeOf(int32(r.integer("to", 0)), r.node.GetName())
	if err != nil {
		return err
	}
	x := r.in(0)
	return r.lastOf("cast", x, attrs{"in_dtype": elementNumbers[r.metas[x].DType], "out_dtype": elementNumbers[to]})
}

func readConstant(r *reader) error {
	var t *tensor.Tensor
	var err error
	if len(r.node.Output) != 1 {
		return fault.E(fault.InvalidArgument, fault.Gotf("%d outputs", len(r.node.Output)), fault.Want("one"))
	}
	switch {
	case r.attribute("value") != nil:
		if t, err = decode(r.attribute("value").GetT()); err != nil {
			return err
		}
	case r.attribute("value_float") != nil:
		t, err = tensor.FromSlice([]float32{r.attribute("value_float").GetF()})
	case r.attribute("value_int") != nil:
		t, err = tensor.FromSlice([]int64{r.attribute("value_int").GetI()})
	case r.attribute("value_ints") != nil:
		list := r.integers("value_ints")
		t, err = tensor.FromSlice(list, int64(len(list)))
	default:
		return unsupported("a constant without a value of numbers", "value, value_float, value_int or value_ints")
	}
	if err != nil {
		return err
	}
	if _, have := r.names[r.node.Output[0]]; have {
		return fault.E(fault.InvalidArgument, fault.Var(r.node.Output[0]), fault.Got("a value that is computed twice"), fault.Want("once"))
	}
	r.keep(r.node.Output[0], t)
	return nil
}

// pair adds an op of two inputs whose last axes are aligned. X has at least as many axes as Y; of ops that commute, the inputs are swapped for it.
func pair(kind string, commutes bool) func(*reader) error {
	return func(r *reader) error {
		x, y := r.in(0), r.in(1)
		if len(r.node.Input) != 2 {
			return unsupported(fmt.Sprintf("%d inputs", len(r.node.Input)), "2")
		}
		if missing := len(r.dims(y)) - len(r.dims(x)); missing > 0 && commutes {
			x, y = y, x
		} else if missing > 0 {
			x = r.step("unsqueeze2", x, attrs{"axes": make([]int32, missing)})
		}
		if len(r.dims(x)) == 0 {
			x = r.step("unsqueeze2", x, attrs{"axes": []int32{0}})
		}
		if len(r.dims(y)) == 0 {
			y = r.step("unsqueeze2", y, attrs{"axes": []int32{0}})
		}
		if r.err != nil {
			return r.err
		}
		return r.add(kind, map[string][]string{"X": {x}, "Y": {y}}, one("Out", r.out(0)), attrs{"axis": int32(-1)})
	}
}

// readSoftmax: before opset 13 all axes from one on were classes.
func readSoftmax(kind string) func(*reader) error {
	return func(r *reader) error {
		rank := int64(len(r.dims(r.in(0))))
		axis := r.integer("axis", -1)
		if r.opset < 13 {
			if axis = r.integer("axis", 1); axis != -1 && axis != rank-1 {
				return unsupported(fmt.Sprintf("classes on several axes (axis %d of %d, before opset 13)", axis, rank), "the last axis")
			}
		}
		return r.last(kind, attrs{"axis": int32(axis)})
	}
}

func (r *reader) product(x, y, out string, turnX, turnY bool) error {
	if r.err != nil {
		return r.err
	}
	return r.add("matmul_v2", map[string][]string{"X": {x}, "Y": {y}}, one("Out", out), attrs{"trans_x": turnX, "trans_y": turnY})
}

func readMatMul(r *reader) error { return r.product(r.in(0), r.in(1), r.out(0), false, false) }

// readGemm is alpha*op(A)*op(B) + beta*C.
func readGemm(r *reader) error {
	a, b, c := r.in(0), r.in(1), r.in(2)
	alpha, beta := r.float("alpha", 1), r.float("beta", 1)
	if c == "" && alpha == 1 {
		return r.product(a, b, r.out(0), r.integer("transA", 0) != 0, r.integer("transB", 0) != 0)
	}
	product := r.fresh("matmul_v2")
	if err := r.product(a, b, product, r.integer("transA", 0) != 0, r.integer("transB", 0) != 0); err != nil {
		return err
	}
	if c == "" {
		return r.lastOf("scale", product, attrs{"scale": float32(alpha)})
	}
	if alpha != 1 {
		product = r.step("scale", product, attrs{"scale": float32(alpha)})
	}
	if beta != 1 {
		c = r.step("scale", c, attrs{"scale": float32(beta)})
	}
	if len(r.dims(c)) == 0 {
		c = r.step("unsqueeze2", c, attrs{"axes": []int32{0}})
	}
	if r.err != nil {
		return r.err
	}
	return r.add("elementwise_add", map[string][]string{"X": {product}, "Y": {c}}, one("Out", r.out(0)), attrs{"axis": int32(-1)})
}

// window reads what windows have in common.
func (r *reader) window(size int) (attrs, error) {
	fill := func(list []int64) []int32 {
		if len(list) == size {
			return ints32(list)
		}
		ones := make([]int32, size)
		for i := range ones {
			ones[i] = 1
		}
		return ones
	}
	a := attrs{"strides": fill(r.integers("strides"))}
	switch auto := string(r.attribute("auto_pad").GetS()); auto {
	case "", "NOTSET":
	case "VALID", "SAME_UPPER":
		a["padding_algorithm"] = auto[:min(len(auto), 5)]
		if auto == "SAME_UPPER" {
			a["padding_algorithm"] = "SAME"
		}
	default:
		return nil, unsupported("auto_pad "+auto, "SAME_UPPER or pads")
	}
	pads := r.integers("pads")
	if len(pads) == 0 {
		pads = make([]int64, 2*size)
	}
	if len(pads) != 2*size {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d pads", len(pads)), fault.Wantf("%d", 2*size))
	}
	var both []int32
	even := true
	for i := range size {
		both = append(both, int32(pads[i]), int32(pads[size+i]))
		even = even && pads[i] == pads[size+i]
	}
	if even {
		both = ints32(pads[:size])
	}
	a["paddings"] = both
	return a, nil
}

func readConv(r *reader) error {
	x, filter := r.in(0), r.in(1)
	size := len(r.dims(filter)) - 2
	kind := map[int]string{2: "conv2d", 3: "conv3d"}[size]
	if kind == "" {
		return unsupported(fmt.Sprintf("a convolution over %d axes", size), "2 or 3")
	}
	return r.convolution(kind, x, filter, size)
}

func readConvTranspose(r *reader) error {
	x, filter := r.in(0), r.in(1)
	if len(r.dims(filter)) != 4 || r.attribute("output_shape") != nil {
		return unsupported("a transposed convolution with output_shape, or not over 2 axes", "pads and 2 axes")
	}
	return r.convolution("conv2d_transpose", x, filter, 2)
}

func (r *reader) convolution(kind, x, filter string, size int) error {
	a, err := r.window(size)
	if err != nil {
		return err
	}
	a["groups"] = int32(r.integer("group", 1))
	if d := r.integers("dilations"); len(d) == size {
		a["dilations"] = ints32(d)
	} else if size == 3 {
		a["dilations"] = []int32{1, 1, 1}
	}
	if more := r.integers("output_padding"); len(more) > 0 {
		a["output_padding"] = ints32(more)
	}
	bias := r.in(2)
	if r.err != nil {
		return r.err
	}
	inputs := map[string][]string{"Input": {x}, "Filter": {filter}}
	if bias == "" {
		return r.add(kind, inputs, one("Output", r.out(0)), a)
	}
	between := r.fresh(kind)
	if err := r.add(kind, inputs, one("Output", between), a); err != nil {
		return err
	}
	return r.add("elementwise_add", map[string][]string{"X": {between}, "Y": {bias}}, one("Out", r.out(0)), attrs{"axis": int32(1)})
}

func readPool(kind string) func(*reader) error {
	return func(r *reader) error {
		size := r.integers("kernel_shape")
		name := map[int]string{2: "pool2d", 3: "pool3d"}[len(size)]
		if name == "" {
			return unsupported(fmt.Sprintf("windows over %d axes", len(size)), "2 or 3")
		}
		if slices.ContainsFunc(r.integers("dilations"), func(d int64) bool { return d != 1 }) || len(r.node.Output) > 1 && r.node.Output[1] != "" {
			return unsupported("dilations, or the places of maxima", "neither")
		}
		a, err := r.window(len(size))
		if err != nil {
			return err
		}
		a["ksize"], a["pooling_type"] = ints32(size), kind
		a["ceil_mode"] = r.integer("ceil_mode", 0) != 0
		a["exclusive"] = r.integer("count_include_pad", 0) == 0
		return r.last(name, a)
	}
}

func readGlobalPool(kind string) func(*reader) error {
	return func(r *reader) error {
		if rank := len(r.dims(r.in(0))); rank != 4 {
			return unsupported(fmt.Sprintf("rank %d", rank), "images of rank 4")
		}
		return r.last("pool2d", attrs{"ksize": []int32{1, 1}, "global_pooling": true, "pooling_type": kind})
	}
}

func readBatchNorm(r *reader) error {
	if r.integer("training_mode", 0) != 0 {
		return unsupported("training_mode", "statistics that are given")
	}
	in := map[string][]string{"X": {r.in(0)}, "Scale": {r.in(1)}, "Bias": {r.in(2)}, "Mean": {r.in(3)}, "Variance": {r.in(4)}}
	if r.err != nil {
		return r.err
	}
	for _, slot := range []string{"Mean", "Variance"} {
		if v, ok := r.block.Var(in[slot][0]); ok {
			v.IsParameter, v.StopGradient = false, true
		}
	}
	out := map[string][]string{"Y": {r.out(0)}, "MeanOut": in["Mean"], "VarianceOut": in["Variance"], "SavedMean": {r.fresh("saved_mean")}, "SavedVariance": {r.fresh("saved_variance")}}
	return r.add("batch_norm", in, out, attrs{"is_test": true, "epsilon": float32(r.float("epsilon", 1e-5)), "momentum": float32(r.float("momentum", 0.9))})
}

// readLayerNorm: Fluid's scale and bias have one axis.
func readLayerNorm(r *reader) error {
	x := r.in(0)
	axis := r.integer("axis", -1)
	if axis < 0 {
		axis += int64(len(r.dims(x)))
	}
	in := map[string][]string{"X": {x}}
	for i, slot := range map[int]string{1: "Scale", 2: "Bias"} {
		name := r.in(i)
		if name == "" {
			continue
		}
		if len(r.dims(name)) != 1 {
			name = r.step("reshape2", name, attrs{"shape": []int32{-1}})
		}
		in[slot] = []string{name}
	}
	if r.err != nil {
		return r.err
	}
	return r.add("layer_norm", in, map[string][]string{"Y": {r.out(0)}, "Mean": {r.fresh("mean")}, "Variance": {r.fresh("variance")}},
		attrs{"begin_norm_axis": int32(axis), "epsilon": float32(r.float("epsilon", 1e-5))})
}

func readReduce(kind string) func(*reader) error {
	return func(r *reader) error {
		axes := r.axes()
		a := attrs{"keep_dim": r.integer("keepdims", 1) != 0, "reduce_all": len(axes) == 0}
		if len(axes) > 0 {
			a["dim"] = ints32(axes)
		}
		return r.last(kind, a)
	}
}
