package pair

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A Gradient says what F_grad adds to F.
type Gradient struct {
	Doc     string   // the formula
	Inputs  []string // input slots of F that it reads
	Outputs []string // output slots of F that it reads
	From    []string // output slots of F whose gradients it reads; nil: all that are not intermediate
	Wrt     []string // input slots of F whose gradients it writes

	// StandIn names, for an input slot of F that F_grad may lack, a slot of F_grad of the same dims and dtype.
	StandIn map[string]string

	// Refine changes what was inferred for the gradients, when they are not like the variables that they are of. Nil: they are.
	Refine func(*ops.Shapes)
	Rows   bool // the gradients may be sparse rows

	InPlace map[string]string // output -> input, as in ops.Def
	Cost    func(*ops.Shapes) ops.Cost
	Bind    func(*ops.Binding) (ops.Kernel, error)
}

// Register registers the op f, and g as the op f.Type + "_grad" that differentiates it.
func Register(f ops.Def, g Gradient) {
	if g.From == nil {
		for _, s := range f.Outputs {
			if !s.Intermediate {
				g.From = append(g.From, s.Name)
			}
		}
	}
	f.Gradient = maker(f, g)
	ops.Register(f)
	ops.Register(gradientDef(f, g))
}

// maker is ops.StandardGrad without the gradients that g does not read.
func maker(f ops.Def, g Gradient) func(*ops.Grad) ([]*program.Op, error) {
	standard := ops.StandardGrad(g.Inputs, g.Outputs, g.Wrt)
	return func(grad *ops.Grad) ([]*program.Op, error) {
		made, err := standard(grad)
		if err != nil {
			return nil, err
		}
		for _, s := range f.Outputs {
			if !slices.Contains(g.From, s.Name) {
				delete(made[0].Inputs, program.GradName(s.Name))
			}
		}
		return made, nil
	}
}

func gradientDef(f ops.Def, g Gradient) ops.Def {
	d := ops.Def{
		Type:  f.Type + "_grad",
		Class: ops.Backward,
		Doc:   fmt.Sprintf("The gradient of %s: %s", f.Type, g.Doc),
		Attrs: f.Attrs, InPlace: g.InPlace, Cost: g.Cost, Bind: g.Bind,
		Infer: func(s *ops.Shapes) error {
			if err := inferGradient(s, f, g); err != nil || g.Refine == nil {
				return err
			}
			g.Refine(s)
			return nil
		},
	}
	for _, s := range f.Inputs {
		if slices.Contains(g.Inputs, s.Name) {
			_, lacks := g.StandIn[s.Name]
			s.Dispensable = s.Dispensable || lacks
			d.Inputs = append(d.Inputs, s)
		}
		if slices.Contains(g.Wrt, s.Name) {
			d.Outputs = append(d.Outputs, ops.Slot{Name: program.GradName(s.Name), Doc: "gradient of " + s.Name, Duplicable: s.Duplicable,
				Dispensable: true, Rows: g.Rows})
		}
	}
	for _, s := range f.Outputs {
		if slices.Contains(g.Outputs, s.Name) {
			s.Intermediate = false
			d.Inputs = append(d.Inputs, s)
		}
		if slices.Contains(g.From, s.Name) {
			d.Inputs = append(d.Inputs, ops.Slot{Name: program.GradName(s.Name), Doc: "gradient of " + s.Name, Duplicable: s.Duplicable,
				Dispensable: len(g.From) > 1}) // of several, those that did not arrive are zeros
		}
	}
	return d
}
