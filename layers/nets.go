package layers

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A ConvGroup says what ImgConvGroup builds.
type ConvGroup struct {
	Filters    []int64   // of each convolution
	FilterSize int64     // side of the windows; 0 for 3
	BatchNorm  bool      // whether each convolution is followed by BatchNorm
	Dropout    []float64 // after each BatchNorm; nil for none
	PoolSize   int64     // side of the windows of Pool2D at the end
	PoolStride int
	Average    bool // whether the pooling takes means
}

// ImgConvGroup stacks convolutions of images, as VGG does, and pools at the end. Images keep their size until then. act is the activation of each
// convolution, after BatchNorm if there is one. (Fluid: nets.img_conv_group.)
//
// Ops: conv2d, elementwise_add, batch_norm, dropout, pool2d.
func ImgConvGroup(x Variable, group ConvGroup, act string) Variable {
	size := group.FilterSize
	if size == 0 {
		size = 3
	}
	if len(group.Filters) == 0 || group.Dropout != nil && len(group.Dropout) != len(group.Filters) {
		l := start("img_conv_group", nil, nil, x)
		return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d convolutions and %d rates of dropout", len(group.Filters), len(group.Dropout)),
			fault.Want("at least one, and a rate for each or none")))
	}
	pad := int(size-1) / 2
	for i, filters := range group.Filters {
		if !group.BatchNorm {
			x = Conv2D(x, filters, size, Padding(pad, pad), Act(act))
			continue
		}
		x = BatchNorm(Conv2D(x, filters, size, Padding(pad, pad)), Act(act))
		if group.Dropout != nil && group.Dropout[i] > 0 {
			x = Dropout(x, group.Dropout[i])
		}
	}
	options := []Option{Stride(max(group.PoolStride, 1), max(group.PoolStride, 1))}
	if group.Average {
		options = append(options, AvgPool())
	}
	return Pool2D(x, group.PoolSize, options...)
}

// GLU divides x in two halves along an axis, which a negative number counts from the end, and weighs the first by the sigmoid of the second (Dauphin et al.
// 2016). (Fluid: nets.glu.)
//
// Ops: split, sigmoid, elementwise_mul.
func GLU(x Variable, axis int) Variable {
	halves := Split(x, 2, axis)
	if len(halves) != 2 {
		return Variable{model: x.Model()}
	}
	return Mul(halves[0], Sigmoid(halves[1]))
}

// ScaledDotProductAttention is softmax(q kᵀ/√d) v (Vaswani et al. 2017) for queries [batch, rows, width], keys [batch, positions, width] and values [batch, positions,
// width of values], in heads of equal width d. dropout is the share of weights that is dropped while it trains. The result is [batch, rows, width of values]. (Fluid:
// nets.scaled_dot_product_attention.)
//
// Ops: reshape2, transpose2, matmul, softmax, dropout.
func ScaledDotProductAttention(q, k, v Variable, heads int, dropout float64) Variable {
	l := start("scaled_dot_product_attention", nil, nil, q, k, v)
	if l.failed {
		return l.fail()
	}
	n := int64(heads)
	for _, x := range []Variable{q, k, v} {
		if dims := x.v.Dims; len(dims) != 3 || n < 1 || dims[2] < 1 || dims[2]%n != 0 {
			return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Wantf("[batch, rows, width], the width a multiple of %d heads", heads)))
		}
	}
	if q.v.Dims[2] != k.v.Dims[2] {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(k.Name()), fault.Got(k.String()), fault.Wantf("keys as wide as queries %v", q)))
	}
	split := func(x Variable) Variable {
		if heads == 1 {
			return x
		}
		return Transpose(Reshape(x, []int64{0, 0, n, x.v.Dims[2] / n}), []int{0, 2, 1, 3})
	}
	width := v.v.Dims[2]
	weights := Softmax(MatMul(Scale(split(q), 1/math.Sqrt(float64(q.v.Dims[2]/n)), 0), split(k), TransposeY()))
	if dropout > 0 {
		weights = Dropout(weights, dropout)
	}
	out := MatMul(weights, split(v))
	if heads == 1 {
		return out
	}
	return Reshape(Transpose(out, []int{0, 2, 1, 3}), []int64{0, 0, width})
}

// CreateParameter makes a parameter that no layer makes. Its name in the settings may be empty; the first values are those of the settings, else Xavier's. (Fluid:
// layers.create_parameter.)
func CreateParameter(m *Model, dims []int64, dtype tensor.DType, attr ParamAttr) Variable {
	l := begin(m, "create_parameter", nil)
	if l.failed {
		return l.fail()
	}
	return l.parameter("w", attr, dtype, dims, Xavier())
}
