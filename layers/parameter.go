package layers

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// ParamAttr says how a layer creates one of its parameters. The zero value leaves everything to the layer.
type ParamAttr struct {
	// Name of the parameter. Two layers that name the same parameter share it; the settings of the first one hold.
	Name string
	// Initializer gives the initial value; nil is the default of the layer.
	Initializer Initializer
	// Regularizer overrides that of the optimizer.
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
			fault.Hint("only the batch may be left open in the input of a layer with parameters")))
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
			fault.Want(want.String()), fault.Hint("layers share a parameter by name only when its shape is the same")))
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
