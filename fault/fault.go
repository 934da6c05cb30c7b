// Package fault is the one form in which every room of EDL reports that something is wrong.
//
// A Fault carries what a person needs in order to act: the operation that failed, the op and variable of the
// program that it concerns, what was found, what was wanted, the line of user code that built the op, and what
// to do about it. Its Kind is a closed list that survives the wire and maps, in one table, to gRPC codes and to the exit
// codes of the command.
package fault

import (
	"errors"
	"strings"
)

// A Fault is one thing that is wrong. Empty fields are left out of the message.
type Fault struct {
	Kind     Kind   // what sort of thing is wrong
	Op       string // type of the op of the program, such as "mul"
	Variable string // variable of the program
	Where    string // file, block, endpoint or member: where it was found
	Got      string // what was found
	Want     string // what would have been right
	Line     string // file:line of user code that built the op
	Hint     string // what to do
	Err      error  // cause, may be nil
}

// New returns a Fault of a kind with the plain statement of what is wrong.
func New(kind Kind, what string) *Fault {
	return E(kind, Cause(errors.New(what)))
}

// Wrap gives err a kind and a place. It returns nil when err is nil.
func Wrap(kind Kind, where string, err error) error {
	if err == nil {
		return nil
	}
	return E(kind, At(where), Cause(err))
}

// Error renders the fault on one line: line of user code, where, op, variable, cause, got, want, hint.
func (f *Fault) Error() string {
	var b strings.Builder
	part := func(sep, s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
	}
	part("", f.Line)
	part(": ", f.Where)
	if f.Op != "" {
		part(": ", "op "+f.Op)
	}
	if f.Variable != "" {
		part(", ", "variable "+Quote(f.Variable))
	}
	what := f.Kind.String()
	if f.Err != nil {
		what = f.Err.Error()
	}
	part(": ", what)
	if f.Got != "" {
		part(": ", "got "+f.Got)
	}
	if f.Want != "" {
		part(", ", "want "+f.Want)
	}
	part("; ", f.Hint)
	return b.String()
}

// In returns a copy that names the larger place, such as a file, in which the place of the fault lies; the separator stands between the two.
func (f *Fault) In(whole, separator string) *Fault {
	c := *f
	c.Where = whole
	if f.Where != "" {
		c.Where += separator + f.Where
	}
	return &c
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Is reports whether target is the same kind, so that errors.Is(err, fault.NotFound) works.
func (f *Fault) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == f.Kind
}

// KindOf returns the kind of the first Fault in err's chain, Internal when there is none, and OK for nil.
func KindOf(err error) Kind {
	if err == nil {
		return OK
	}
	var f *Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	var k Kind
	if errors.As(err, &k) {
		return k
	}
	return Internal
}
