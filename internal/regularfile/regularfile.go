// Package regularfile opens regular files and refuses the rest: a pipe or a device may block or never end, and a directory has no bytes.
package regularfile

import (
	"io/fs"
	"os"

	"github.com/edl-go/edl/fault"
)

// Open opens the regular file at path and returns its size. It looks before it opens, because opening a named pipe waits for a writer. An error is a
// fault that names path: NotFound, InvalidArgument for what is not a regular file, or else kind. The caller closes the file.
func Open(kind fault.Kind, path string) (*os.File, int64, error) {
	return open(kind, path, func() (fs.FileInfo, error) { return os.Stat(path) }, func() (*os.File, error) { return os.Open(path) })
}

// OpenIn is Open of a name below a root; path is what errors name.
func OpenIn(root *os.Root, kind fault.Kind, name, path string) (*os.File, int64, error) {
	return open(kind, path, func() (fs.FileInfo, error) { return root.Stat(name) }, func() (*os.File, error) { return root.Open(name) })
}

func open(kind fault.Kind, path string, look func() (fs.FileInfo, error), open func() (*os.File, error)) (*os.File, int64, error) {
	info, err := look()
	if err != nil {
		return nil, 0, fault.File(kind, path, err)
	}
	if err := Check(path, info); err != nil {
		return nil, 0, err
	}
	f, err := open()
	if err != nil {
		return nil, 0, fault.File(kind, path, err)
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, fault.File(kind, path, err)
	}
	if err := Check(path, info); err != nil { // it was replaced meanwhile
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Check refuses what is not a regular file. info is that of path.
func Check(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.At(path), fault.Got(name(info.Mode())), fault.Want("a regular file"))
}

// name says what is at a path.
func name(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a file of mode " + mode.Type().String()
}
