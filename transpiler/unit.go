package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A unit is what one server runs and holds of one group: the whole of it, or the update of one slice of its parameter.
type unit struct {
	group  *group
	block  int // number of the slice, Whole
	first  int64
	rows   int64             // of the parameter; unused when whole
	names  map[string]string // variable of the program -> name at the server; others keep their name
	bytes  int64             // persistable variables that the group owns
	server int               // set by place
}

// name returns the name at the server of a variable of the group.
func (u *unit) name(variable string) string {
	if name, ok := u.names[variable]; ok {
		return name
	}
	return variable
}

// at returns the declaration at the server of a variable of the group: under its name there, with the rows of the slice.
func (s *state) at(u *unit, variable string) program.Var {
	v := s.variable(variable).Copy(u.name(variable))
	if s.isCut(u, variable) {
		v.Dims[0] = u.rows
	}
	return v
}

// isCut reports whether a slice holds rows of the variable and not all of it.
func (s *state) isCut(u *unit, variable string) bool {
	return u.block != Whole && slices.Equal(s.variable(variable).Dims, s.variable(u.group.params[0]).Dims)
}

// bytesOf returns the memory of a variable of known dims.
func bytesOf(v *program.Var) int64 {
	return max(0, ops.Product(v.Dims)) * int64(v.DType.Size())
}
