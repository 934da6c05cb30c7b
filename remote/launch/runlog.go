package launch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/rpc"
)

// A RunLog is the log of all roles of a run, in files of the listener, because roles that outlive a listener may be of several keepers. Each listener begins a file, and the next when one has as much as a log keeps.
// A file is delimited rpc.LogLines. The first has the number in the run of the line after it. In all others, Role is the start ("trainer-0/1"), and Number that of
// the line of this start which comes next. Of two files and more, the oldest are removed when the others have enough lines.
type RunLog struct {
	dir string
	log *slog.Logger

	mu       sync.Mutex
	lines    *eventlog.Log[*rpc.LogLine]
	next     map[string]uint64 // by start: number of the line that comes next
	number   uint64            // of the next line of the run
	files    []int             // numbers of the files, the oldest first
	has      map[int]content   // of each
	file     *os.File          // the last one; nil: none could be made
	silenced bool              // it was told that lines cannot be kept
	released bool              // nothing is kept any more
}

// content is how much a file has.
type content struct{ lines, bytes int }

// enough reports whether it is as much as a log keeps.
func (c content) enough() bool { return c.lines >= KeptLines || c.bytes >= KeptBytes }

func (c content) plus(lines, bytes int) content { return content{c.lines + lines, c.bytes + bytes} }

// maxLogFrame bounds a line in a file in bytes: a Keeper cuts lines long before.
const maxLogFrame = 64 << 10

// openLog opens the log of a run, with what earlier listeners have written of it.
func openLog(dir string, log *slog.Logger) *RunLog {
	l := &RunLog{dir: dir, log: log, lines: NewLog(), next: map[string]uint64{}, has: map[int]content{}}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.complain(err)
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			l.files = append(l.files, n)
		}
	}
	slices.Sort(l.files)
	for _, n := range l.files {
		l.read(n)
	}
	return l
}

// read reads a file. A listener that was killed may leave a part of a last line.
func (l *RunLog) read(n int) {
	f, err := os.Open(l.path(n))
	if err != nil {
		l.complain(err)
		return
	}
	defer f.Close()
	from := bufio.NewReader(f)
	for first := true; ; first = false {
		m := &rpc.LogLine{}
		if (protodelim.UnmarshalOptions{MaxSize: maxLogFrame}).UnmarshalFrom(from, m) != nil {
			return
		}
		if first {
			l.number = m.Number
			l.lines.Skip(m.Number)
			continue
		}
		l.has[n] = l.has[n].plus(1, len(m.Line)+len(m.Role))
		l.enter(m)
	}
}

// enter appends a line. l.mu is held, or nobody else knows l.
func (l *RunLog) enter(m *rpc.LogLine) {
	role, text, _ := strings.Cut(m.Role, "/")
	start, _ := strconv.ParseUint(text, 10, 32) // of what StartOf has written
	l.next[m.Role] = m.Number
	l.lines.Add(&rpc.LogLine{Role: role, Line: m.Line, Number: l.number, Start: uint32(start)})
	l.number++
}

// Add appends a line of a start, of which the one with the number next follows.
func (l *RunLog) Add(start, line string, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return
	}
	m := &rpc.LogLine{Role: start, Line: line, Number: next}
	if err := l.write(m); err != nil {
		l.complain(err)
	}
	l.enter(m)
}

// NextOf is the number of the line of a start that was not read yet.
func (l *RunLog) NextOf(start string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next[start]
}

func (l *RunLog) write(m *rpc.LogLine) error {
	if l.file == nil || l.has[l.files[len(l.files)-1]].enough() {
		if err := l.begin(); err != nil {
			return err
		}
	}
	_, err := protodelim.MarshalTo(l.file, m)
	last := l.files[len(l.files)-1]
	l.has[last] = l.has[last].plus(1, len(m.Line)+len(m.Role))
	return err
}

// begin begins a file.
func (l *RunLog) begin() error {
	l.close()
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	n := 0
	if len(l.files) > 0 {
		n = l.files[len(l.files)-1] + 1
	}
	f, err := os.OpenFile(l.path(n), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	l.file, l.files = f, append(l.files, n)
	_, err = protodelim.MarshalTo(f, &rpc.LogLine{Number: l.number})
	later := content{}
	for at := len(l.files) - 1; at >= 0; at-- {
		if later.enough() {
			_ = os.Remove(l.path(l.files[at]))
			l.files = slices.Delete(l.files, at, at+1)
			continue
		}
		of := l.has[l.files[at]]
		later = later.plus(of.lines, of.bytes)
	}
	return err
}

func (l *RunLog) path(n int) string { return filepath.Join(l.dir, strconv.Itoa(n)) }

// complain says once that lines cannot be kept: they are told all the same.
func (l *RunLog) complain(err error) {
	if !l.silenced {
		l.silenced = true
		l.log.Warn("the next listener will not know all lines of a job's log", "error", err)
	}
}

// close closes the file. The next line begins another.
func (l *RunLog) close() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// release forgets what is kept.
func (l *RunLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	l.close()
	l.lines.End()
}

// RunLogs are the logs of the runs of a listener, each in a folder of its own below one folder.
type RunLogs struct {
	dir string
	log *slog.Logger

	mu   sync.Mutex
	runs map[string]*RunLog
}

// NewRunLogs returns the logs below a folder, with what earlier listeners have written. It says in log what cannot be kept.
func NewRunLogs(dir string, log *slog.Logger) *RunLogs {
	return &RunLogs{dir: dir, log: log, runs: map[string]*RunLog{}}
}

// RunLabel is a run as the name of a folder, or as a label: a run may have letters that neither may have.
func RunLabel(run string) string {
	sum := sha256.Sum256([]byte(run))
	return hex.EncodeToString(sum[:10])
}

// folder is where the log of a run is.
func (r *RunLogs) folder(run string) string { return filepath.Join(r.dir, RunLabel(run)) }

// Of returns the log of a run.
func (r *RunLogs) Of(run string) *RunLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[run] == nil {
		r.runs[run] = openLog(r.folder(run), r.log)
	}
	return r.runs[run]
}

// Lines calls each with the lines of a run from a number on. With follow it waits for more until ctx ends or the run is released.
func (r *RunLogs) Lines(ctx context.Context, run string, from uint64, follow bool, each func(*rpc.LogLine)) error {
	err := r.Of(run).lines.Read(ctx, from, follow, func(number uint64, m *rpc.LogLine) error {
		each(&rpc.LogLine{Role: m.Role, Line: m.Line, Number: number, Start: m.Start})
		return nil
	})
	if ctx.Err() != nil {
		return fault.Wrap(fault.Canceled, "log of "+run, ctx.Err())
	}
	return err
}

// Release forgets the log of a run, and removes its folder.
func (r *RunLogs) Release(run string) error {
	r.mu.Lock()
	log := r.runs[run]
	delete(r.runs, run)
	r.mu.Unlock()
	if log != nil {
		log.release()
	}
	return os.RemoveAll(r.folder(run))
}

// Labels lists the runs that have folders, by their labels.
func (r *RunLogs) Labels() (list []string, err error) {
	folders, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range folders {
		list = append(list, f.Name())
	}
	return list, err
}

// Only removes the folders of all runs but these.
func (r *RunLogs) Only(runs []string) error {
	labels, err := r.Labels()
	for _, label := range labels {
		if !slices.ContainsFunc(runs, func(run string) bool { return RunLabel(run) == label }) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, label)))
		}
	}
	return err
}
