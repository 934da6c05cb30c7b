package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A StateWriter replaces the state in a directory by another one, as a whole or not at all:
//
//	Begin -> Save, once for each variable -> Commit
//
//	DIR/.save-TOKEN/state/fc_0.w_0     Save writes here. A failure, as of a full disk, leaves the older state untouched.
//	DIR/__incomplete__/state/fc_0.w_0  Commit renames the folder when all files are complete and on the disk: from this moment the new state counts.
//	DIR/fc_0.w_0                       Commit moves each file to its place, and removes the folder.
//
// Whoever is killed before the rename leaves the older state, and a folder that the next Begin removes. Whoever is killed after it leaves the new state:
// CheckComplete, which every Load calls, and Begin move the other files. This works where a directory cannot be renamed, such as the top of a volume.
//
// It is used by one goroutine. Files that do not belong to the new state stay.
//
// A directory may be the URL of a bucket, s3://bucket/folder: then the new state is in a folder of its own below it, and counts when Commit has written the list of its
// files (bucket.Whole). Files that do not belong to it are gone with the older state.
type StateWriter struct {
	dir    string
	opens  Files
	bucket *bucketWriter // of a URL; nil: dir is a directory
	root   *os.Root
	folder string   // of this Save; empty before Begin
	lock   *os.File // of the folder
	files  []stagedFile

	committed bool                    // the folder is the IncompleteFolder: Close must not remove it
	after     func(step string) error // nil, or what a test does after each durable step
}

// A stagedFile is one of the new state.
type stagedFile struct {
	name  string
	bytes int64
}

var _ ops.Storage = (*StateWriter)(nil)

// NewStateWriter opens dir, making it if need be. The caller ends it with Close.
func NewStateWriter(dir string) (*StateWriter, error) { return Files{}.NewStateWriter(dir) }

func (w *StateWriter) open() (err error) {
	if bucket.IsURL(w.dir) {
		if w.bucket == nil {
			w.bucket, err = w.opens.openBucket(w.dir)
		}
		return err
	}
	root, err := w.opens.allowed.MakeRoot(w.dir)
	if err != nil {
		return fault.File(fault.InvalidArgument, w.dir, err)
	}
	w.root = root
	return nil
}

// Dir is the directory.
func (w *StateWriter) Dir() string { return w.dir }

// Bytes is how many bytes were written since Begin.
func (w *StateWriter) Bytes() (bytes int64) {
	if w.bucket != nil {
		return w.bucket.files.Bytes()
	}
	for _, f := range w.files {
		bytes += f.bytes
	}
	return bytes
}

// Begin begins a state. What was saved since an earlier Begin without Commit is dropped. It opens the directory again: somebody may have replaced it
// since. It finishes or removes what Saves have left that were killed.
func (w *StateWriter) Begin() error {
	if w.bucket != nil {
		w.bucket.files.Begin(w.bucket.ctx)
		return nil
	}
	w.discard()
	_ = w.root.Close()
	if err := w.open(); err != nil {
		return err
	}
	if err := finishInterrupted(w.root, 0); err != nil && !errors.Is(err, fault.Unavailable) {
		return err
	}
	for tries := 0; ; tries++ {
		folder := saveMark + rand.Text()
		err := w.root.Mkdir(folder, policy.FolderMode)
		if err == nil {
			w.lock, err = lockFolder(w.root, folder)
		}
		if err == nil {
			w.folder = folder
			break
		}
		if tries == 2 || !errors.Is(err, errHeld) && !errors.Is(err, fs.ErrNotExist) { // else another Begin has taken it for one that was left
			return saveFault(w.root, folder, err)
		}
	}
	return w.sweep()
}

// sweep removes what writers have left that are gone: folders of Saves, and temporary files.
func (w *StateWriter) sweep() error {
	mine, err := w.lock.Stat()
	if err != nil {
		return saveFault(w.root, w.folder, err)
	}
	entries, err := fs.ReadDir(w.root.FS(), ".")
	if err != nil {
		return saveFault(w.root, ".", err)
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case entry.IsDir() && isSaveFolder(name) && name != w.folder && filelock.Supported:
			if lock, err := lockFolder(w.root, name); err == nil {
				_ = w.root.RemoveAll(name) // another Save may do the same
				_ = lock.Close()
			}
		case entry.Type().IsRegular() && hasToken(name, partMark):
			info, err := w.root.Lstat(name)
			if err == nil && info.ModTime().Before(mine.ModTime()) && !w.held(name) {
				_ = w.root.Remove(name)
			}
		}
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

// staged is where a file of the new state is until Commit.
func (w *StateWriter) staged(name string) string { return filepath.Join(w.folder, saveState, name) }

func (w *StateWriter) where(name string) string { return filepath.Join(w.dir, name) }

// Save implements ops.Storage: it writes one variable of the state that Begin has begun.
func (w *StateWriter) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	return w.SaveFile(name, streams(tensors), overwrite)
}

// SaveShort implements ops.Storage.
func (w *StateWriter) SaveShort(name string, t *tensor.Tensor, overwrite bool) error {
	return w.SaveFile(name, fileOf(t, true), overwrite)
}

// SaveFile writes one file of the state that Begin has begun, with any content. Its name is checked as that of a variable is.
func (w *StateWriter) SaveFile(name string, write func(io.Writer) error, overwrite bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	name = filepath.Clean(name)
	if w.bucket != nil {
		return w.bucket.save(name, write, overwrite)
	}
	again := slices.IndexFunc(w.files, func(f stagedFile) bool { return f.name == name })
	if _, err := w.root.Lstat(name); (err == nil || again >= 0) && !overwrite {
		return existing(w.where(name))
	}
	if again >= 0 {
		w.files = slices.Delete(w.files, again, again+1)
		if err := w.root.Remove(w.staged(name)); err != nil {
			return saveFault(w.root, name, err)
		}
	}
	return w.stage(name, write)
}

// Load implements ops.Storage: nothing is loaded from a state that is being written.
func (w *StateWriter) Load(name string, _ []*tensor.Tensor) error {
	return fault.E(fault.Unsupported, fault.At(name), fault.Got("a load op in a save program"))
}

// stage writes a file of the new state.
func (w *StateWriter) stage(name string, write func(io.Writer) error) error {
	staged := w.staged(name)
	err := w.root.MkdirAll(filepath.Dir(staged), policy.FolderMode)
	n := &byteCount{}
	if err == nil {
		err = writeNew(w.root, staged, func(to io.Writer) error { n.to = to; return write(n) })
	}
	if err != nil {
		_ = w.root.Remove(staged)
		var known *fault.Fault
		if _, ofSystem := errors.AsType[*fs.PathError](err); !ofSystem && errors.As(err, &known) {
			return known.In(w.where(name), ", ")
		}
		return saveFault(w.root, name, err)
	}
	w.files = append(w.files, stagedFile{name, n.bytes})
	return w.did("write " + name)
}

// Commit makes what was saved since Begin the state in the directory, with a Progress; nil: its progress is not known. When it fails, the directory has
// the older state or the new one, which Begin, Load and CheckComplete bring to its place.
func (w *StateWriter) Commit(p *Progress) error {
	if w.bucket != nil {
		return w.bucket.commit(p)
	}
	if err := w.stageProgress(p); err != nil {
		return err
	}
	if err := w.checkFiles(); err != nil {
		return err
	}
	names := make([]string, len(w.files))
	for i, f := range w.files {
		names[i] = filepath.Join(saveState, f.name)
	}
	if err := syncFoldersOf(w.root, w.folder, append(names, filepath.Join(saveRemoved, "x"))); err != nil {
		return err
	}
	if err := syncFolder(w.root, "."); err != nil {
		return err
	}
	if err := finishInterrupted(w.root, 0); err != nil {
		return err
	}
	if err := w.root.Rename(w.folder, IncompleteFolder); err != nil {
		if errors.Is(err, fs.ErrExist) { // another Save was faster
			return fault.E(fault.Unavailable, fault.At(w.dir), fault.Got(errHeld.Error()), fault.Want("one at a time"))
		}
		return saveFault(w.root, IncompleteFolder, err)
	}
	w.folder, w.committed = IncompleteFolder, true
	if err := syncFolder(w.root, "."); err != nil {
		return err
	}
	if err := w.did("commit"); err != nil {
		return err
	}
	if err := moveIn(w.root, w.lock, w.after); err != nil {
		return err
	}
	w.discard()
	return nil
}

// Remove says that the new state does not have a file, which Commit removes if it is there.
func (w *StateWriter) Remove(name string) error {
	if w.bucket != nil {
		return nil // the new state has nothing of the older one
	}
	mark := filepath.Join(w.folder, saveRemoved, name)
	if name != ProgressFile {
		if err := checkName(name); err != nil {
			return err
		}
	}
	err := w.root.MkdirAll(filepath.Dir(mark), policy.FolderMode)
	if err == nil {
		err = writeNew(w.root, mark, func(io.Writer) error { return nil })
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return saveFault(w.root, name, err)
	}
	return nil
}

// stageProgress writes the Progress, or a mark that there is none.
func (w *StateWriter) stageProgress(p *Progress) error {
	if p == nil {
		return w.Remove(ProgressFile)
	}
	text, err := encodeProgress(*p)
	if err != nil {
		return err
	}
	return w.stage(ProgressFile, func(to io.Writer) error { _, err := to.Write(text); return err })
}

// checkFiles checks that each file has what was written, and what could make it impossible to move it to its place.
func (w *StateWriter) checkFiles() error {
	for _, f := range w.files {
		info, err := w.root.Lstat(w.staged(f.name))
		if err != nil {
			return saveFault(w.root, f.name, err)
		}
		if info.Size() != f.bytes {
			return fault.E(fault.Unavailable, fault.At(w.where(f.name)), fault.Gotf("%d bytes in the file", info.Size()), fault.Wantf("%d, as written", f.bytes))
		}
		if info, err = w.root.Lstat(f.name); err == nil && info.IsDir() {
			return fault.E(fault.InvalidArgument, fault.At(w.where(f.name)), fault.Got("a directory"), fault.Want("a file, or a name that is free"))
		}
		for dir := filepath.Dir(f.name); dir != "."; dir = filepath.Dir(dir) {
			if info, err := w.root.Stat(dir); err == nil && !info.IsDir() {
				return fault.E(fault.InvalidArgument, fault.At(w.where(dir)), fault.Got("a file"), fault.Want("a directory, or a name that is free"))
			}
		}
	}
	return nil
}

func (w *StateWriter) did(step string) error {
	if w.after == nil {
		return nil
	}
	return w.after(step)
}

// discard ends a Save, and removes what it has made if that does not count yet.
func (w *StateWriter) discard() {
	if w.folder == "" {
		return
	}
	_ = w.lock.Close()
	if !w.committed {
		_ = w.root.RemoveAll(w.folder)
	}
	w.folder, w.lock, w.files, w.committed = "", nil, nil, false
}

// Close drops a state without Commit, and ends the use of the directory.
func (w *StateWriter) Close() error {
	if w.bucket != nil {
		return w.bucket.files.Close(w.bucket.ctx)
	}
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

// savePauses are between the tries of a Save: a disk may be full, or a share away, for a while.
var savePauses = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 30 * time.Second} // SaveLimit

// SaveLimit is how long RetrySave pauses between its tries, all together.
const SaveLimit = time.Minute

// RetrySave calls save until it succeeds, fails with an error that cannot pass, ctx ends, or the pauses were SaveLimit. A full disk can pass. retry is told
// of each error after which there is another try; it may be nil.
func RetrySave(ctx context.Context, save func() error, retry func(err error, pause time.Duration)) error {
	for _, pause := range savePauses {
		err := save()
		if !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.TooLarge) {
			return err
		}
		if retry != nil {
			retry(err, pause)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
	return save()
}

// SaveState writes the persistable tensors of p and a Progress, which may be nil, to dir. It replaces the state in dir as a StateWriter does.
func SaveState(s *Scope, dir string, p *program.Program, progress *Progress) error {
	return Files{}.saveState(s, dir, p, progress)
}

// saveState is the function SaveState.
func (f Files) saveState(s *Scope, dir string, p *program.Program, progress *Progress) error {
	values, err := valuesOf(s, Persistables(p))
	if err != nil {
		return err
	}
	w, err := f.NewStateWriter(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Begin(); err != nil {
		return err
	}
	grown := sparse.Grown(p)
	for _, v := range values {
		if err := w.SaveFile(v.name, fileOf(v.value, grown[v.name]), true); err != nil {
			return err
		}
	}
	return w.Commit(progress)
}
