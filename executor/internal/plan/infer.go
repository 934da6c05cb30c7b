package plan

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// infer walks the ops in order and gives every variable that they touch its concrete Meta and a place. Ops at the border of the program (feed,
// fetch, readers) are left out: what they put out is fed.
func (c *compiler) infer() error {
	for _, name := range slices.Sorted(maps.Keys(c.Feeds)) {
		if err := c.addFeed(name); err != nil {
			return err
		}
	}
	if err := c.checkSources(); err != nil {
		return err
	}
	for _, op := range c.Block.Ops {
		if err := c.addNode(op); err != nil {
			return err
		}
	}
	for _, name := range c.Fetch {
		if v := c.variables[name]; v == nil || v.place == valueless {
			if err := c.fetchUntouched(name); err != nil {
				return err
			}
		} else if v.place == temporary {
			v.place = own
			if v.rows != nil {
				v.rows.place = own
			}
		}
	}
	c.chooseChecks()
	return nil
}

func (c *compiler) addNode(op *program.Op) error {
	if border(op) {
		return nil
	}
	shapes, err := ops.Infer(op, c.inputMeta)
	if err != nil {
		return err
	}
	def, _ := ops.Lookup(op.Type)
	for _, slot := range slices.Sorted(maps.Keys(op.Outputs)) {
		metas := shapes.Outs(slot)
		for i, name := range op.Outputs[slot] {
			if name == program.Empty {
				continue
			}
			if err := c.output(name, metas[i]); err != nil {
				return ops.At(op, err)
			}
		}
	}
	n := node{op: op, def: def}
	if def.Cost != nil {
		n.cost = def.Cost(shapes)
	} else {
		for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
			n.cost.Bytes += c.variables[name].bytes()
		}
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// inputMeta is what ops.Infer asks for. A variable that no step has met yet lives in the scope.
func (c *compiler) inputMeta(name string) (ops.Meta, bool) {
	if v, ok := c.variables[name]; ok {
		return v.meta, true
	}
	declared, ok := c.Block.Find(name)
	if !ok {
		return ops.Meta{}, false
	}
	meta := ops.MetaOf(declared).WithoutLoD() // sequences come with feeds only
	if !isTensor(declared) {
		c.add(name, meta, valueless)
		return meta, true
	}
	if t, ok := c.Scope.Find(name); ok {
		meta.DType, meta.Dims = t.DType(), t.Dims()
	}
	c.add(name, meta, scoped)
	return meta, true
}

// output records that an op writes a variable, with what was inferred for it.
func (c *compiler) output(name string, inferred ops.Meta) error {
	declared, ok := c.Block.Find(name)
	if !ok {
		return fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a name that no block declares"), fault.Want("a declared variable"))
	}
	v, met := c.variables[name]
	if !isTensor(declared) {
		if !met {
			c.add(name, ops.MetaOf(declared), valueless)
		}
		return nil
	}
	meta, err := resolve(declared, inferred)
	switch {
	case err != nil:
		return err
	case !met:
		where := temporary
		if own, _ := c.Block.Var(name); own == nil || own.Persistable {
			where = scoped
		}
		return c.addOutput(name, meta, where)
	case v.place == fed:
		return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed for a variable that the program computes"),
			fault.Want("feeds for its inputs"))
	case v.meta.DType != meta.DType || v.meta.Rows != meta.Rows || !slices.Equal(v.meta.Dims, meta.Dims):
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(meta.String()), fault.Want(v.meta.String()+", as it was before"))
	}
	return nil
}

// resolve combines what was inferred with what is declared. All dims must be known afterwards.
func resolve(declared *program.Var, inferred ops.Meta) (ops.Meta, error) {
	want := ops.MetaOf(declared)
	if inferred.Dims == nil && inferred.Kind == 0 {
		inferred = want.WithoutLoD() // an op such as load, whose output only the declaration describes
	}
	switch {
	case inferred.Kind != want.Kind || inferred.DType != want.DType:
		return want, fault.E(fault.TypeMismatch, fault.Var(declared.Name), fault.Got(inferred.String()), fault.Want(want.String()))
	case !ops.Compatible(inferred.Dims, want.Dims):
		return want, fault.E(fault.ShapeMismatch, fault.Var(declared.Name), fault.Got(inferred.String()), fault.Want(want.String()))
	}
	meta := inferred
	meta.Dims = slices.Clone(inferred.Dims)
	for i, d := range meta.Dims {
		if d == program.Unknown {
			meta.Dims[i] = want.Dims[i]
		}
	}
	if meta.Rows == program.Unknown || slices.Contains(meta.Dims, program.Unknown) {
		return meta, fault.E(fault.ShapeMismatch, fault.Var(declared.Name), fault.Gotf("open dims %v", meta.Dims),
			fault.Want("dims that follow from the feeds"), fault.Hint("declare the extent, or feed what decides it"))
	}
	return meta, nil
}

func (c *compiler) add(name string, meta ops.Meta, where place) *variable {
	v := &variable{name: name, meta: meta, place: where}
	if name != "" {
		c.variables[name] = v
	}
	c.order = append(c.order, v)
	return v
}
