package layers

import (
	"math"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// ParamAttr says how a layer creates a parameter. The zero value leaves all to the layer.
type ParamAttr struct {
	// Name of the parameter. Layers that name the same parameter share it. The settings of the first layer count.
	Name string
	// Initializer sets the initial value. Nil: the default of the layer.
	Initializer Initializer
	// Regularizer replaces the regularizer of the optimizer.
	Regularizer Regularizer
	// LearningRate multiplies the rate of the optimizer; 0 means 1. To keep a parameter as it is, set Frozen.
	LearningRate float64
	// Frozen parameters are saved with the others but not trained.
	Frozen bool
}

// parameter declares a parameter, or finds the one that another layer created under the same name.
func (l *layer) parameter(suffix string, attr ParamAttr, dtype tensor.DType, dims []int64, init Initializer) Variable {
	if l.failed {
		return l.fail()
	}
	if slices.ContainsFunc(dims, func(d int64) bool { return d <= 0 }) {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Gotf("a parameter of dims %v", dims), fault.Want("extents that are known and above 0"),
			fault.Hint("in the input of a layer with parameters, only the batch may be open")))
	}
	if attr.Name != "" && (!filepath.IsLocal(attr.Name) || attr.Name == ".") {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(attr.Name), fault.Got("a name that cannot be a file in a directory of parameters"),
			fault.Want("a name such as fc_0.w_0"), fault.Hint("each parameter is saved to a file of its name")))
	}
	if attr.Name == "" {
		attr.Name = l.model.UniqueName(l.prefix + "." + suffix)
	} else if have, ok := l.model.Variable(attr.Name); ok {
		return l.shared(have, dtype, dims)
	}
	if attr.Initializer != nil {
		init = attr.Initializer
	}
	v := l.model.persistable(program.Var{Name: attr.Name, Kind: program.LoDTensor, DType: dtype, Dims: dims,
		Persistable: true, IsParameter: !attr.Frozen, StopGradient: attr.Frozen}, init)
	if !v.OK() {
		return l.fail()
	}
	l.model.params[attr.Name] = attr
	return v
}

// shared checks that a parameter fits a second layer that uses it.
func (l *layer) shared(have Variable, dtype tensor.DType, dims []int64) Variable {
	want := ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: dims}
	if !have.v.Persistable || have.v.DType != dtype || !slices.Equal(have.v.Dims, dims) {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(have.Name()), fault.Gotf("%v, built before", ops.MetaOf(have.v)),
			fault.Want(want.String()), fault.Hint("layers that share a parameter must need the same shape")))
	}
	return have
}

// addBias appends a bias along one axis unless the layer has none.
func (l *layer) addBias(x Variable, axis int) Variable {
	if l.noBias || l.failed {
		return x
	}
	b := l.parameter("b", l.bias, x.DType(), x.v.Dims[axis:axis+1], Constant(0))
	return l.op("elementwise_add", In{"X": {x}, "Y": {b}}, Attrs{"axis": int32(axis)}, "Out")
}

// A Regularizer builds the gradient of a penalty on a parameter, which the optimizer adds to the gradient of the loss.
type Regularizer func(parameter Variable) Variable

// L2 is the penalty coefficient/2 * sum of squares, also called weight decay; its gradient is coefficient * parameter.
func L2(coefficient float64) Regularizer {
	return func(p Variable) Variable { return Scale(p, coefficient, 0) }
}

// L1 is the penalty coefficient * sum of magnitudes; its gradient is coefficient * sign(parameter).
func L1(coefficient float64) Regularizer {
	return func(p Variable) Variable { return Scale(Sign(p), coefficient, 0) }
}

// An Initializer returns the op that gives a variable its first value. The op runs in the startup program and has no inputs. The caller fills in
// the output Out.
type Initializer func(Target) *program.Op

// A Target is the variable that an Initializer fills.
type Target struct {
	DType tensor.DType
	Dims  []int64
	Seed  int64 // of the model
}

// op makes the op of an initializer, with shape and dtype.
func (t Target) op(opType string, attrs Attrs) *program.Op {
	op := &program.Op{Type: opType, Attrs: map[string]program.Attr{"shape": t.Dims, "dtype": int32(t.DType)}}
	for name, value := range attrs {
		op.Attrs[name] = value
	}
	return op
}

// Constant fills with one value.
func Constant(value float64) Initializer {
	return func(t Target) *program.Op { return t.op("fill_constant", Attrs{"value": value}) }
}

// Uniform draws from [low, high).
func Uniform(low, high float64) Initializer {
	return func(t Target) *program.Op {
		return t.op("uniform_random", Attrs{"min": low, "max": high, "seed": t.Seed})
	}
}

// Normal draws from the normal distribution of a mean and a standard deviation.
func Normal(mean, deviation float64) Initializer {
	return func(t Target) *program.Op {
		return t.op("gaussian_random", Attrs{"mean": mean, "std": deviation, "seed": t.Seed})
	}
}

// TruncatedNormal draws from the normal distribution and repeats draws that are further than two deviations from the mean.
func TruncatedNormal(mean, deviation float64) Initializer {
	return func(t Target) *program.Op {
		return t.op("truncated_gaussian_random", Attrs{"mean": mean, "std": deviation, "seed": t.Seed})
	}
}

// Xavier draws uniformly from [-limit, limit) with limit = sqrt(6 / (fan in + fan out)). Signals and gradients then keep about the same variance
// from layer to layer. It is the default of FC and Embedding. (Glorot and Bengio 2010.)
func Xavier() Initializer {
	return func(t Target) *program.Op {
		in, out := fans(t.Dims)
		limit := math.Sqrt(6 / (in + out))
		return Uniform(-limit, limit)(t)
	}
}

// XavierNormal is Xavier with a normal distribution of deviation sqrt(2 / (fan in + fan out)).
func XavierNormal() Initializer {
	return func(t Target) *program.Op {
		in, out := fans(t.Dims)
		return Normal(0, math.Sqrt(2/(in+out)))(t)
	}
}

// MSRA draws uniformly from [-limit, limit) with limit = sqrt(6 / fan in), for layers that a relu follows. (He et al. 2015.)
func MSRA() Initializer {
	return func(t Target) *program.Op {
		in, _ := fans(t.Dims)
		limit := math.Sqrt(6 / in)
		return Uniform(-limit, limit)(t)
	}
}

// MSRANormal is MSRA with a normal distribution of deviation sqrt(2 / fan in).
func MSRANormal() Initializer {
	return func(t Target) *program.Op {
		in, _ := fans(t.Dims)
		return Normal(0, math.Sqrt(2/in))(t)
	}
}

// fans returns the number of inputs and outputs of a weight, as Fluid counts them. A matrix is [in, out]. A filter is [out, in, height, width], and
// the window multiplies both. For a vector, both are its length.
func fans(dims []int64) (in, out float64) {
	switch len(dims) {
	case 0:
		return 1, 1
	case 1:
		return float64(dims[0]), float64(dims[0])
	case 2:
		return float64(dims[0]), float64(dims[1])
	}
	window := 1.0
	for _, d := range dims[2:] {
		window *= float64(d)
	}
	return float64(dims[1]) * window, float64(dims[0]) * window
}
