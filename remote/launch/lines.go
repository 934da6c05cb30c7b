package launch

import (
	"bytes"
	"io"
	"sync"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// maxLine bounds a line of a role's log in bytes; what is longer is cut.
const maxLine = 8 << 10

// lines cuts what a role writes into lines and passes each on in one Write. It never fails: a role must not end because its log cannot be kept.
type lines struct {
	mu   sync.Mutex
	to   io.Writer
	open []byte       // the line so far, at most maxLine bytes
	cut  bool         // the line is longer
	last string       // the last line that was not empty
	told *job.Failure // how the role says that it ended; nil when it has said nothing
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

// Told returns how the role says that it ended, nil when it has said nothing.
func (l *lines) Told() *job.Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func (l *lines) end() {
	if l.cut {
		l.open = append(l.open, " ..."...)
	}
	text := string(bytes.TrimSpace(l.open))
	if told := decodeReport(text); told != nil {
		l.told, l.open, l.cut = told, l.open[:0], false
		return
	}
	if _, waits := wire.WaitsOf(text); text != "" && !waits {
		l.last = text
	}
	_, _ = l.to.Write(append(l.open, '\n'))
	l.open, l.cut = l.open[:0], false
}
