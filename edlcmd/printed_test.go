package edlcmd

import (
	"strings"
	"testing"
)

func TestNothingPrintedMovesTheCursor(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nä\n": "a\tb\nä\n", "\x1b[2Jgone\r\n": `\x1b[2Jgone\x0d` + "\n", "a\u009bb\u202ec\x7f\x00": `a\x9bb\x202ec\x7f\x00`, "": "", "\xff\x1b": "\xff" + `\x1b`,
	} {
		var out strings.Builder
		if n, err := (printedWriter{&out}).Write([]byte(in)); n != len(in) || err != nil || out.String() != want {
			t.Errorf("%q is printed as %q, %d, %v", in, out.String(), n, err)
		}
	}
}
