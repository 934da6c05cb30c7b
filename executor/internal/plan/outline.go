package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// An outline infers types in a block that an op runs. Dims may change from run to run there, so extents may stay open. It finds which variables outside of the
// block its ops read and write, and the types of those that they write.
type outline struct {
	in    *inference
	node  *node    // the op of the compiled block
	outer *outline // of the enclosing block; nil if that is the compiled one
	block *program.Block
	types map[string]ops.Meta // of variables of the block that were written
	left  map[string]ops.Meta // of a gradient: those of the forward block
}

// enter infers what the blocks of an op read and write. It walks them twice, because what a loop writes it may read in its next run.
func (in *inference) enter(n *node, shapes *ops.Shapes) error {
	for range 2 {
		if err := (&outline{in: in, node: n, block: in.Block}).enter(n.op, shapes); err != nil {
			return err
		}
	}
	return nil
}

func (o *outline) enter(op *program.Op, shapes *ops.Shapes) error {
	for _, index := range op.SubBlocks() {
		block, err := o.block.Program().Block(index)
		if err != nil {
			return err
		}
		inner := &outline{in: o.in, node: o.node, block: block, types: ops.GivenTypes(shapes), left: o.in.inner[block.Forward]}
		if inner.types == nil {
			inner.types = map[string]ops.Meta{}
		}
		if o.types != nil {
			inner.outer = o
		}
		if o.in.inner == nil {
			o.in.inner = map[int]map[string]ops.Meta{}
		}
		o.in.inner[block.Index] = inner.types
		for _, op := range block.Ops {
			if err := inner.infer(op); err != nil {
				return err
			}
		}
		ops.LeftTypes(shapes, inner.typeOf)
	}
	return nil
}

func (o *outline) infer(op *program.Op) error {
	shapes, err := o.in.inferInside(op, o.typeOf)
	if err != nil { // a block that does not run may be one that cannot: with the values of dims more is known of that
		shapes, err = ops.Infer(op, func(name string) (ops.Meta, bool) {
			m, ok := o.typeOf(name)
			m.Value = nil
			return m, ok
		})
	}
	if err == nil {
		err = o.enter(op, shapes)
	}
	if err != nil {
		return ops.At(op, err)
	}
	def, _ := ops.Lookup(op.Type)
	for slot, names := range def.Changing(op).Outputs {
		for i, name := range names {
			m := shapes.Outs(slot)[i]
			if name == program.Empty || m.Kind == 0 && len(op.SubBlocks()) > 0 {
				continue
			}
			if err := o.write(name, m); err != nil {
				return ops.At(op, err)
			}
		}
	}
	return nil
}

func (o *outline) typeOf(name string) (ops.Meta, bool) {
	if m, ok := o.types[name]; ok {
		return m, true
	}
	if m, ok := o.left[name]; ok && !o.own(name) {
		return m, true
	}
	if v, ok := o.block.Find(name); ok && o.block.Declares(name) {
		return ops.MetaOf(v), true
	}
	if o.outer != nil {
		return o.outer.typeOf(name)
	}
	m, ok := o.in.inputMeta(name)
	if ok && !slices.Contains(o.node.reads, name) {
		o.node.reads = append(o.node.reads, name)
	}
	return m, ok
}

// own reports whether the block itself declares a name.
func (o *outline) own(name string) bool {
	_, ok := o.block.Var(name)
	return ok
}

// write records the type of what an op of the block writes. The value of a variable of the block is known if one op writes it: only ops that run after that op read it. The value of
// a variable outside is not, because the block may not run.
func (o *outline) write(name string, m ops.Meta) error {
	if v, ok := o.block.Find(name); ok && o.block.Declares(name) {
		if m.Kind == 0 {
			m = ops.MetaOf(v)
		}
		if !o.in.once[name] {
			m.Value = nil
		}
		if before, met := o.types[name]; met {
			value := m.Value
			m = joined(before, m)
			m.Value = value
		}
		o.types[name] = m
		return nil
	}
	m.Value = nil
	if o.outer != nil {
		return o.outer.write(name, m)
	}
	if !slices.Contains(o.node.writes, name) {
		o.node.writes = append(o.node.writes, name)
	}
	return o.in.output(&result{name: name}, m, true)
}

// exposed returns the names that an op reads from outside, each once. For an op that runs blocks these include what ops of the blocks read and no op of them has
// written before.
func exposed(block *program.Block, op *program.Op) []string {
	names := op.InputNames()
	if def, ok := ops.Lookup(op.Type); !ok || def.Class != ops.Control || len(op.SubBlocks()) == 0 {
		return names
	}
	for _, index := range op.SubBlocks() {
		sub, err := block.Program().Block(index)
		if err != nil {
			continue // the verifier has refused it
		}
		written := map[string]bool{}
		for _, inner := range sub.Ops {
			for _, name := range exposed(sub, inner) {
				if !sub.Declares(name) && !written[name] && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			_, writes := sub.Touches(inner)
			for name := range writes {
				written[name] = true
			}
		}
	}
	return names
}
