package layers

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Dims sets the extents of one record of Data or Field.
func Dims(dims ...int64) Option {
	return Option{"Dims", func(s *settings) { s.dims = slices.Clone(dims) }}
}

// NoBatchDim says that Dims are those of the whole variable, not those of one record in a batch.
func NoBatchDim() Option { return Option{"NoBatchDim", func(s *settings) { s.noBatch = true }} }

// Data declares a variable that is fed by name. Its dims are those of one record behind an open batch axis, and its
// type is float32 unless DType says otherwise. No gradient flows into it.
//
// Options: Dims, DType, NoBatchDim, LoD.
func Data(m *Model, name string, opts ...Option) Variable {
	l := &layer{settings: defaults(), kind: "data", model: m, failed: m == nil}
	if l.failed {
		return l.fail()
	}
	if f := l.apply(l.kind, opts, []string{"Dims", "DType", "NoBatchDim", "LoD"}); f != nil {
		return l.mistake(f)
	}
	return l.data(name)
}

func (l *layer) data(name string) Variable {
	if name == "" {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Got("an empty name"), fault.Want("the name by which the variable is fed")))
	}
	if slices.ContainsFunc(l.dims, func(d int64) bool { return d < program.Unknown || d == 0 }) {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("dims %v", l.dims),
			fault.Want("extents of at least 1, or -1 where open")))
	}
	if l.lod < 0 || l.lod > 0 && l.noBatch {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(name), fault.Gotf("%d LoD levels", l.lod),
			fault.Want("at least 0, and rows to cut into sequences")))
	}
	dims := l.dims
	if !l.noBatch {
		dims = append([]int64{program.Unknown}, dims...)
	}
	v, err := l.model.main.Global().AddVar(program.Var{Name: name, Kind: program.LoDTensor, DType: l.dtype, Dims: dims, LoDLevel: l.lod,
		StopGradient: true, NeedCheckFeed: true})
	if err != nil {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a name that is taken"), fault.Want("a free name")))
	}
	return Variable{l.model, v}
}
