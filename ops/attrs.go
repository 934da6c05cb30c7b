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
func (a attrs) Int(name string) int64 { return attr(a, name, (*program.Op).Int) }

// Ints returns a list of integers, its default when the op does not set it.
func (a attrs) Ints(name string) []int64 { return attr(a, name, (*program.Op).Ints) }

// Float returns a number, its default when the op does not set it.
func (a attrs) Float(name string) float64 { return attr(a, name, (*program.Op).Float) }

// Bool returns a truth value, its default when the op does not set it.
func (a attrs) Bool(name string) bool { return attr(a, name, (*program.Op).Bool) }

// Str returns a string, its default when the op does not set it.
func (a attrs) Str(name string) string { return attr(a, name, (*program.Op).Str) }

// Strs returns a list of strings, its default when the op does not set it.
func (a attrs) Strs(name string) []string { return attr(a, name, (*program.Op).Strs) }

func attr[V any](a attrs, name string, read func(*program.Op, string) (V, bool)) V {
	v, ok := read(a.op, name)
	if !ok {
		v, _ = read(a.fallback(name), name)
	}
	return v
}
