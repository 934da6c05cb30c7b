package ops

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/fault"
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

// DescribeOp writes everything that is known of one op. It fails with fault.NotFound for a type that is not registered.
func DescribeOp(w io.Writer, opType string) error {
	d, ok := Lookup(opType)
	if !ok {
		return fault.E(fault.NotFound, fault.Got("the op type "+fault.Quote(opType)), fault.Want("an op that `edl show ops` lists"))
	}
	page := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(page, "%s (%v)\n\n", d.Type, d.Class)
	for sentence := range strings.SplitSeq(strings.TrimSuffix(d.Doc, "."), ". ") {
		fmt.Fprintf(page, "  %s.\n", sentence)
	}
	describeSlots(page, "Inputs", d.Inputs)
	describeSlots(page, "Outputs", d.Outputs)
	describeAttrs(page, d.Attrs)
	fmt.Fprintln(page, "\nProperties")
	for _, p := range d.properties() {
		fmt.Fprintf(page, "  %s\t%s\n", p[0], p[1])
	}
	return page.Flush()
}

func describeSlots(w io.Writer, title string, slots []Slot) {
	if len(slots) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, s := range slots {
		var notes []string
		if s.Duplicable {
			notes = append(notes, "any number")
		}
		if s.Dispensable {
			notes = append(notes, "may be absent")
		}
		if s.Intermediate {
			notes = append(notes, "for the gradient only")
		}
		if s.Rows {
			notes = append(notes, "may be sparse rows")
		}
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, strings.Join(append([]string{s.Doc}, notes...), "; "))
	}
}

func describeAttrs(w io.Writer, attrs []Attr) {
	if len(attrs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nAttributes")
	for _, a := range attrs {
		value := "required"
		if a.Default != nil {
			value = "default " + valueText(a.Default)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", a.Name, program.AttrTypeName(a.zero()), value, a.Doc)
	}
}

// properties lists what else follows from the definition, in plain words.
func (d *Def) properties() [][2]string {
	gradient := "none flows through"
	if d.Gradient != nil {
		gradient = "yes"
	}
	list := [][2]string{{"gradient", gradient}}
	if d.RowSliced {
		list = append(list, [2]string{"rows", "computed alone they have the bits that they have in the whole"})
	}
	for _, out := range d.Outputs {
		if in, ok := d.InPlace[out.Name]; ok {
			list = append(list, [2]string{"in place", out.Name + " may be " + in})
		}
	}
	for _, out := range d.Outputs {
		if m, ok := d.State[out.Name]; ok {
			list = append(list, [2]string{"state", fmt.Sprintf("%s of several trainers merges by %s", out.Name, mergeText(m))})
		}
	}
	if d.HoldsInputs {
		list = append(list, [2]string{"holds", "inputs are read until the next barrier"})
	}
	return list
}

func mergeText(m Merge) string {
	switch m {
	case MergeMean:
		return "mean weighted by rows"
	case MergeSum:
		return "sum of changes"
	case MergeFirst:
		return "that of the first"
	}
	return "nothing"
}
