package executor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/internal/policy"
)

// IncompleteFolder is the name of the folder that a Save leaves in a directory when it is interrupted after its Commit. It has the files of the new state
// that are not in their places yet. The next Save, Load or CheckComplete moves them there. No variable of this name can be saved.
const IncompleteFolder = "__incomplete__"

// A Save writes into a folder with the name saveMark and a token. It becomes the IncompleteFolder. In it are:
const (
	saveLock    = "lock"    // is locked as long as the Save lives
	saveState   = "state"   // the new state: the files of the directory by name
	saveRemoved = "removed" // empty files with the names of those that the new state does not have
)

// A temporary file has the name of the file that it will be, then partMark, then a token.
const (
	partMark    = ".part-"
	saveMark    = ".save-"
	tokenLength = 26 // of rand.Text
)

// finishWait is how long a reader waits for a Save that moves its files.
const finishWait = 2 * time.Second

// IsTemporary reports whether a path is that of a file that a writer has not finished. It is no variable.
func IsTemporary(name string) bool {
	if hasToken(name, partMark) {
		return true
	}
	for _, part := range strings.Split(filepath.ToSlash(name), "/") {
		if part == IncompleteFolder || isSaveFolder(part) {
			return true
		}
	}
	return false
}

// isSaveFolder reports whether a name is that of a folder that a Save writes into.
func isSaveFolder(name string) bool {
	return strings.HasPrefix(name, saveMark) && hasToken(name, saveMark)
}

// hasToken reports whether a name ends with a mark and a token.
func hasToken(name, mark string) bool {
	at := strings.LastIndex(name, mark)
	return at >= 0 && len(name)-at-len(mark) == tokenLength && strings.Trim(name[at+len(mark):], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// checkName refuses names that no variable can have in a directory of variables.
func checkName(name string) error {
	var got string
	switch clean := filepath.Clean(name); {
	case clean == ".":
		got = "no name of a file"
	case clean == ProgressFile:
		got = "the name of the file that holds the progress"
	case !filepath.IsLocal(name):
		got = "a name that leads out of the directory"
	case clean == IncompleteFolder || strings.HasPrefix(filepath.ToSlash(clean), IncompleteFolder+"/"):
		got = "the name of the folder that an interrupted Save leaves"
	case IsTemporary(clean):
		got = "the name of a temporary file"
	default:
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got(got), fault.Want("another name"))
}

// CheckComplete makes sure that a directory has one whole state: if a Save was interrupted after its Commit, it moves the files of the new state to their
// places. It waits a short time for a Save that does so. A path that is no directory, or does not exist, passes.
func CheckComplete(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, IncompleteFolder)); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		return fault.File(fault.InvalidArgument, dir, err)
	}
	return Files{}.inRoot(dir, false, func(root *os.Root) error { return finishInterrupted(root, finishWait) })
}

// errHeld says that another process moves the files of its Save.
var errHeld = errors.New("another Save replaces the state in this directory")

// finishInterrupted moves the files of an interrupted Save to their places. While the Save lives, it waits for its end, but not longer than wait.
func finishInterrupted(root *os.Root, wait time.Duration) error {
	until := time.Now().Add(wait)
	for {
		info, err := root.Lstat(IncompleteFolder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return saveFault(root, IncompleteFolder, err)
		case !info.IsDir():
			return fault.E(fault.Corrupt, fault.At(filepath.Join(root.Name(), IncompleteFolder)), fault.Got("a file"),
				fault.Want("the folder of an interrupted Save, or nothing"), fault.Hint("save a whole state to another directory, or load another one"))
		}
		lock, err := lockFolder(root, IncompleteFolder)
		switch {
		case err == nil:
			return errors.Join(moveIn(root, lock, nil), closeQuietly(lock))
		case errors.Is(err, fs.ErrNotExist): // it has just ended
		case !errors.Is(err, errHeld):
			return fault.E(fault.InvalidArgument, fault.At(root.Name()), fault.Cause(err), fault.Got("a directory whose last Save was interrupted"),
				fault.Want("a directory that can be written to"), fault.Hintf("the new state is whole in %s", IncompleteFolder))
		case !time.Now().Before(until):
			return fault.E(fault.Unavailable, fault.At(root.Name()), fault.Got(errHeld.Error()), fault.Want("one at a time"))
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func closeQuietly(f *os.File) error {
	_ = f.Close() // it may be closed, and nothing was written
	return nil
}

// lockFolder locks the folder of a Save. It fails with errHeld while another one has the lock, and with fs.ErrNotExist when the folder is removed.
func lockFolder(root *os.Root, folder string) (*os.File, error) {
	name := filepath.Join(folder, saveLock)
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, policy.FileMode)
	if err != nil {
		return nil, err
	}
	if err := filelock.Try(f); err != nil && filelock.Supported {
		f.Close()
		return nil, errHeld
	}
	mine, err := f.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = root.Lstat(name); err == nil && !os.SameFile(mine, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// moveIn moves the files of the IncompleteFolder to their places, and removes it. First it removes all files that are replaced. So at no time has the
// directory files of two states: a program that does not know the folder, such as Fluid, finds one whole state, or files are missing. Each step can
// be repeated after a crash. lock is that of the folder. did may be nil; it is called after each durable step.
func moveIn(root *os.Root, lock *os.File, did func(step string) error) error {
	if did == nil {
		did = func(string) error { return nil }
	}
	state := filepath.Join(IncompleteFolder, saveState)
	names, err := filesIn(root, state)
	if err != nil {
		return err
	}
	gone, err := filesIn(root, filepath.Join(IncompleteFolder, saveRemoved))
	if err != nil {
		return err
	}
	remove := append(gone, names...)
	slices.Sort(remove)
	for _, name := range remove {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return saveFault(root, name, err)
		}
		if err := did("remove " + name); err != nil {
			return err
		}
	}
	if err := syncFoldersOf(root, ".", remove); err != nil {
		return err
	}
	for _, name := range names {
		if dir := filepath.Dir(name); dir != "." {
			if err := root.MkdirAll(dir, policy.FolderMode); err != nil {
				return saveFault(root, dir, err)
			}
		}
		if err := root.Rename(filepath.Join(state, name), name); err != nil {
			return saveFault(root, name, err)
		}
		if err := did("move " + name); err != nil {
			return err
		}
	}
	if err := syncFoldersOf(root, ".", names); err != nil {
		return err
	}
	if err := did("sync"); err != nil {
		return err
	}
	for _, part := range []string{saveState, saveRemoved} {
		if err := root.RemoveAll(filepath.Join(IncompleteFolder, part)); err != nil {
			return saveFault(root, IncompleteFolder, err)
		}
	}
	if !filelock.Supported {
		_ = lock.Close() // such a system does not remove open files
	}
	// Another Save may bring its folder here as soon as this one is empty, so what is removed has a name of this Save, or is empty.
	if err := root.Remove(filepath.Join(IncompleteFolder, saveLock)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return saveFault(root, IncompleteFolder, err)
	}
	_ = root.Remove(IncompleteFolder)
	if err := syncFolder(root, "."); err != nil {
		return err
	}
	return did("end")
}

// filesIn returns the names of the regular files in and below a folder, sorted. A folder that does not exist has none.
func filesIn(root *os.Root, folder string) (names []string, err error) {
	if info, err := root.Lstat(folder); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil
	}
	top := filepath.ToSlash(folder)
	err = fs.WalkDir(root.FS(), top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		inside := filepath.FromSlash(strings.TrimPrefix(name, top+"/"))
		if inside != ProgressFile {
			if err := checkName(inside); err != nil {
				return err
			}
		}
		names = append(names, inside)
		return nil
	})
	slices.Sort(names)
	var known *fault.Fault
	if err != nil && !errors.As(err, &known) {
		err = saveFault(root, folder, err)
	}
	return names, err
}

// syncFoldersOf waits until the names of files below a folder are on the disk.
func syncFoldersOf(root *os.Root, below string, names []string) error {
	folders := []string{below}
	for _, name := range names {
		for dir := path.Dir(filepath.ToSlash(name)); dir != "."; dir = path.Dir(dir) {
			folders = append(folders, filepath.Join(below, filepath.FromSlash(dir)))
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		if err := syncFolder(root, folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncFolder waits until the names in a folder are on the disk. File systems that cannot do that are left alone.
func syncFolder(root *os.Root, folder string) error {
	f, err := root.Open(folder)
	if err != nil {
		return saveFault(root, folder, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return saveFault(root, folder, err)
	}
	return nil
}

// passing are errors of a file system that may pass without a change of the command: space is freed, a share comes back.
var passing = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ESTALE, syscall.ETIMEDOUT, syscall.EAGAIN}

// saveFault is an error of the file system while a state is saved: Unavailable when another try may help, otherwise InvalidArgument.
func saveFault(root *os.Root, name string, err error) error {
	where := filepath.Join(root.Name(), name)
	if errors.Is(err, io.ErrShortWrite) || slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) }) {
		return fault.File(fault.Unavailable, where, err)
	}
	return fault.File(fault.InvalidArgument, where, err)
}
