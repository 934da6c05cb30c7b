package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// addFeed records a variable that gets its value from outside.
func (c *compiler) addFeed(name string) error {
	declared, ok := c.Block.Find(name)
	if !ok {
		return fault.E(fault.NotFound, fault.Var(name), fault.Got("a feed"), fault.Want("the name of a variable of the program"))
	}
	meta := c.Feeds[name]
	switch {
	case declared.Kind != program.LoDTensor || declared.Persistable:
		return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed"), fault.Want("a feed for a tensor that is not persistable"))
	case meta.Kind == program.SelectedRows:
		return fault.E(fault.TypeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want("a dense tensor"))
	case declared.DType != meta.DType:
		return fault.E(fault.TypeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want(ops.MetaOf(declared).String()))
	case !ops.Compatible(declared.Dims, meta.Dims):
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want(ops.MetaOf(declared).String()))
	}
	if meta.LoDLevel > 0 {
		meta.LoDOf = name
	}
	c.add(name, meta, fed)
	return nil
}

// checkSources lists every variable that is read and has no value by then, at once.
func (c *compiler) checkSources() error {
	written, missing := map[string]bool{}, map[string]*program.Op{}
	for _, op := range c.Block.Ops {
		if border(op) {
			continue
		}
		for _, name := range op.InputNames() {
			declared, ok := c.Block.Find(name)
			if !ok || !isTensor(declared) || written[name] || missing[name] != nil {
				continue
			}
			if _, isFed := c.Feeds[name]; isFed {
				continue
			}
			if _, ok := c.Scope.Find(name); !ok || declared.Kind == program.SelectedRows {
				missing[name] = op
			}
		}
		for _, name := range op.OutputNames() {
			written[name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(missing))
	f := fault.E(fault.NotFound, fault.Got("no value for "+strings.Join(names, ", ")), fault.Want("a feed, or a value in the scope"))
	if len(names) == 1 {
		f.Variable, f.Op, f.Line = names[0], missing[names[0]].Type, missing[names[0]].Line()
	}
	return f
}

// border reports whether an op stands at the border of a program: what it puts out comes from outside.
func border(op *program.Op) bool {
	def, ok := ops.Lookup(op.Type)
	return ok && (def.Class == ops.Feed || def.Class == ops.Read)
}

// fetchUntouched finds the value of a fetched variable that no step touches.
func (c *compiler) fetchUntouched(name string) error {
	declared, ok := c.Block.Find(name)
	if ok && declared.Kind == program.LoDTensor {
		if t, found := c.Scope.Find(name); found {
			c.add(name, ops.Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims()}, scoped)
			return nil
		}
	}
	got := "a variable that no op computes"
	if !ok {
		got = "a name that the program does not declare"
	}
	return fault.E(fault.NotFound, fault.Var(name), fault.Got(got), fault.Want("a variable to fetch"))
}
