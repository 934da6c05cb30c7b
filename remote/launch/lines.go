package launch

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// maxLine bounds a line of a role's log in bytes; a longer line is cut.
const maxLine = 8 << 10

// lines cuts what a role writes into lines and passes on each of them in one Write. It never fails: a role must not end because of its log.
type lines struct {
	mu   sync.Mutex
	to   io.Writer
	open []byte // the line so far, at most maxLine bytes
	cut  bool   // the line is longer
	last string // the last line that was not empty
	crash
	volume
}

func newLines(to io.Writer) *lines {
	if to == nil {
		to = io.Discard
	}
	return &lines{to: to, volume: volume{now: time.Now}}
}

// Write takes any piece of the log.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		room := min(len(part), maxLine-len(l.open))
		l.open = append(l.open, part[:room]...)
		l.cut = l.cut || room < len(part)
		if ended {
			l.end()
		}
		rest = after
	}
	return len(p), nil
}

// Flush passes on a last line that has no end.
func (l *lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		l.end()
	}
	l.tellLeftOut()
}

// Last returns the last line that was not empty.
func (l *lines) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Crash returns the first lines of the last crash of a Go program; empty: there was none.
func (l *lines) Crash() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.crash.lines, "; ")
}

func (l *lines) end() {
	if l.cut {
		l.open = append(l.open, " ..."...)
	}
	l.crash.next(string(l.open))
	if text := bytes.TrimSpace(l.open); len(text) > 0 {
		l.last = string(text)
	}
	if l.takes(len(l.open) + 1) {
		l.tellLeftOut()
		_, _ = l.to.Write(append(l.open, '\n'))
	}
	l.open, l.cut = l.open[:0], false
}

// The volume of a role's log, in bytes: so many at once, and so many in each second after that. Beyond it whole lines are left out, so that a role that writes without end
// takes neither the time nor the memory of who reads its log.
const (
	logAtOnce    = 16 << 20
	logPerSecond = 1 << 20
)

// A volume is a bucket of logAtOnce tokens, one for each byte, that fills again with logPerSecond.
type volume struct {
	now     func() time.Time
	at      time.Time // of the last line that was taken; zero: there was none
	used    float64   // of the bucket, by then
	leftOut int       // lines since the last one that was taken
	bytes   int64     // of them
}

// takes reports whether there is room for a line, and counts it. Where lines have been left out, there is room for none until what a second gives is there: else every few lines of a log
// that stays too large would be followed by one that says what is left out.
func (v *volume) takes(bytes int) bool {
	now, most := v.now(), float64(logAtOnce)
	if v.leftOut > 0 {
		most -= logPerSecond
	}
	used := max(0, v.used-now.Sub(v.at).Seconds()*logPerSecond) + float64(bytes)
	if used > most {
		v.leftOut++
		v.bytes += int64(bytes)
		return false
	}
	v.at, v.used = now, used
	return true
}

// tellLeftOut writes a line in place of those that were left out, if there are any.
func (l *lines) tellLeftOut() {
	if l.leftOut == 0 {
		return
	}
	fmt.Fprintf(l.to, "%d lines with %d bytes are left out here: a role may write %d MiB of log at once, and %d MiB in a second after that\n", l.leftOut, l.bytes, logAtOnce>>20, logPerSecond>>20)
	l.leftOut, l.bytes = 0, 0
}

// A crash is what the Go runtime says of why it ends a process: a few lines, an empty line, and then the stacks of all goroutines.
type crash struct {
	lines []string
	open  bool // the next line may belong to it
}

// crashLines bounds the lines of a crash, and crashLine each of them in bytes.
const (
	crashLines = 2
	crashLine  = 256
)

// crashBegins matches the first line of a crash.
var crashBegins = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`)

// next takes the next line of a log.
func (c *crash) next(line string) {
	begins := crashBegins.MatchString(line)
	switch text := strings.TrimSpace(line); {
	case begins && strings.HasPrefix(line, "SIGABRT") && len(c.lines) > 0: // the runtime ends itself by this signal if GOTRACEBACK is crash
	case begins:
		c.lines, c.open = []string{text[:min(len(text), crashLine)]}, true
	case text == "" || len(c.lines) == crashLines:
		c.open = false
	case c.open:
		c.lines = append(c.lines, text[:min(len(text), crashLine)])
	}
}
