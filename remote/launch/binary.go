package launch

import (
	"errors"
	"io/fs"
	"os"

	"github.com/edl-go/edl/fault"
)

// A Binary is the file of a command as it was when it was opened. Roles start from it although an upgrade has put another file in its place, so that the roles of a job are of one build.
// On Linux a process starts from the open file. Other systems start it by its path, and refuse that when it is another file by then.
type Binary struct {
	path   string
	file   *os.File
	opened fs.FileInfo
}

// OpenBinary opens the first of several paths that can be opened. The caller closes it when no role is to start from it any more.
func OpenBinary(paths ...string) (*Binary, error) {
	var failures []error
	for _, path := range paths {
		f, err := os.Open(path)
		if err == nil {
			f, err = above(f)
		}
		if err != nil {
			failures = append(failures, fault.File(fault.Unavailable, path, err))
			continue
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("no regular file")
		}
		if err != nil {
			failures = append(failures, fault.File(fault.Unavailable, path, err), f.Close())
			continue
		}
		return &Binary{path: originOf(f, path), file: f, opened: info}, nil
	}
	return nil, errors.Join(failures...)
}

// Path is where the file was, which people recognize.
func (b *Binary) Path() string { return b.path }

// Close closes the file. Processes that run of it go on.
func (b *Binary) Close() error { return b.file.Close() }

// executable is what exec takes to start the file as it was.
func (b *Binary) executable() (string, error) {
	now, err := b.now()
	if err != nil {
		return "", fault.File(fault.Unavailable, b.path, err)
	}
	if !os.SameFile(now, b.opened) || now.Size() != b.opened.Size() || !now.ModTime().Equal(b.opened.ModTime()) {
		return "", fault.E(fault.Unavailable, fault.At(b.path), fault.Got("another file than the one that the roles of this job have started from"), fault.Want("one build for all roles of a job"),
			fault.Hint("put the earlier build back until the job has ended, or go on from its last checkpoint with \"edl jobs resume\""))
	}
	return b.starts(), nil
}
