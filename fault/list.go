package fault

import (
	"fmt"
	"strings"
)

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
