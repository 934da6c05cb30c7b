package ops

import "github.com/edl-go/edl/program"

// attrs reads the attributes of an op with the defaults of its definition.
type attrs struct {
	op  *program.Op
	def *Def
}

func (a attrs) fallback(name string) *program.Op {
	for _, d := range a.def.Attrs {
		if d.Name == name && d.Default != nil {
			return &program.Op{Attrs: map[string]program.Attr{name: d.Default}}
		}
	}
	return &program.Op{}
}

// Op returns the op itself.
func (a attrs) Op() *program.Op { return a.op }

// Int returns an integer attribute, its default when the op does not set it.
func (a attrs) Int(name string) int64 {
	if v, ok := a.op.Int(name); ok {
		return v
	}
	v, _ := a.fallback(name).Int(name)
	return v
}

// Ints returns a list of integers, its default when the op does not set it.
func (a attrs) Ints(name string) []int64 {
	if v, ok := a.op.Ints(name); ok {
		return v
	}
	v, _ := a.fallback(name).Ints(name)
	return v
}

// Float returns a number, its default when the op does not set it.
func (a attrs) Float(name string) float64 {
	if v, ok := a.op.Float(name); ok {
		return v
	}
	v, _ := a.fallback(name).Float(name)
	return v
}

// Bool returns a truth value, its default when the op does not set it.
func (a attrs) Bool(name string) bool {
	if v, ok := a.op.Bool(name); ok {
		return v
	}
	v, _ := a.fallback(name).Bool(name)
	return v
}

// Str returns a string, its default when the op does not set it.
func (a attrs) Str(name string) string {
	if v, ok := a.op.Str(name); ok {
		return v
	}
	v, _ := a.fallback(name).Str(name)
	return v
}

// Strs returns a list of strings, its default when the op does not set it.
func (a attrs) Strs(name string) []string {
	if v, ok := a.op.Strs(name); ok {
		return v
	}
	v, _ := a.fallback(name).Strs(name)
	return v
}
