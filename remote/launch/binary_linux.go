package launch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// leastNumber is above the numbers of files that a child is given, which take the place of those of its parent before it begins.
const leastNumber = 64

// above returns the file under a number of at least leastNumber, and closes it under the number that it has.
func above(f *os.File) (*os.File, error) {
	defer f.Close()
	number, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, leastNumber)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(number), f.Name()), nil
}

// originOf is where a file was that was opened by a path, which may be one of those below /proc.
func originOf(f *os.File, path string) string {
	if target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return strings.TrimSuffix(target, " (deleted)")
	}
	return path
}

// now is what the open file is now. It may have been written to.
func (b *Binary) now() (fs.FileInfo, error) { return b.file.Stat() }

// starts is the open file, in the child that is to start from it: it has the files of its parent until it begins.
func (b *Binary) starts() string { return fmt.Sprintf("/proc/self/fd/%d", b.file.Fd()) }

// Shared is what another process of this user and this machine passes to OpenBinary, the best first; nothing for nil.
func (b *Binary) Shared() []string {
	if b == nil {
		return nil
	}
	return []string{fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.file.Fd()), b.path}
}

// OpenOwn opens the binary that this process runs.
func OpenOwn() (*Binary, error) { return OpenBinary("/proc/self/exe") }

// nameProcess gives this process the name of its command in lists of processes: one that has started from an open file would have its number.
func nameProcess(command string) {
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(command)), 0) // a name is for people
}
