// Package report shows what the transpiler did to a program, pass by pass, as one HTML page without other files: the program before and after each
// pass side by side, with changed lines marked. A click on a variable marks it everywhere.
package report

import (
	_ "embed"
	"html/template"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

//go:embed page.html
var source string

var page = template.Must(template.New("page").Parse(source))

// What the template shows.
type (
	view struct {
		Title     string
		Passes    []passView
		Placement transpiler.Placement
	}
	passView struct {
		Name, Doc, Duration string
		Programs            []programView
	}
	programView struct {
		Name, Left  string // Left is the title of the left side
		Before      []line
		After       []line
		Lost, Added int // lines
	}
)

// Write writes the page for a result of transpiler.Transpile with Config.Dump. It escapes every name of the program.
func Write(w io.Writer, title string, r *transpiler.Result) error {
	changes, err := r.Changes()
	if err != nil {
		return err
	}
	docs := map[string]string{}
	for _, p := range transpiler.Passes() {
		docs[p.Name] = p.Doc
	}
	names := variableNames(changes)
	v := view{Title: title, Placement: r.Placement}
	for i, stage := range r.Stages {
		pass := passView{Name: stage.Pass, Doc: docs[stage.Pass], Duration: stage.Duration.String()}
		for _, c := range changes[i] {
			shown, err := compare(c, names)
			if err != nil {
				return err
			}
			pass.Programs = append(pass.Programs, shown)
		}
		v.Passes = append(v.Passes, pass)
	}
	if err := page.Execute(w, v); err != nil {
		return fault.Wrap(fault.Internal, "transpiler report", err)
	}
	return nil
}

// compare renders one program next to the program that it was made from.
func compare(c transpiler.Change, names map[string]bool) (programView, error) {
	v := programView{Name: c.Name}
	after, err := textOf(c.After)
	if err != nil {
		return v, err
	}
	var before []string
	if c.Before != nil {
		v.Left = "before"
		if before, err = textOf(c.Before); err != nil {
			return v, err
		}
	}
	lost, added := changed(before, after)
	v.Before, v.Lost = render(before, lost, names)
	v.After, v.Added = render(after, added, names)
	return v, nil
}

func textOf(p *program.Program) ([]string, error) {
	var text strings.Builder
	if err := p.Text(&text, program.TextOptions{Full: true}); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n"), nil
}

// variableNames collects the variables of all programs.
func variableNames(changes [][]transpiler.Change) map[string]bool {
	names := map[string]bool{}
	for _, stage := range changes {
		for _, c := range stage {
			for _, p := range []*program.Program{c.After, c.After.Startup} {
				if p == nil {
					continue
				}
				for _, b := range p.Blocks {
					for _, v := range b.Vars() {
						names[v.Name] = true
					}
				}
			}
		}
	}
	return names
}

// A line is one line of a program's text.
type line struct {
	Changed bool
	Tokens  []token
}

// A token is a piece of text. Variable is set if it names a variable.
type token struct{ Text, Variable string }

// changed reports which lines of each side the other side lacks. It compares lines without the position of the op, and counts equal lines, so that
// an inserted op does not mark all later lines.
func changed(before, after []string) (lost, added []bool) {
	count := func(lines []string) map[string]int {
		n := map[string]int{}
		for _, l := range lines {
			n[withoutPosition(l)]++
		}
		return n
	}
	missing := func(lines []string, there map[string]int) []bool {
		marks := make([]bool, len(lines))
		for i, l := range lines {
			key := withoutPosition(l)
			marks[i] = there[key] == 0
			there[key] = max(0, there[key]-1)
		}
		return marks
	}
	return missing(before, count(after)), missing(after, count(before))
}

// withoutPosition drops what other lines change: the position, and the width of columns.
func withoutPosition(l string) string {
	return strings.Join(strings.Fields(strings.TrimLeft(l, " 0123456789")), " ")
}

// A word is what the text form writes for a name: plain, or quoted.
var word = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.@/:-]+`)

// render cuts lines into tokens, and counts those that are marked.
func render(lines []string, marks []bool, names map[string]bool) (rendered []line, marked int) {
	for i, text := range lines {
		l := line{Changed: marks[i]}
		if l.Changed {
			marked++
		}
		end := 0
		for _, at := range word.FindAllStringIndex(text, -1) {
			name := text[at[0]:at[1]]
			if unquoted, err := strconv.Unquote(name); err == nil {
				name = unquoted
			}
			if !names[name] {
				continue
			}
			l.Tokens = append(l.Tokens, token{Text: text[end:at[0]]}, token{text[at[0]:at[1]], name})
			end = at[1]
		}
		l.Tokens = append(l.Tokens, token{Text: text[end:]})
		rendered = append(rendered, l)
	}
	return rendered, marked
}
