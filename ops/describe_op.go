package ops

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// DescribeOp writes everything that is known of one op. It fails with fault.NotFound for a type that is not registered.
func DescribeOp(w io.Writer, opType string) error {
	d, ok := Lookup(opType)
	if !ok {
		return fault.E(fault.NotFound, fault.Got("the op type "+fault.Quote(opType)), fault.Want("one of those that `edl show ops` lists"))
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
