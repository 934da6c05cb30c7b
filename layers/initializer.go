package layers

import (
	"math"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An Initializer returns the op that gives a variable its first value. The op runs in the startup program and has
// no inputs; its output Out is filled in by the caller.
type Initializer func(Target) *program.Op

// A Target is the variable that an Initializer is asked to fill.
type Target struct {
	DType tensor.DType
	Dims  []int64
	Seed  int64 // of the model
}

// op starts the op of an initializer with the shape and dtype that all of them have.
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

// Xavier draws uniformly from [-limit, limit) with limit = sqrt(6 / (fan in + fan out)), which keeps the variance of
// signals and gradients alike through a layer. It is the default of FC and Embedding. (Glorot and Bengio 2010.)
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

// fans returns how many inputs and outputs one unit of a weight has, as Fluid counts them: a matrix [in, out]; a filter
// [out, in, height, width], whose window multiplies both; for a vector, its length twice.
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
