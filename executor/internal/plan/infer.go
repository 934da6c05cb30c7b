package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// infer walks the ops in order, gives every variable that they touch its concrete Meta, and lists the steps. Ops at the border of the program (feed,
// fetch, readers) become no steps: their outputs are fed.
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
		if err := c.addStep(op); err != nil {
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
		}
	}
	c.findUpdate()
	return nil
}

func (c *compiler) addStep(op *program.Op) error {
	if border(op) {
		return nil
	}
	at := len(c.plan.steps)
	shapes, err := ops.Infer(op, c.inputMeta)
	if err != nil {
		return err
	}
	def, _ := ops.Lookup(op.Type)
	s := step{op: op, def: def}
	for _, name := range op.InputNames() {
		v := c.variables[name]
		v.last = at
		s.reads = append(s.reads, v)
	}
	for _, slot := range slices.Sorted(maps.Keys(op.Outputs)) {
		metas := shapes.Outs(slot)
		for i, name := range op.Outputs[slot] {
			if name == program.Empty {
				continue
			}
			v, err := c.output(op, name, metas[i], at)
			if err != nil {
				return ops.At(op, err)
			}
			s.writes = append(s.writes, v)
		}
	}
	c.plan.steps = append(c.plan.steps, s)
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
	meta, at := ops.MetaOf(declared), len(c.plan.steps)
	if declared.Kind != program.LoDTensor {
		c.add(name, meta, valueless).first = at
		return meta, true
	}
	if t, ok := c.Scope.Find(name); ok {
		meta.DType, meta.Dims = t.DType(), t.Dims()
	}
	v := c.add(name, meta, scoped)
	v.first, v.writer = at, -1
	return meta, true
}

// output records that a step writes a variable, with what was inferred for it.
func (c *compiler) output(op *program.Op, name string, inferred ops.Meta, at int) (*variable, error) {
	declared, ok := c.Block.Find(name)
	if !ok {
		return nil, &fault.Fault{Kind: fault.InvalidProgram, Variable: name, Got: "a name that no block declares", Want: "a declared variable"}
	}
	if declared.Kind != program.LoDTensor {
		v, ok := c.variables[name]
		if !ok {
			v = c.add(name, ops.MetaOf(declared), valueless)
			v.first, v.writer = at, at
		}
		v.last = at
		return v, nil
	}
	meta, err := resolve(declared, inferred)
	if err != nil {
		return nil, err
	}
	v, ok := c.variables[name]
	if !ok {
		where := temporary
		if own, _ := c.Block.Var(name); own == nil || own.Persistable {
			where = scoped
		}
		v = c.add(name, meta, where)
		v.first, v.writer = at, at
	}
	switch {
	case v.place == fed:
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Variable: name, Got: "a feed for a variable that the program computes", Want: "feeds for its inputs"}
	case v.meta.DType != meta.DType || !slices.Equal(v.meta.Dims, meta.Dims):
		return nil, &fault.Fault{Kind: fault.ShapeMismatch, Variable: name, Got: meta.String(), Want: v.meta.String() + ", as it was before"}
	}
	if v.writer < 0 {
		v.writer = at
	}
	v.last = at
	return v, nil
}

// resolve combines what was inferred with what is declared. All dims must be known afterwards.
func resolve(declared *program.Var, inferred ops.Meta) (ops.Meta, error) {
	want := ops.MetaOf(declared)
	if inferred.Dims == nil && inferred.Kind == 0 {
		inferred = want // an op such as load, whose output only the declaration describes
	}
	switch {
	case inferred.DType != want.DType:
		return want, &fault.Fault{Kind: fault.TypeMismatch, Variable: declared.Name, Got: inferred.String(), Want: want.String()}
	case !ops.Compatible(inferred.Dims, want.Dims):
		return want, &fault.Fault{Kind: fault.ShapeMismatch, Variable: declared.Name, Got: inferred.String(), Want: want.String()}
	}
	meta := inferred
	meta.Kind, meta.Dims = program.LoDTensor, slices.Clone(inferred.Dims)
	for i, d := range meta.Dims {
		if d == program.Unknown {
			meta.Dims[i] = want.Dims[i]
		}
	}
	if slices.Contains(meta.Dims, program.Unknown) {
		return meta, &fault.Fault{Kind: fault.ShapeMismatch, Variable: declared.Name, Got: fmt.Sprintf("open dims %v", meta.Dims),
			Want: "dims that follow from the feeds", Hint: "declare the extent, or feed what decides it"}
	}
	return meta, nil
}

func (c *compiler) add(name string, meta ops.Meta, where place) *variable {
	v := &variable{name: name, meta: meta, place: where}
	c.variables[name] = v
	c.order = append(c.order, v)
	return v
}
