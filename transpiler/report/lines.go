package report

import (
	"regexp"
	"strconv"
	"strings"
)

// A line is one line of a program's text.
type line struct {
	Changed bool
	Tokens  []token
}

// A token is a run of text; Variable is set when it names one.
type token struct{ Text, Variable string }

// changed reports which lines of each side the other side does not have. Lines are compared without the position of the op in front of
// them, and counted, so that an op which was inserted does not mark all that follow.
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

// withoutPosition drops what shifts when other lines come and go: the position, and the width of columns.
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
