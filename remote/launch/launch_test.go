package launch

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However a log is cut into writes, the same lines come out.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-c ]{0,5}\n){0,5}[a-c]{0,5}`).Draw(t, "text")
		var out writes
		l := newLines(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			_, _ = l.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		l.Flush()
		want := strings.SplitAfter(text, "\n")
		if end := &want[len(want)-1]; *end == "" {
			want = want[:len(want)-1]
		} else {
			*end += "\n"
		}
		if strings.Join(out, "|") != strings.Join(want, "|") {
			t.Fatalf("lines %q, want %q", out, want)
		}
		last := ""
		for _, line := range want {
			if s := strings.TrimSpace(line); s != "" {
				last = s
			}
		}
		if l.Last() != last {
			t.Fatalf("last line %q, want %q", l.Last(), last)
		}
	})
}

func TestLongLineIsCut(t *testing.T) {
	var out writes
	l := newLines(&out)
	for range 3 {
		_, _ = l.Write(bytes.Repeat([]byte("x"), maxLine/2+1))
	}
	_, _ = l.Write([]byte("\nshort\n"))
	if len(out) != 2 || out[0] != strings.Repeat("x", maxLine)+" ...\n" || out[1] != "short\n" {
		t.Fatalf("%d lines, the first of %d bytes", len(out), len(out[0]))
	}
}

// writes keeps each call of Write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}
