package kubernetes

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/launch"
)

// A runLog is the log of all roles of a run, in files of the listener, because pods go and listeners, too. Each listener begins a file, and the next when one has as much as a log keeps.
// A file is delimited rpc.LogLines. The first has the number in the run of the line after it. In all others, Role is the start ("trainer-0/1"), and Number that of
// the line of this start which comes next. Of two files and more, the oldest are removed when the others have enough lines.
type runLog struct {
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
func (c content) enough() bool { return c.lines >= launch.KeptLines || c.bytes >= launch.KeptBytes }

func (c content) plus(lines, bytes int) content { return content{c.lines + lines, c.bytes + bytes} }

// maxLogFrame bounds a line in a file in bytes: a Keeper cuts lines long before.
const maxLogFrame = 64 << 10

// openLog opens the log of a run, with what earlier listeners have written of it.
func openLog(dir string, log *slog.Logger) *runLog {
	l := &runLog{dir: dir, log: log, lines: launch.NewLog(), next: map[string]uint64{}, has: map[int]content{}}
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
func (l *runLog) read(n int) {
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
func (l *runLog) enter(m *rpc.LogLine) {
	role, _, _ := strings.Cut(m.Role, "/")
	l.next[m.Role] = m.Number
	l.lines.Add(&rpc.LogLine{Role: role, Line: m.Line, Number: l.number})
	l.number++
}

// add appends a line of a start, of which the one with the number next follows.
func (l *runLog) add(start, line string, next uint64) {
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

// nextOf is the number of the line of a start that was not read yet.
func (l *runLog) nextOf(start string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next[start]
}

func (l *runLog) write(m *rpc.LogLine) error {
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
func (l *runLog) begin() error {
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

func (l *runLog) path(n int) string { return filepath.Join(l.dir, strconv.Itoa(n)) }

// complain says once that lines cannot be kept: they are told all the same.
func (l *runLog) complain(err error) {
	if !l.silenced {
		l.silenced = true
		l.log.Warn("the next listener will not know all lines of a job's log", "error", err)
	}
}

// close closes the file. The next line begins another.
func (l *runLog) close() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// startOf names a start of a role in the log of its run.
func startOf(spec *job.RoleSpec) string { return fmt.Sprintf("%s/%d", memberOf(spec).ID(), spec.Start) }

// runLabel is a run as a label of objects, and the folder of its log: a run may have letters that neither may have.
func runLabel(run string) string {
	sum := sha256.Sum256([]byte(run))
	return hex.EncodeToString(sum[:10])
}

// logOf returns the log of a run.
func (l *Launcher) logOf(run string) *runLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs[run] == nil {
		l.logs[run] = openLog(filepath.Join(l.settings.Keep, runLabel(run)), l.log)
	}
	return l.logs[run]
}

// Lines calls each with the lines of a run from a number on. With follow it waits for more until ctx ends or the run is released.
func (l *Launcher) Lines(ctx context.Context, run string, from uint64, follow bool, each func(*rpc.LogLine)) error {
	err := l.logOf(run).lines.Read(ctx, from, follow, func(number uint64, m *rpc.LogLine) error {
		each(&rpc.LogLine{Role: m.Role, Line: m.Line, Number: number})
		return nil
	})
	if ctx.Err() != nil {
		return fault.Wrap(fault.Canceled, "log of "+run, ctx.Err())
	}
	return err
}

// Release deletes what the cluster and the listener have of a run. Roles that are left are killed.
func (l *Launcher) Release(_ context.Context, run string) error {
	l.mu.Lock()
	log := l.logs[run]
	delete(l.logs, run)
	delete(l.servers, run)
	l.mu.Unlock()
	if log != nil {
		log.mu.Lock()
		log.released = true
		log.close()
		log.lines.End()
		log.mu.Unlock()
	}
	objects := LabelRun + "=" + runLabel(run)
	return errors.Join(l.insist(objects, func(ctx context.Context) error { return l.deleteAll(ctx, objects) }), os.RemoveAll(filepath.Join(l.settings.Keep, runLabel(run))))
}

// Only releases all runs but those that are named: an earlier listener may have left them, and its data folder may be gone.
func (l *Launcher) Only(ctx context.Context, runs []string) error {
	keep := map[string]bool{}
	for _, run := range runs {
		keep[runLabel(run)] = true
	}
	selector := ""
	if len(keep) > 0 {
		selector = LabelRun + " notin (" + strings.Join(slices.Sorted(maps.Keys(keep)), ",") + ")"
	}
	err := l.deleteAll(ctx, selector)
	folders, failed := os.ReadDir(l.settings.Keep)
	if errors.Is(failed, fs.ErrNotExist) {
		failed = nil
	}
	for _, f := range folders {
		if !keep[f.Name()] {
			failed = errors.Join(failed, os.RemoveAll(filepath.Join(l.settings.Keep, f.Name())))
		}
	}
	return errors.Join(err, failed)
}

// deleteAll deletes what this listener, or an earlier one of its name, has made, as far as a further selector names it.
func (l *Launcher) deleteAll(ctx context.Context, selector string) error {
	selector = strings.Trim(LabelListener+"="+l.settings.Name+","+selector, ",")
	list, err := l.api.jobs(ctx, selector)
	if err != nil {
		return err
	}
	for _, j := range list.Items {
		l.log.Info("deletes a Job", "job", j.Labels[LabelJob], "object", j.Name)
		err = errors.Join(err, l.api.remove(ctx, j.Name, -1))
	}
	return errors.Join(err, l.api.removeBudgets(ctx, selector))
}
