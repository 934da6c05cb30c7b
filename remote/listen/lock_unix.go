//go:build unix

package listen

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// The directory of a listener's states has a lock file, which the listener locks as long as it lives: the system frees the lock of a process that
// dies. A directory gets its name when it is locked, so that another listener never finds it without.
const (
	statesPrefix = "edl-states-"
	statesLock   = "lock"
)

// lockedDir makes and locks a directory for states in parent.
func lockedDir(parent string) (dir string, unlock func(), err error) {
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
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	dir = filepath.Join(parent, filepath.Base(made)[len(".new-"):])
	if err = os.Rename(made, dir); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	dir, err = filepath.Abs(dir)
	return dir, func() { _ = f.Close() }, err
}

// removeLeftStates removes the directories of listeners in parent that have died.
func removeLeftStates(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, statesPrefix+"*"))
	for _, dir := range left {
		f, err := os.OpenFile(filepath.Join(dir, statesLock), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // another listener may do the same
		}
		_ = f.Close()
	}
}
