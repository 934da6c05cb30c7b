package launch

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A role that writes without end loses whole lines, and its log says how many. What it writes later is there again.
func TestVolumeOfALog(t *testing.T) {
	var out bytes.Buffer
	l := newLines(&out)
	now := time.Unix(0, 0)
	l.now = func() time.Time { return now }
	line := strings.Repeat("x", 1023) + "\n"
	fill := func(n int) {
		for range n {
			if _, err := l.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(logAtOnce >> 10)
	if out.Len() != logAtOnce {
		t.Fatalf("%d bytes of a log, want %d", out.Len(), logAtOnce)
	}
	out.Reset()
	fill(3)
	if out.Len() > 0 {
		t.Errorf("%d bytes beyond the volume", out.Len())
	}
	now = now.Add(2 * time.Second)
	fill(1)
	const left = "3 lines with 3072 bytes are left out here: a role may write 16 MiB of log at once, and 1 MiB in a second after that\n"
	if got := out.String(); got != left+line {
		t.Errorf("after two seconds %q", got)
	}
	out.Reset()
	fill(2048)
	if l.Flush(); out.Len() != (2048-1)<<10+len(left)-len("3 lines with 3072")+len("1 lines with 1024") {
		t.Errorf("%d bytes in what two seconds have given, and what is left out at the end", out.Len())
	}
	fill(1)
	out.Reset()
	now = now.Add(time.Second / 2)
	fill(1)
	if out.Len() > 0 {
		t.Errorf("%q half a second after lines were left out", out.String())
	}
	now = now.Add(time.Second)
	fill(1)
	if got, want := out.String(), strings.Replace(left, "3 lines with 3072", "2 lines with 2048", 1)+line; got != want {
		t.Errorf("%q a second and a half after lines were left out, want %q", got, want)
	}
	if l.Last() != strings.TrimSpace(line) {
		t.Errorf("the last line is %q", l.Last())
	}
}
