package launch

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
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

// An error names its role once, whatever the role has called itself.
func TestNamed(t *testing.T) {
	const name = "pserver 0 of job j"
	member := cluster.Member{Role: job.Role_PSERVER, Index: 0}
	for where, want := range map[string]string{
		"": name, "pserver-0": name, "pserver 0": name, name: name, "pserver-0: w": name + ": w", "pserver 0: w": name + ": w",
		"/models/w": name + ": /models/w", "pserver 01": name + ": pserver 01", "pserver 1": name + ": pserver 1",
	} {
		err := named(name, member, fault.NotFound, fault.E(fault.NotFound, fault.At(where), fault.Got("nothing")))
		if f, ok := err.(*fault.Fault); !ok || f.Where != want || f.Kind != fault.NotFound {
			t.Errorf("an error of %q is one of %v, want %q", where, err, want)
		}
	}
}

// writes keeps each call of Write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}
