// Package fault is the one form in which every room of EDL reports that something is wrong.
//
// A Fault carries what a person needs in order to act: the operation that failed, the op and variable of the
// program that it concerns, what was found, what was wanted, the line of user code that built the op, and what
// to do about it. Its Kind is a closed list that survives the wire and maps, in one table, to gRPC codes and to the exit
// codes of the command.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
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

// List is every fault that one check found. It is an error whose message holds one fault a line.
type List []*Fault

// Add appends a fault.
func (l *List) Add(f *Fault) { *l = append(*l, f) }

// Err returns nil for an empty list, so that a check ends with "return list.Err()".
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Error renders one fault a line, headed by their number when there is more than one.
func (l List) Error() string {
	if len(l) == 1 {
		return l[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d faults:", len(l))
	for _, f := range l {
		b.WriteString("\n  ")
		b.WriteString(f.Error())
	}
	return b.String()
}

// Unwrap exposes each fault to errors.Is and errors.As.
func (l List) Unwrap() []error {
	errs := make([]error, len(l))
	for i, f := range l {
		errs[i] = f
	}
	return errs
}

// File gives an error of the file system its place and kind: NotFound where there is no such file, else the given one. The message names the path
// once, as the caller knows it. It returns nil when err is nil.
func File(kind Kind, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		kind = NotFound
	}
	var at *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &at):
		err = at.Err
	case errors.As(err, &between):
		err = between.Err
	}
	return Wrap(kind, path, err)
}

// maxQuoted is the number of bytes of a hostile or careless name that a message shows.
const maxQuoted = 128

// Quote shows a string that came from outside: escaped to printable ASCII, and cut to 128 bytes, so that no name can
// break a terminal or flood a log.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
