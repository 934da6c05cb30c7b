package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
)

// A run directory holds what a cluster of one machine needs while it runs. The marker is what makes it safe to remove.
const (
	marker        = "edl-run"
	markerContent = "This directory belongs to a running edl and is removed when it ends.\n"
	removing      = ".removing"
)

// MakeRunDir makes a new run directory in parent; "" is the directory for temporary files.
func MakeRunDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "edl-run-")
	if err != nil {
		return "", fault.Wrap(fault.InvalidArgument, "run directory", err)
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.WriteFile(filepath.Join(dir, marker), []byte(markerContent), 0o600)
	}
	if err != nil {
		return "", errors.Join(fault.Wrap(fault.InvalidArgument, "run directory", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// RemoveRunDir removes a directory that MakeRunDir made, with its content, and refuses any other. Several processes may call it at once: a directory
// that is gone is no error.
func RemoveRunDir(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return fault.E(fault.InvalidArgument, fault.At("run directory"), fault.Got(fault.Quote(dir)), fault.Want("a clean absolute path"))
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, "run directory", err)
	}
	if !info.IsDir() || !marked(dir) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil // another process has removed it meanwhile
		}
		return fault.E(fault.InvalidArgument, fault.At("run directory"), fault.Got(fault.Quote(dir)),
			fault.Want("a directory with the file "+marker+" in it"))
	}
	// It is renamed first, so that nobody finds a directory that exists without its marker.
	if err := os.Rename(dir, dir+removing); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Unavailable, "run directory", err)
	}
	return fault.Wrap(fault.Unavailable, "run directory", os.RemoveAll(dir+removing))
}

// marked reports whether dir holds the marker.
func marked(dir string) bool {
	path := filepath.Join(dir, marker)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(markerContent)) {
		return false
	}
	content, err := os.ReadFile(path)
	return err == nil && string(content) == markerContent
}
