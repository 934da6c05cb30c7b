package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// A model may flatten records to rows, [batch, boxes, width] to [batch*boxes, width], and later put the rows of each record together again. Open extents do not tell that rows of
// different records stay apart then. So inference runs for batches of one record and of two: if an op makes whole rows of what one record has, and twice as many of two, it keeps
// records apart, because it keeps the order of elements.

// records knows the types of a forward pass for batches of one record, of two and of three.
type records struct {
	block   *program.Block
	forward []*program.Op
	fed     func(name string) bool
	types   [knownBatches]map[string]Meta // nil until they are asked for
}

// knownBatches is how many batches inference may run for: of one record, of two, and so on.
const knownBatches = 3

// keptApart reports whether an op that keeps the order of the elements of X keeps those of each record apart. An op that gives its result the extents that a tensor says does so, too, if
// all its rows are equal, or numbers by chance, which follow from the place of a row in the whole batch. An op that moves values among the frames of a video does so if a record has whole videos. divided reports whether the batch of a slot is divided.
func (r *records) keptApart(op *program.Op, divided func(slot string) bool) bool {
	from := []string{op.Out("Out")}
	switch {
	case keepsOrder(op):
		from = append(from, op.In("X"))
	case op.Type == "temporal_shift": // moves among the frames of a video: a record must have whole videos
		from = append(from, op.In("X"))
		if frames, _ := op.Int("seg_num"); frames < 1 || r.rows(op.In("X"), 1)%frames != 0 {
			return false
		}
	case slices.Contains([]string{"fill_constant", "expand_v2", "uniform_random", "gaussian_random", "truncated_gaussian_random"}, op.Type):
		if divided("X") || divided("ValueTensor") {
			return false
		}
	default:
		return false
	}
	for _, name := range from {
		one, two := r.rows(name, 1), r.rows(name, 2)
		if one < 1 || two != 2*one {
			return false
		}
	}
	return true
}

// elements lists the variables whose elements an op computes with. It leaves out those that only say which extents the result has and whose values follow from dims, so that what is known
// of batches of one record and of two says how the rows of records lie.
func (r *records) elements(op *program.Op) []string {
	var slot []string
	switch op.Type {
	case "reshape2", "reshape", "expand_v2":
		slot = []string{"Shape", "ShapeTensor", "expand_shapes_tensor"}
	case "fill_constant", "uniform_random", "gaussian_random", "truncated_gaussian_random":
		slot = []string{"ShapeTensor", "ShapeTensorList"}
	}
	if !slices.ContainsFunc(slot, func(slot string) bool { return len(op.Inputs[slot]) > 0 }) || !r.readShape() {
		return op.InputNames()
	}
	one, two := r.known(1), r.known(2)
	return slices.DeleteFunc(op.InputNames(), func(name string) bool {
		gives := slices.ContainsFunc(slot, func(slot string) bool { return slices.Contains(op.Inputs[slot], name) })
		return gives && one[name].Value != nil && two[name].Value != nil && r.once(name)
	})
}

// keepsOrder reports whether an op gives the elements of X other dims, in their order.
func keepsOrder(op *program.Op) bool {
	return slices.Contains([]string{"reshape", "reshape2", "flatten", "flatten2"}, op.Type)
}

// equal reports whether an op computes the same known values of batches of any number of records, as it does of the dims of a row, such as the height and width of an image that
// another is scaled to.
func (r *records) equal(op *program.Op) bool {
	if def, ok := Lookup(op.Type); !ok || def.Class != Compute || !r.readShape() {
		return false
	}
	one, two := r.known(1), r.known(2)
	for _, name := range op.OutputNames() {
		a, b := one[name].Value, two[name].Value
		if name == program.Empty {
			continue
		}
		if a == nil || b == nil || !slices.Equal(a.Dims(), b.Dims()) || !slices.Equal(numbersOf(a), numbersOf(b)) || !r.once(name) {
			return false
		}
	}
	return true
}

// once reports whether one op writes a variable, so that what is known of it holds wherever it is read.
func (r *records) once(name string) bool {
	writers := 0
	for _, op := range r.forward {
		if slices.Contains(op.OutputNames(), name) {
			writers++
		}
	}
	return writers == 1
}

// readShape reports whether an op reads dims. Without one, what is computed from the batch has no known values.
func (r *records) readShape() bool {
	return slices.ContainsFunc(r.forward, func(op *program.Op) bool { return op.Type == "shape" })
}

// rows returns how many rows a variable has in a batch of n records, 1 or 2, and 0 if that is not known.
func (r *records) rows(name string, n int) int64 {
	m, ok := r.known(n)[name]
	if !ok || len(m.Dims) == 0 || m.LoDLevel > 0 || slices.Contains(m.Dims, program.Unknown) {
		return 0
	}
	return m.Dims[0]
}

// known returns the types of a batch of n records, 1 to knownBatches.
func (r *records) known(n int) map[string]Meta {
	if r.types[n-1] == nil {
		r.types[n-1] = r.infer(int64(n))
	}
	return r.types[n-1]
}

func (r *records) infer(n int64) map[string]Meta {
	types := map[string]Meta{}
	brought := func(name string) (Meta, bool) {
		v, ok := r.block.Find(name)
		if !ok {
			return Meta{}, false
		}
		m := MetaOf(v)
		if r.fed(name) && m.LoDLevel == 0 && len(m.Dims) > 0 && m.Dims[0] == program.Unknown {
			m.Dims = slices.Clone(m.Dims)
			m.Dims[0] = n
		}
		return m, true
	}
	for _, op := range r.forward {
		def, ok := Lookup(op.Type)
		if !ok {
			continue
		}
		if def.Class == Read || def.Class == Feed {
			for _, name := range op.OutputNames() {
				if m, ok := brought(name); ok {
					types[name] = m
				}
			}
			continue
		}
		typeOf := func(name string) (Meta, bool) {
			if m, ok := types[name]; ok {
				return m, true
			}
			m, ok := brought(name)
			if ok && r.fed(name) {
				types[name] = m
			}
			return m, ok
		}
		shapes, err := Infer(op, typeOf)
		if err != nil {
			continue // what it writes stays unknown
		}
		r.inferSteps(op, shapes, typeOf)
		for slot, names := range op.Outputs {
			for i, name := range names {
				if m := shapes.Outs(slot)[i]; name != program.Empty && m.Kind != 0 {
					types[name] = m
				}
			}
		}
	}
	return types
}

// inferSteps sets the types of what recurrent takes from its block.
func (r *records) inferSteps(op *program.Op, shapes *Shapes, typeOf func(name string) (Meta, bool)) {
	index, _ := op.SubBlock("sub_block")
	block, err := r.block.Program().Block(index)
	inside := GivenTypes(shapes)
	if err != nil || inside == nil {
		return
	}
	in := func(name string) (Meta, bool) {
		if m, ok := inside[name]; ok {
			return m, true
		}
		if v, own := block.Var(name); own {
			return MetaOf(v), true
		}
		return typeOf(name)
	}
	for _, step := range block.Ops {
		inferred, err := Infer(step, in)
		if err != nil {
			return
		}
		for slot, names := range step.Outputs {
			for i, name := range names {
				if m := inferred.Outs(slot)[i]; name != program.Empty && m.Kind != 0 {
					inside[name] = m
				}
			}
		}
	}
	LeftTypes(shapes, in)
}
