package lawcheck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A model trains through the op of a case. What the op gets is the value of the case plus a parameter that begins at zero, so that its gradient reaches servers. Of what it writes,
// the hyperbolic tangent times a parameter is added to the loss: so its values reach servers, too, and no number is too large.
type model struct {
	batch gradcheck.Batch
	*layers.Model
	feed executor.Feed
	sums bool // the loss is a sum over the batch, not a mean: sequences have rows and records, and a mean is over either
}

// modelOf returns the program of a batch, what it is fed, and how many rows that has.
func modelOf(b gradcheck.Batch) (p *program.Program, feed executor.Feed, rows int64, err error) {
	m := &model{batch: b, Model: layers.NewModel().Seed(1), feed: executor.Feed{}}
	def, _ := ops.Lookup(b.Type)
	in, alone := layers.In{}, len(b.Slots) == 0
	for _, slot := range slices.Sorted(maps.Keys(b.Inputs)) {
		for i, value := range b.Inputs[slot] {
			if value == nil || value.IsSelected() {
				return nil, nil, 0, fmt.Errorf("a case with a hole or a sparse gradient in slot %s", slot)
			}
			v := m.given(fmt.Sprint(slot, "_", i), value, slices.Contains(b.Slots, slot), !slices.Contains(b.Constant, slot) && !decides(def, slot))
			in[slot] = append(in[slot], v)
		}
	}
	out := layers.In{}
	for _, slot := range def.Outputs {
		n, listed := b.Outputs[slot.Name]
		if !listed {
			n = 1
		}
		out[slot.Name] = layers.NewVariables(m.Model, b.Type, n)
	}
	written := layers.OpInto(m.Model, b.Type, in, layers.Attrs(b.Attrs), out)
	var terms []layers.Variable
	for _, slot := range def.Outputs {
		for i, v := range written.All(slot.Name) {
			if slices.Contains(b.Loss, fmt.Sprint(slot.Name, ".", i)) {
				terms = append(terms, m.term(v))
			}
		}
	}
	rows = b.Rows
	if alone { // a mean over rows that have nothing to do with the op
		rows = 3
		value, err := tensor.FromSlice([]float32{1, -2, 3}, 3, 1)
		if err != nil {
			return nil, nil, 0, err
		}
		m.feed["rows"] = value
		terms = append(terms, layers.Mean(layers.FC(layers.Data(m.Model, "rows", layers.Dims(1)), 1)))
	}
	if len(terms) == 0 {
		_, err := m.Program()
		return nil, nil, 0, cmp.Or(err, errors.New("a case that writes nothing for the rows of a batch"))
	}
	optimizer.SGD(0.01).Minimize(layers.Sums(terms, layers.Name("loss")))
	p, err = m.Program()
	return p, m.feed, rows, err
}

// decides reports whether the values in a slot must be known before the op runs.
func decides(def *ops.Def, slot string) bool {
	return slices.ContainsFunc(def.Attrs, func(a ops.Attr) bool { return a.Tensor == slot || a.Tensors == slot }) ||
		slices.ContainsFunc(def.Inputs, func(s ops.Slot) bool { return s.Name == slot && s.Decides })
}

// given makes a variable of the value of an input.
func (m *model) given(name string, value *tensor.Tensor, divided, learned bool) layers.Variable {
	value = single(value)
	dims, lod := value.Dims(), len(value.LoD())
	var v layers.Variable
	switch {
	case divided:
		m.feed[name] = value
		m.sums = m.sums || lod > 0
		v = layers.Data(m.Model, name, layers.Dims(dims[1:]...), layers.DType(value.DType()), layers.LoD(lod))
	case lod > 0 || value.Len() == 0:
		m.feed[name] = value
		v = layers.Data(m.Model, name, layers.Dims(dims...), layers.NoBatchDim(), layers.DType(value.DType()), layers.LoD(lod))
	default:
		v = layers.AssignValue(m.Model, value)
	}
	if !learned || value.DType() != tensor.Float32 || len(dims) == 0 || value.Len() == 0 {
		return v
	}
	if divided {
		dims = []int64{1}
	}
	zero := layers.CreateParameter(m.Model, dims, tensor.Float32, layers.ParamAttr{Name: "of_" + name, Initializer: layers.Constant(0)})
	return layers.Add(v, zero)
}

// term is a part of the loss.
func (m *model) term(v layers.Variable) layers.Variable {
	factor := layers.CreateParameter(m.Model, []int64{1}, tensor.Float32, layers.ParamAttr{Name: "factor_" + v.Name(), Initializer: layers.Constant(0.5)})
	if v.DType() != tensor.Float32 {
		v = layers.Cast(v, tensor.Float32)
	}
	weighed := layers.Mul(layers.Tanh(v), factor)
	if m.sums || len(m.batch.Slots) == 0 {
		return layers.ReduceSum(weighed)
	}
	return layers.Mean(weighed)
}

// single returns a value with float32 in the place of float64.
func single(value *tensor.Tensor) *tensor.Tensor {
	if value.DType() != tensor.Float64 {
		return value.Clone()
	}
	floats := make([]float32, value.Len())
	for i, x := range value.Float64s() {
		floats[i] = float32(x)
	}
	narrow, err := tensor.FromSlice(floats, value.Dims()...)
	if err != nil {
		return value // which no op of float32 takes
	}
	narrow.SetLoD(value.LoD())
	return narrow
}
