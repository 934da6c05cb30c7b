//go:build !linux

package launch

import (
	"io/fs"
	"os"
)

// above returns the file as it is: no child starts from it.
func above(f *os.File) (*os.File, error) { return f, nil }

// originOf is where a file was.
func originOf(_ *os.File, path string) string { return path }

// now is what is at the path of the file now.
func (b *Binary) now() (fs.FileInfo, error) { return os.Stat(b.path) }

// starts is the path of the file.
func (b *Binary) starts() string { return b.path }

// Shared is what another process of this user and this machine passes to OpenBinary; nothing for nil.
func (b *Binary) Shared() []string {
	if b == nil {
		return nil
	}
	return []string{b.path}
}

// OpenOwn opens the binary that this process runs.
func OpenOwn() (*Binary, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return OpenBinary(path)
}

// nameProcess does nothing: a process has the name of its file.
func nameProcess(string) {}
