package listen

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/internal/filelock"
)

// The directory of a listener's states has a lock file, which the listener locks as long as it lives. A directory gets its name when it is locked, so
// that another listener never finds it without.
const (
	statesPrefix = "edl-states-"
	statesLock   = "lock"
)

// lockedDir makes and locks a directory for states in parent. On a system without locks it only makes one: no listener can know there that another
// has died.
func lockedDir(parent string) (dir string, unlock func(), err error) {
	if !filelock.Supported {
		if dir, err = os.MkdirTemp(parent, statesPrefix); err != nil {
			return "", nil, err
		}
		dir, err = filepath.Abs(dir)
		return dir, func() {}, err
	}
	made, err := os.MkdirTemp(parent, ".new-"+statesPrefix)
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	f, err := os.OpenFile(filepath.Join(made, statesLock), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err = filelock.Try(f); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	dir = filepath.Join(parent, filepath.Base(made)[len(".new-"):])
	if err = os.Rename(made, dir); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	dir, err = filepath.Abs(dir)
	return dir, func() { _ = f.Close() }, err
}

// removeLeftStates removes the directories of listeners in parent that have died. It removes none on a system without locks.
func removeLeftStates(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, statesPrefix+"*"))
	for _, dir := range left {
		f, err := os.OpenFile(filepath.Join(dir, statesLock), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if filelock.Try(f) == nil {
			_ = os.RemoveAll(dir) // another listener may do the same
		}
		_ = f.Close()
	}
}
