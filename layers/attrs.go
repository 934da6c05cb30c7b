package layers

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// convertAttrs brings attributes to the types that the op declares, so that a user may write an int or a float64 where the
// program format has int32, int64 or float32. A value that does not convert is left for the verifier to refuse.
func convertAttrs(op *program.Op, def *ops.Def) {
	for _, a := range def.Attrs {
		value, ok := op.Attrs[a.Name]
		if !ok {
			continue
		}
		like := a.Default
		if like == nil {
			like = a.Kind
		}
		op.Attrs[a.Name] = convert(plain(value), like)
	}
	for name, value := range op.Attrs {
		op.Attrs[name] = plain(value)
	}
}

// plain replaces Go types that the format does not have.
func plain(value program.Attr) program.Attr {
	switch v := value.(type) {
	case int:
		return int64(v)
	case []int:
		out := make([]int64, len(v))
		for i, x := range v {
			out[i] = int64(x)
		}
		return out
	case tensor.DType:
		return int32(v)
	}
	return value
}

func convert(value, like program.Attr) program.Attr {
	holder := &program.Op{Attrs: map[string]program.Attr{"": value}}
	switch like.(type) {
	case int32:
		if v, ok := holder.Int(""); ok && int64(int32(v)) == v {
			return int32(v)
		}
	case int64:
		if v, ok := holder.Int(""); ok {
			return v
		}
	case float32:
		if v, ok := holder.Float(""); ok {
			return float32(v)
		}
	case float64:
		if v, ok := holder.Float(""); ok {
			return v
		}
	case []int32:
		if v, ok := holder.Ints(""); ok && fits(v) {
			return convertSlice[int32](v)
		}
	case []int64:
		if v, ok := holder.Ints(""); ok {
			return v
		}
	case []float32:
		if v, ok := holder.Floats(""); ok {
			return convertSlice[float32](v)
		}
	case []float64:
		if v, ok := holder.Floats(""); ok {
			return v
		}
	}
	return value
}

func fits(values []int64) bool {
	for _, v := range values {
		if int64(int32(v)) != v {
			return false
		}
	}
	return true
}

func convertSlice[To int32 | float32, From int64 | float64](values []From) []To {
	out := make([]To, len(values))
	for i, v := range values {
		out[i] = To(v)
	}
	return out
}
