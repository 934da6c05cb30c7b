package executor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// IncompleteFile is the name of the file that marks a directory of saved variables while a Save replaces them. A Save that was interrupted meanwhile
// leaves it. Such a directory has variables of two states: nothing loads it until the next Save into it has ended. No variable of this name can be saved.
const IncompleteFile = "__incomplete__"

// A temporary file has the name of the file that it will be, then partMark, then the token of its writer. The file that a StateWriter locks as long as
// it lives has no name before the mark.
const (
	partMark    = ".part-"
	tokenLength = 26 // of rand.Text
)

// IsTemporary reports whether a file is one that a writer has not finished. It is no variable.
func IsTemporary(name string) bool { return tokenOf(name) != "" }

// tokenOf returns the token of the writer of a temporary file; empty for another file.
func tokenOf(name string) string {
	at := strings.LastIndex(name, partMark)
	if at < 0 || len(name)-at-len(partMark) != tokenLength {
		return ""
	}
	token := name[at+len(partMark):]
	if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return ""
	}
	return token
}

// checkName refuses names that no variable can have in a directory of variables.
func checkName(name string) error {
	var got string
	switch filepath.Clean(name) {
	case ".":
		got = "no name of a file"
	case ProgressFile:
		got = "the name of the file that holds the progress"
	case IncompleteFile:
		got = "the name of the file that marks an incomplete directory"
	default:
		switch {
		case !filepath.IsLocal(name):
			got = "a name that leads out of the directory"
		case IsTemporary(name):
			got = "the name of a temporary file"
		default:
			return nil
		}
	}
	return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got(got), fault.Want("another name"))
}

// CheckComplete fails for a directory in which a Save was interrupted while it replaced the variables, or does so now. A path that is no directory, or
// does not exist, passes.
func CheckComplete(dir string) error {
	_, err := os.Lstat(filepath.Join(dir, IncompleteFile))
	switch {
	case err == nil:
		return fault.E(fault.Corrupt, fault.At(dir), fault.Got("variables of two states: a Save was interrupted while it replaced the older one"),
			fault.Want("a directory whose last Save has ended"),
			fault.Hintf("save a whole state to it again, or load another directory; %s marks it until then", IncompleteFile))
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil
	}
	return fault.File(fault.InvalidArgument, dir, err)
}

// A StateWriter replaces the state in a directory by another one:
//
//		Begin -> Save, once for each variable -> Commit
//
//	  - Until Commit, everything is in temporary files beside the variables. A failure, as of a full disk, leaves the older state untouched.
//	  - Commit checks that the files are complete, and marks the directory with IncompleteFile. Then it renames them, removes or replaces the Progress, and
//	    removes the mark. So whoever is killed meanwhile leaves a directory that nothing loads by mistake.
//	  - Begin and Save remove the temporary files that a writer has left that was killed: those older than Begin that no process holds.
//
// It is used by one goroutine. Files that do not belong to the new state stay.
type StateWriter struct {
	root  *os.Root
	token string
	lock  *os.File  // the file partMark+token; nil before Begin
	began time.Time // by the clock of the file system
	files []stagedFile
	swept []string // directories without temporary files of writers that are gone

	marked   bool                    // the mark of this writer is there
	restored bool                    // Close may remove the mark: there was none before it, and nothing was renamed
	after    func(step string) error // nil, or what a test does after each durable step
}

// A stagedFile is one that Commit renames.
type stagedFile struct {
	name  string
	bytes int64
}

var _ ops.Storage = (*StateWriter)(nil)

// NewStateWriter opens dir, making it if need be. The caller ends it with Close.
func NewStateWriter(dir string) (*StateWriter, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	return &StateWriter{root: root}, nil
}

// Dir is the directory.
func (w *StateWriter) Dir() string { return w.root.Name() }

// Begin begins a state. What was saved since an earlier Begin without Commit is dropped.
func (w *StateWriter) Begin() error {
	w.discard()
	w.token = rand.Text()
	f, err := w.root.OpenFile(w.part(""), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fault.File(fault.InvalidArgument, w.Dir(), err)
	}
	w.lock = f
	_ = filelock.Try(f) // a system without locks is told apart by Supported
	info, err := f.Stat()
	if err != nil {
		return fault.File(fault.InvalidArgument, w.Dir(), err)
	}
	w.began, w.swept = info.ModTime(), nil
	return w.sweep(".")
}

func (w *StateWriter) part(name string) string { return name + partMark + w.token }

func (w *StateWriter) where(name string) string { return filepath.Join(w.Dir(), name) }

// sweep removes the temporary files in one directory that nobody will finish.
func (w *StateWriter) sweep(dir string) error {
	if slices.Contains(w.swept, dir) {
		return nil
	}
	w.swept = append(w.swept, dir)
	entries, err := fs.ReadDir(w.root.FS(), filepath.ToSlash(dir))
	if err != nil {
		return fault.File(fault.InvalidArgument, w.where(dir), err)
	}
	for _, entry := range entries {
		token := tokenOf(entry.Name())
		if token == "" || token == w.token || !entry.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		info, err := w.root.Lstat(name)
		if err != nil || !info.ModTime().Before(w.began) || w.held(name) || w.held(partMark+token) || w.held(filepath.Join(dir, partMark+token)) {
			continue
		}
		_ = w.root.Remove(name) // another Save may do the same
	}
	return nil
}

// held reports whether a process holds a file that exists.
func (w *StateWriter) held(name string) bool {
	f, err := w.root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	return filelock.Try(f) != nil
}

// Save implements ops.Storage: it writes one variable of the state that Begin has begun.
func (w *StateWriter) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	name = filepath.Clean(name)
	again := slices.IndexFunc(w.files, func(f stagedFile) bool { return f.name == name })
	if _, err := w.root.Lstat(name); (err == nil || again >= 0) && !overwrite {
		return existing(w.where(name))
	}
	if again >= 0 {
		w.files = slices.Delete(w.files, again, again+1)
		if err := w.root.Remove(w.part(name)); err != nil {
			return fault.File(fault.InvalidArgument, w.where(name), err)
		}
	}
	return w.stage(name, streams(tensors))
}

// Load implements ops.Storage: nothing is loaded from a state that is being written.
func (w *StateWriter) Load(name string, _ []*tensor.Tensor) error {
	return fault.E(fault.Unsupported, fault.At(name), fault.Got("a load op in a save program"))
}

// stage writes a temporary file.
func (w *StateWriter) stage(name string, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	if err := w.root.MkdirAll(dir, 0o755); dir != "." && err != nil {
		return fault.File(fault.InvalidArgument, w.where(name), err)
	}
	if err := w.sweep(dir); err != nil {
		return err
	}
	n := &byteCount{}
	if err := writeNew(w.root, w.part(name), func(to io.Writer) error { n.to = to; return write(n) }); err != nil {
		_ = w.root.Remove(w.part(name))
		return fault.File(fault.InvalidArgument, w.where(name), err)
	}
	w.files = append(w.files, stagedFile{name, n.bytes})
	return w.did("write " + name)
}

// Commit makes what was saved since Begin the state in the directory, with a Progress; nil: its progress is not known. When it fails before it has
// renamed a file, the older state is as it was. Later, the directory stays marked.
func (w *StateWriter) Commit(p *Progress) error {
	if p != nil {
		text, err := encodeProgress(*p)
		if err != nil {
			return err
		}
		if err := w.stage(ProgressFile, func(to io.Writer) error { _, err := to.Write(text); return err }); err != nil {
			return err
		}
	}
	files := slices.Clone(w.files)
	if err := w.stage(IncompleteFile, w.writeMark); err != nil {
		return err
	}
	if err := w.checkFiles(); err != nil {
		return err
	}
	if err := w.mark(); err != nil {
		return err
	}
	dirs := []string{"."}
	for _, f := range files {
		w.restored = false
		if err := w.root.Rename(w.part(f.name), f.name); err != nil {
			return fault.File(fault.InvalidArgument, w.where(f.name), err)
		}
		if err := w.did("rename " + f.name); err != nil {
			return err
		}
		dirs = append(dirs, filepath.Dir(f.name))
	}
	if p == nil {
		w.restored = false
		if err := w.root.Remove(ProgressFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.File(fault.InvalidArgument, w.where(ProgressFile), err)
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := w.sync(dir); err != nil {
			return err
		}
	}
	w.files = nil
	if err := w.did("sync"); err != nil {
		return err
	}
	if err := w.unmark(); err != nil {
		return err
	}
	w.discard()
	return nil
}

// checkFiles checks what could make a rename fail, and that each file has what was written.
func (w *StateWriter) checkFiles() error {
	for _, f := range w.files {
		info, err := w.root.Lstat(w.part(f.name))
		if err != nil {
			return fault.File(fault.InvalidArgument, w.where(f.name), err)
		}
		if info.Size() != f.bytes {
			return fault.E(fault.Unavailable, fault.At(w.where(f.name)), fault.Gotf("%d bytes in the file", info.Size()), fault.Wantf("%d, as written", f.bytes))
		}
		if info, err = w.root.Lstat(f.name); err == nil && info.IsDir() {
			return fault.E(fault.InvalidArgument, fault.At(w.where(f.name)), fault.Got("a directory"), fault.Want("a file, or a name that is free"))
		}
	}
	return nil
}

// markPrefix stands before the token in the first line of an IncompleteFile.
const markPrefix = "save "

func (w *StateWriter) writeMark(to io.Writer) error {
	_, err := fmt.Fprintf(to, "%s%s\nThis directory has variables of two states, until the Save that replaces them has ended.\n"+
		"If it was interrupted, save a whole state to this directory again.\n", markPrefix, w.token)
	return err
}

// markOwner returns the token of the Save that has marked the directory; empty: it is not marked, or by nobody that is known.
func (w *StateWriter) markOwner() (token string, marked bool) {
	f, err := w.root.Open(IncompleteFile)
	if err != nil {
		return "", !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	line := make([]byte, len(markPrefix)+tokenLength)
	if _, err := io.ReadFull(f, line); err != nil || !strings.HasPrefix(string(line), markPrefix) {
		return "", true
	}
	return tokenOf(partMark + string(line[len(markPrefix):])), true
}

// mark marks the directory.
func (w *StateWriter) mark() error {
	owner, marked := w.markOwner()
	if owner != "" && filelock.Supported && w.held(partMark+owner) {
		return fault.E(fault.Unavailable, fault.At(w.Dir()), fault.Got("another Save that replaces the state in it"), fault.Want("one at a time"))
	}
	if err := w.root.Rename(w.part(IncompleteFile), IncompleteFile); err != nil {
		return fault.File(fault.InvalidArgument, w.where(IncompleteFile), err)
	}
	w.files = w.files[:len(w.files)-1]
	w.marked, w.restored = true, !marked
	if err := w.sync("."); err != nil {
		return err
	}
	return w.did("mark")
}

// unmark removes the mark, unless it is that of another Save by now.
func (w *StateWriter) unmark() error {
	if owner, _ := w.markOwner(); owner == w.token {
		if err := w.root.Remove(IncompleteFile); err != nil {
			return fault.File(fault.InvalidArgument, w.where(IncompleteFile), err)
		}
	}
	w.marked = false
	if err := w.sync("."); err != nil {
		return err
	}
	return w.did("unmark")
}

// sync waits until the names in a directory are on the disk. File systems that cannot do that are left alone.
func (w *StateWriter) sync(dir string) error {
	f, err := w.root.Open(dir)
	if err != nil {
		return fault.File(fault.InvalidArgument, w.where(dir), err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return fault.File(fault.InvalidArgument, w.where(dir), err)
	}
	return nil
}

func (w *StateWriter) did(step string) error {
	if w.after == nil {
		return nil
	}
	return w.after(step)
}

// discard removes what Begin and Save have made and Commit has not renamed.
func (w *StateWriter) discard() {
	if w.lock == nil {
		return
	}
	for _, f := range w.files {
		_ = w.root.Remove(w.part(f.name))
	}
	if owner, _ := w.markOwner(); w.marked && w.restored && owner == w.token {
		_ = w.root.Remove(IncompleteFile)
	}
	_ = w.root.Remove(w.part(""))
	_ = w.lock.Close()
	w.lock, w.files, w.marked, w.restored = nil, nil, false, false
}

// Close drops a state without Commit, and ends the use of the directory.
func (w *StateWriter) Close() error {
	w.discard()
	return w.root.Close()
}

// A byteCount counts what is written to another writer.
type byteCount struct {
	to    io.Writer
	bytes int64
}

func (c *byteCount) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.bytes += int64(n)
	return n, err
}

// SaveState writes the persistable tensors of p and a Progress, which may be nil, to dir. It replaces the state in dir as a StateWriter does.
func SaveState(s *Scope, dir string, p *program.Program, progress *Progress) error {
	values, err := valuesOf(s, Persistables(p))
	if err != nil {
		return err
	}
	w, err := NewStateWriter(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Begin(); err != nil {
		return err
	}
	for _, v := range values {
		if err := w.Save(v.name, []*tensor.Tensor{v.value}, true); err != nil {
			return err
		}
	}
	return w.Commit(progress)
}
