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

// The first lines of the last crash are kept, whatever is written before and after them.
func TestLinesOfACrash(t *testing.T) {
	const stacks = "\ngoroutine 1 [running]:\nmain.main()\n\t/a/main.go:1 +0x1\n"
	for text, want := range map[string]string{
		"a panic: no crash\n": "",
		"panic: a\n" + stacks: "panic: a",
		"panic: runtime error: invalid memory address\n[signal SIGSEGV: segmentation violation code=0x1]\n" + stacks: "panic: runtime error: " +
			"invalid memory address; [signal SIGSEGV: segmentation violation code=0x1]",
		"before\nSIGSEGV: segmentation violation\nPC=0x4 m=0 sigcode=0\nthird\n" + stacks: "SIGSEGV: segmentation violation; PC=0x4 m=0 sigcode=0",
		"runtime: out of memory\nfatal error: out of memory\n" + stacks + "gs 0x0\n":      "fatal error: out of memory",
		"panic: recovered\n" + stacks + "fatal error: later\n" + stacks:                   "fatal error: later",
		"fatal error: first\n" + stacks + "SIGABRT: abort\nPC=0x1\n" + stacks:             "fatal error: first",
		"SIGNAL\nSIGTERM arrives\n":                         "",
		"panic: " + strings.Repeat("x", 2*crashLine) + "\n": "panic: " + strings.Repeat("x", crashLine-7),
	} {
		l := newLines(nil)
		_, _ = l.Write([]byte(text))
		if l.Crash() != want {
			t.Errorf("the crash of %q is %q, want %q", text, l.Crash(), want)
		}
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
