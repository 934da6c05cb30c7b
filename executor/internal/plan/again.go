package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An inference for other dims walks over the nodes again. It runs the shape inference of an op only if the type of something that the op touches has changed: all
// others would give what they have given before. So it costs as much as there are ops whose dims follow from what has changed.

// An again is what a node needs for another walk.
type again struct {
	reads, writes []*variable
	shapes        *ops.Shapes // nil until the node is inferred again
	inputs        []ops.Input // of shapes
	from          []*variable // the variables of inputs
}

// A typed is a variable and the type that it had before a walk.
type typed struct {
	*variable
	meta ops.Meta
}

// again infers the types for other feeds. It reports false if they are no variation of the first ones, or if the plan for them would differ in more than numbers.
// Then some types are new and some old.
func (in *inference) again(feeds map[string]ops.Meta) bool {
	in.walks++
	in.before = in.before[:0]
	if len(feeds) != len(in.Feeds) {
		return false
	}
	for name, meta := range feeds {
		v := in.variables.named[name]
		if v == nil || v.place != fed {
			return false
		}
		if meta.LoDLevel > 0 {
			meta.LoDOf = name
		}
		if checkFeed(in.Block, name, meta) != nil || in.change(v, meta) != nil {
			return false
		}
	}
	for _, v := range in.inputs {
		declared, _ := in.Block.Find(v.name)
		if in.change(v, in.metaInScope(v.name, declared)) != nil {
			return false
		}
	}
	if len(in.before) == 0 {
		return true
	}
	for i := range in.nodes {
		if n := &in.nodes[i]; !in.visit(n) {
			return false
		}
	}
	return len(in.late) == 0
}

// visit infers a node again if it must. It reports false for a result that another plan is needed for.
func (in *inference) visit(n *node) bool {
	if n.again == nil {
		n.again = &again{reads: in.listed(n.op.InputNames(), n.written.InputNames(), n.reads), writes: in.listed(n.op.OutputNames(), n.writes)}
	}
	if in.isTouched(n) {
		from := len(in.before)
		if n.inferAgain(in) != nil || in.types(n, n.again.shapes) != nil {
			return false
		}
		if role := n.op.Role(); in.CheckFinite && role.Has(program.RoleLoss) {
			for _, b := range in.before[from:] {
				if (ops.Product(b.meta.Dims) == 1) != (ops.Product(b.variable.meta.Dims) == 1) {
					return false // finite.go checks a loss that is one number
				}
			}
		}
	}
	for _, list := range [][]*variable{n.again.reads, n.again.writes} {
		for _, v := range list {
			v.walk = in.walks
		}
	}
	return true
}

// inferAgain infers the op of a node for the types that its inputs have now.
func (n *node) inferAgain(in *inference) (err error) {
	a := n.again
	if a.shapes != nil {
		for i, v := range a.from {
			*a.inputs[i].Type = v.meta
		}
		return ops.InferAgain(a.shapes, n.written)
	}
	if a.shapes, err = ops.Infer(n.written, in.inputMeta); err != nil {
		return err
	}
	a.inputs = ops.Inputs(a.shapes, n.written)
	for _, input := range a.inputs {
		a.from = append(a.from, in.variables.named[input.Name])
	}
	return nil
}

// inferInside is ops.Infer for an op in a block that an op runs.
func (in *inference) inferInside(op *program.Op, typeOf func(name string) (ops.Meta, bool)) (*ops.Shapes, error) {
	if in.walks == 0 {
		return ops.Infer(op, typeOf)
	}
	if shapes := in.inside[op]; shapes != nil {
		for _, input := range ops.Inputs(shapes, op) {
			*input.Type, _ = typeOf(input.Name)
		}
		return shapes, ops.InferAgain(shapes, op)
	}
	shapes, err := ops.Infer(op, typeOf)
	if err == nil {
		if in.inside == nil {
			in.inside = map[*program.Op]*ops.Shapes{}
		}
		in.inside[op] = shapes
	}
	return shapes, err
}

// isTouched reports whether this walk has changed the type of a variable that a node touches. It is an answer for nodes that were visited before, too.
func (in *inference) isTouched(n *node) bool {
	is := func(v *variable) bool { return v.changed == in.walks }
	return slices.ContainsFunc(n.again.reads, is) || slices.ContainsFunc(n.again.writes, is)
}

// listed returns the variables of some names, each once.
func (in *inference) listed(lists ...[]string) (all []*variable) {
	for _, name := range slices.Concat(lists...) {
		if v := in.variables.named[name]; v != nil && !uses(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// change gives a variable another type in a walk that is not the first. It fails if the new type differs from the old one in more than numbers.
func (in *inference) change(v *variable, meta ops.Meta) error {
	v.walk = in.walks
	if v.meta.Kind != meta.Kind || v.meta.DType != meta.DType || v.meta.LoDLevel != meta.LoDLevel || v.meta.LoDOf != meta.LoDOf || len(v.meta.Dims) != len(meta.Dims) ||
		len(v.meta.Sequences) != len(meta.Sequences) || (v.meta.LoD == nil) != (meta.LoD == nil) || (v.meta.Value == nil) != (meta.Value == nil) ||
		(v.meta.Largest == nil) != (meta.Largest == nil) {
		return errOtherForm
	}
	if v.place != dynamic && v.place != valueless && (decided(v.name, v.meta) == nil) != (decided(v.name, meta) == nil) {
		return errOtherForm
	}
	if v.place == dynamic && !in.grows[v.name] && decided(v.name, meta) == nil && !lacksSequences(v.name, meta) {
		return errOtherForm // it would be laid out
	}
	if same(v.meta, meta) {
		return nil
	}
	if meta.Kind == program.SelectedRows {
		if !slices.Equal(v.meta.Dims, meta.Dims) {
			return errOtherForm
		}
		if v.rows != nil {
			numbers := v.rows.meta
			numbers.Dims = []int64{meta.Rows}
			in.record(v.rows, numbers)
		}
	}
	in.record(v, meta)
	return nil
}

func (in *inference) record(v *variable, meta ops.Meta) {
	in.before = append(in.before, typed{v, v.meta})
	v.meta, v.changed = meta, in.walks
}

// same reports whether two types of one form have the same numbers.
func same(a, b ops.Meta) bool {
	return slices.Equal(a.Dims, b.Dims) && slices.Equal(a.Sequences, b.Sequences) && a.Rows == b.Rows && slices.EqualFunc(a.LoD, b.LoD, slices.Equal[[]int64]) &&
		(a.Value == b.Value || sameValue(a.Value, b.Value)) && (a.Largest == b.Largest || *a.Largest == *b.Largest)
}

func sameValue(a, b *tensor.Tensor) bool {
	return a.DType() == b.DType() && slices.Equal(a.Dims(), b.Dims()) && string(tensor.AppendStream(nil, a)) == string(tensor.AppendStream(nil, b))
}
