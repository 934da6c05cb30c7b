package ops

import (
	"fmt"
	"io"
	"strings"
)

// Table writes all registered ops without their gradients as a table of Markdown: the page docs/ops.md ends with it. All columns follow from the
// registry. The LoD of an op is found by what its inference makes of inputs that have one. What a definition says of Fluid is where the op deviates.
func Table(w io.Writer) error {
	var page strings.Builder
	page.WriteString("| op | Fluid | attributes | LoD | gradient | sliceable | deviates |\n|---|---|---|---|---|---|---|\n")
	for _, d := range All() {
		if d.Class == Backward {
			continue
		}
		since := Introduced(d.Type)
		if since == "" {
			since = "EDL"
		}
		gradient, sliced := "-", "-"
		if d.Gradient != nil {
			gradient = "yes"
		}
		if d.RowSliced {
			sliced = "yes"
		}
		deviations := orDash(d.deviations())
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s | %s |\n", d.Type, since, inCode(d.Attrs), probeLoD(d), gradient, sliced, inTable(deviations))
	}
	_, err := io.WriteString(w, page.String())
	return err
}

// deviates reports whether a sentence of a definition says where the op differs from Fluid's, and not that both agree.
func deviates(sentence string) bool {
	for _, agrees := range []string{"as Fluid", "as in Fluid", "As in Fluid", "is Fluid's"} {
		sentence = strings.ReplaceAll(sentence, agrees, "")
	}
	return strings.Contains(sentence, "Fluid")
}

// inCode lists attributes with their defaults in the style of code.
func inCode(attrs []Attr) string {
	if len(attrs) == 0 {
		return "-"
	}
	return "`" + strings.ReplaceAll(briefAttrs(attrs), "|", "\\|") + "`"
}

// inTable escapes the text of a cell.
func inTable(text string) string {
	return strings.NewReplacer("|", "\\|", "*", "\\*", "_", "\\_", "<", "&lt;").Replace(text)
}

// deviations lists the sentences of the documentation that speak of Fluid: definitions mention it only where they deviate.
func (d *Def) deviations() []string {
	var list []string
	for sentence := range strings.SplitSeq(strings.TrimSuffix(d.Doc, "."), ". ") {
		if deviates(sentence) {
			list = append(list, sentence+".")
		}
	}
	for _, a := range d.Attrs {
		if deviates(a.Doc) {
			list = append(list, a.Name+": "+a.Doc+".")
		}
	}
	return list
}
