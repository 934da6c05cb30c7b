package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/filelock"
)

// A Hold keeps other commands and jobs from writing into a directory, from before they look at what is in it until Release: two that both find it empty would leave
// files of both. It ends with the process that has it. A StateWriter needs none, and is not kept from writing: its caller holds the directory for as long as it trains.
//
// Nothing is held, and Hold does not fail, where that is not possible: the URL of a bucket, where the later state replaces the earlier one as a whole; a directory that
// cannot be made or opened, which whoever writes there reports; a file system without locks of directories.
type Hold struct {
	lock *os.File // nil: nothing is held
	made []string // directories that were not there before, the innermost first
}

// HoldDirectory makes a directory if need be, and holds it. It fails while another process, or another Hold of this one, has it.
func HoldDirectory(dir string) (*Hold, error) { return Files{}.Hold(dir) }

// Hold is the function HoldDirectory.
func (f Files) Hold(dir string) (*Hold, error) {
	if dir = bucket.LocalPath(dir); dir == "" || bucket.IsURL(dir) {
		return &Hold{}, nil
	}
	for {
		h := &Hold{made: missing(dir)}
		held, gone, err := lockDirectory(f, dir)
		switch h.lock = held; {
		case err != nil: // what it has made, if anything, is that of the other one
			return nil, err
		case gone: // the one before has removed what it had made
			h.Release()
			continue
		}
		return h, nil
	}
}

// lockDirectory locks a directory, which it makes; nil: it cannot be locked. gone: it was removed before the lock was there.
func lockDirectory(f Files, dir string) (lock *os.File, gone bool, err error) {
	root, err := f.allowed.MakeRoot(dir)
	if err != nil {
		return nil, false, nil
	}
	defer root.Close()
	if lock, err = root.Open("."); err != nil {
		return nil, false, nil
	}
	if err := filelock.Try(lock); err != nil {
		lock.Close()
		if filelock.Held(err) {
			return nil, false, fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("a directory that another command or job writes to"),
				fault.Want("one at a time"), fault.Hint("wait for its end, or name another directory"))
		}
		return nil, false, nil
	}
	mine, err := lock.Stat()
	if err != nil {
		return lock, false, nil
	}
	there, err := os.Stat(dir)
	return lock, errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there), nil
}

// Release lets others write. It removes the directories that were made for the hold, if they are still empty. It may be called again, and of nil.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	for _, dir := range h.made {
		if os.Remove(dir) != nil {
			break
		}
	}
	if h.made = nil; h.lock != nil {
		h.lock.Close()
		h.lock = nil
	}
}

// missing lists the directories that os.MkdirAll would make, the innermost first.
func missing(dir string) (names []string) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			return names
		}
		names = append(names, d)
	}
}
