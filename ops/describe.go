package ops

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/program"
)

// Describe writes a table of all registered ops, one a line: type, class, whether a gradient flows through, the first sentence of the
// documentation, slots, and attributes with their defaults. A star marks a slot of any number of variables, a question mark one
// that may be absent, and an exclamation mark an attribute that must be set.
func Describe(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OP\tCLASS\tGRADIENT\tSUMMARY\tINPUTS\tOUTPUTS\tATTRIBUTES")
	for _, d := range All() {
		gradient := "-"
		if d.Gradient != nil {
			gradient = "yes"
		}
		fmt.Fprintf(table, "%s\t%v\t%s\t%s\t%s\t%s\t%s\n", d.Type, d.Class, gradient, d.Summary(), marked(d.Inputs), marked(d.Outputs), briefAttrs(d.Attrs))
	}
	return table.Flush()
}

// Summary returns the first sentence of the documentation.
func (d *Def) Summary() string {
	first, _, more := strings.Cut(d.Doc, ". ")
	if more {
		first += "."
	}
	return first
}

// marked lists the names of slots with their marks.
func marked(slots []Slot) string {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = s.Name
		if s.Duplicable {
			names[i] += "*"
		}
		if s.Dispensable || s.Intermediate {
			names[i] += "?"
		}
	}
	return orDash(names)
}

// briefAttrs lists attributes as name=default, or name! for one that must be set.
func briefAttrs(attrs []Attr) string {
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = a.Name + "!"
		if a.Default != nil {
			names[i] = a.Name + "=" + valueText(a.Default)
		}
	}
	return orDash(names)
}

func orDash(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, " ")
}

// valueText writes the value of an attribute without spaces, strings in quotes.
func valueText(value program.Attr) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case []string:
		return strings.ReplaceAll(fmt.Sprintf("%q", v), " ", ",")
	}
	return strings.ReplaceAll(fmt.Sprint(value), " ", ",")
}
