// Package fault is the form of every error of EDL.
//
// A Fault says what a person needs in order to act: where the error is, the op and the variable of the program, what was found, what is right,
// the line of user code that built the op, and what to do. A Kind says what sort of error it is. Kinds are a closed list: they keep
// their numbers on the wire, and one table gives each its gRPC code, its exit code of the command, and whether trying again can help.
//
// Make a Fault by E. New and Wrap are short forms of E for a plain statement and for the error of a library, File for an error of the file
// system. List collects all faults of one check.
//
// Files: fault.go (Fault, List), reason.go (what several faults say alike), e.go (E and its fields), kind.go (the table of kinds).
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// A Fault is one error. The message leaves out empty fields.
type Fault struct {
	Kind     Kind   // what sort of error
	Op       string // type of the op of the program, such as "mul"
	Variable string // variable of the program
	Where    string // the file, block, endpoint or member
	Got      string // what was found
	Want     string // what is right
	Line     string // file:line of user code that built the op
	Hint     string // what to do
	Err      error  // the cause, or nil
}

// New makes a Fault whose message is the plain statement of what is wrong.
func New(kind Kind, what string) *Fault {
	return E(kind, Cause(errors.New(what)))
}

// Wrap makes a Fault of a kind and a place with the cause err. It returns nil if err is nil.
func Wrap(kind Kind, where string, err error) error {
	if err == nil {
		return nil
	}
	return E(kind, At(where), Cause(err))
}

// Error returns the fault in one line: line of user code, where, op, variable, cause, got, want, hint. A fault without a cause names its kind.
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

// In returns a copy with a larger place, such as a file, in front of the place of the fault. The separator stands between the two.
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

// Is lets errors.Is(err, fault.NotFound) ask for a kind.
func (f *Fault) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == f.Kind
}

// KindOf returns the kind of the first Fault in the chain of err. It returns OK for nil, and Internal for an error without a Fault.
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

// A List holds all faults that one check found. As an error it has one line for each.
type List []*Fault

// Add appends a fault.
func (l *List) Add(f *Fault) { *l = append(*l, f) }

// Err returns the list as an error, and nil for an empty list. A check ends with "return list.Err()".
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Error returns one line for each fault, but one only for all that say alike what this build does not support. If there are several, a first line
// counts them.
func (l List) Error() string {
	if len(l) == 1 {
		return l[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d faults:", len(l))
	line := func(text string) {
		b.WriteString("\n  ")
		b.WriteString(text)
	}
	reasons := map[*Fault]Reason{}
	for _, r := range l.Reasons() {
		reasons[r.First] = r
	}
	for i, f := range l {
		if i == maxListed && len(l) > maxListed+1 {
			line(fmt.Sprintf("and %d more", len(l)-i))
			break
		}
		r, first := reasons[f]
		switch {
		case f.Kind != Unsupported:
			line(f.Error())
		case first:
			line(r.String())
		}
	}
	return b.String()
}

// maxListed is how many faults a message shows before it counts the rest. It shows the next one, too, if that is the last: a list that was cut before says so there.
const maxListed = 100

// Unwrap lets errors.Is and errors.As see each fault.
func (l List) Unwrap() []error {
	errs := make([]error, len(l))
	for i, f := range l {
		errs[i] = f
	}
	return errs
}

// File is Wrap for an error of the file system. The kind is NotFound if the file does not exist. The message names the path once, as the caller
// knows it. A refusal (Denied) stays what it is.
func File(kind Kind, path string, err error) error {
	if f := (*Fault)(nil); errors.As(err, &f) && f.Kind == Denied {
		return err
	}
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

// maxQuoted is how many bytes of a name from outside a message shows.
const maxQuoted = 128

// Quote quotes a string from outside for a message. It escapes all but printable ASCII and cuts after 128 bytes, so that no name can break a
// terminal or flood a log.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
