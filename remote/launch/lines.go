package launch

import (
	"bytes"
	"io"
	"sync"
)

// maxLine bounds a line of a role's log in bytes; what is longer is cut.
const maxLine = 8 << 10

// lines cuts what a role writes into lines and passes each on in one Write. It never fails: a role must not end because its log cannot be kept.
type lines struct {
	mu   sync.Mutex
	to   io.Writer
	open []byte // the line so far, at most maxLine bytes
	cut  bool   // the line is longer
	last string // the last line that was not empty
}

func newLines(to io.Writer) *lines {
	if to == nil {
		to = io.Discard
	}
	return &lines{to: to}
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
}

// Last returns the last line that was not empty.
func (l *lines) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *lines) end() {
	if l.cut {
		l.open = append(l.open, " ..."...)
	}
	if text := bytes.TrimSpace(l.open); len(text) > 0 {
		l.last = string(text)
	}
	_, _ = l.to.Write(append(l.open, '\n'))
	l.open, l.cut = l.open[:0], false
}
