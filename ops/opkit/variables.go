package opkit

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// ByVariables returns the definition of an op that takes some attributes from variables, too, as many ops of Paddle 2 do (attributes of type VAR and VARS). The
// slots are those of program.SlotOfAttr, unless the attribute has others. The program must compute all numbers from constants and dims before Infer sees them; Infer of
// an op for which Attr.Whole is false sees ops.Open. It panics for an attribute that d does not define.
func ByVariables(d ops.Def, names ...string) ops.Def {
	d.Attrs = slices.Clone(d.Attrs)
	d.Inputs = slices.Clone(d.Inputs)
	for _, name := range names {
		i := slices.IndexFunc(d.Attrs, func(a ops.Attr) bool { return a.Name == name })
		if i < 0 {
			panic(fmt.Sprintf("opkit: %s has no attribute %s", d.Type, name))
		}
		a := &d.Attrs[i]
		one, many := program.SlotOfAttr(name)
		a.Whole = true
		if a.Tensor == "" {
			a.Tensor = one
			d.Inputs = append(d.Inputs, ops.Slot{Name: one, Dispensable: true, Doc: "numbers that the program computes from constants and dims, in place of " + name})
		}
		if a.Tensors == "" {
			a.Tensors = many
			d.Inputs = append(d.Inputs, ops.Slot{Name: many, Dispensable: true, Duplicable: true,
				Doc: "variables of one number each that the program computes from constants and dims, in place of " + name})
		}
	}
	return d
}

// Open lets Infer of an op see attributes of which variables give numbers that inference does not know. Bind sees numbers alone.
func Open(d ops.Def) ops.Def {
	for i := range d.Attrs {
		d.Attrs[i].Whole = false
	}
	return d
}
