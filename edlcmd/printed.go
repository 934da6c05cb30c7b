package edlcmd

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A printedWriter writes text for people: control characters other than line ends and tabs become escapes, such as \x1b. Names, failures and logs come from programs
// of others, and none may move the cursor, change colours or overwrite a line of the terminal.
type printedWriter struct{ to io.Writer }

func (w printedWriter) Write(p []byte) (int, error) {
	var b []byte // what is written in place of p; nil while that is p
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		if controls(r) {
			if b == nil {
				b = append(make([]byte, 0, len(p)+16), p[:i]...)
			}
			b = fmt.Appendf(b, "\\x%02x", r)
		} else if b != nil {
			b = append(b, p[i:i+n]...)
		}
		i += n
	}
	if b == nil {
		return w.to.Write(p)
	}
	if _, err := w.to.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printedText is a text as a printedWriter writes it, without line ends.
func printedText(text string) string {
	var b strings.Builder
	_, _ = printedWriter{&b}.Write([]byte(strings.ReplaceAll(text, "\n", " ")))
	return b.String()
}

// controls reports whether a terminal acts on a character: those of C0 and C1, and those that change the direction of text.
func controls(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', 0x7f <= r && r < 0xa0, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return false
}
