package edlcmd

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// An opReport is one op of the registry.
type opReport struct {
	Type     string       `json:"type"`
	Class    string       `json:"class"`
	Doc      string       `json:"doc"`
	Inputs   []slotReport `json:"inputs"`
	Outputs  []slotReport `json:"outputs"`
	Attrs    []attrReport `json:"attrs"`
	Gradient bool         `json:"gradient"`
}

type (
	slotReport struct {
		Name        string `json:"name"`
		Doc         string `json:"doc"`
		Duplicable  bool   `json:"duplicable"`
		Dispensable bool   `json:"dispensable"`
	}
	attrReport struct {
		Name    string `json:"name"`
		Type    string `json:"type"`
		Default string `json:"default,omitempty"` // absent: the attribute is required
		Doc     string `json:"doc"`
	}
)

func newShowOps(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ops [OP]",
		Short: "List the ops, or show one with its slots and attributes",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var types []string
			for _, d := range ops.All() {
				types = append(types, d.Type)
			}
			return types, cobra.ShellCompDirectiveNoFileComp
		},
	}
	output := outputFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return showOp(c, args[0], output.value)
		}
		return listOps(c, output.value)
	}
	return cmd
}

func listOps(c *console, output string) error {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, d := range ops.All() {
		if output == "json" {
			if err := writeJSON(c.out, describeOp(d)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", d.Type, strings.ToLower(d.Class.String()), firstSentence(d.Doc))
	}
	return t.Flush()
}

// opTypes are the types of all ops that this build knows.
func opTypes() (types []string) {
	for _, d := range ops.All() {
		types = append(types, d.Type)
	}
	return types
}

func showOp(c *console, opType, output string) error {
	d, ok := ops.Lookup(opType)
	if !ok {
		return fault.E(fault.NotFound, fault.Got("op "+fault.Quote(opType)), fault.Want("one that \"edl show ops\" lists"), fault.DidYouMean(opType, opTypes()))
	}
	r := describeOp(d)
	if output == "json" {
		return writeJSON(c.out, r)
	}
	fmt.Fprintf(c.out, "%s (%s)\n\n%s\n", r.Type, strings.ToLower(r.Class), r.Doc)
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, s := range r.Inputs {
		fmt.Fprintf(t, "\ninput\t%s\t%s\t%s", s.Name, kindOfSlot(s), s.Doc)
	}
	for _, s := range r.Outputs {
		fmt.Fprintf(t, "\noutput\t%s\t%s\t%s", s.Name, kindOfSlot(s), s.Doc)
	}
	for _, a := range r.Attrs {
		value := "required"
		if a.Default != "" {
			value = "= " + a.Default
		}
		fmt.Fprintf(t, "\nattribute\t%s\t%s %s\t%s", a.Name, a.Type, value, a.Doc)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

func describeOp(d *ops.Def) opReport {
	r := opReport{Type: d.Type, Class: d.Class.String(), Doc: d.Doc, Inputs: slots(d.Inputs), Outputs: slots(d.Outputs), Attrs: []attrReport{},
		Gradient: d.Gradient != nil}
	for _, a := range d.Attrs {
		kind, value := a.Kind, ""
		if a.Default != nil {
			kind, value = a.Default, fmt.Sprintf("%#v", a.Default)
			value = strings.TrimPrefix(value, fmt.Sprintf("%T", a.Default))
		}
		r.Attrs = append(r.Attrs, attrReport{a.Name, program.AttrTypeName(kind), value, a.Doc})
	}
	slices.SortFunc(r.Attrs, func(a, b attrReport) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func slots(defs []ops.Slot) []slotReport {
	out := []slotReport{}
	for _, s := range defs {
		out = append(out, slotReport{s.Name, s.Doc, s.Duplicable, s.Dispensable})
	}
	return out
}

func kindOfSlot(s slotReport) string {
	switch {
	case s.Duplicable:
		return "variables"
	case s.Dispensable:
		return "optional"
	}
	return "variable"
}

// firstSentence is the summary of a documentation.
func firstSentence(doc string) string {
	if i := strings.Index(doc, ". "); i >= 0 {
		return doc[:i+1]
	}
	return doc
}
