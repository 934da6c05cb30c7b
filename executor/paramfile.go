package executor

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regular"
	"github.com/edl-go/edl/tensor"
)

// inRoot opens dir as the border that no name from a program can cross, making it when create is set.
func inRoot(dir string, create bool, do func(*os.Root) error) error {
	if create {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.File(fault.InvalidArgument, dir, err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.File(fault.InvalidArgument, dir, err)
	}
	defer root.Close()
	return do(root)
}

// writeFile writes the streams of tensors to a file, as writeWhole does.
func writeFile(root *os.Root, name string, tensors []*tensor.Tensor, overwrite bool) error {
	return writeWhole(root, name, overwrite, func(w io.Writer) error {
		for _, t := range tensors {
			if _, err := t.WriteTo(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeWhole writes a file that appears under its name when it is whole. Directories in name are made. Without overwrite a file that exists is an
// error.
func writeWhole(root *os.Root, name string, overwrite bool, write func(io.Writer) error) error {
	where := filepath.Join(root.Name(), name)
	if _, err := root.Lstat(name); err == nil && !overwrite {
		return fault.E(fault.InvalidArgument, fault.At(where), fault.Got("a file that exists"), fault.Want("a new name, or overwrite"))
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return fault.File(fault.InvalidArgument, where, err)
		}
	}
	part := name + ".part-" + rand.Text()
	if err := writeNew(root, part, write); err != nil {
		_ = root.Remove(part)
		return fault.File(fault.InvalidArgument, where, err)
	}
	if err := root.Rename(part, name); err != nil {
		_ = root.Remove(part)
		return fault.File(fault.InvalidArgument, where, err)
	}
	return nil
}

// writeNew writes a file that does not exist yet, and waits until it is on the disk.
func writeNew(root *os.Root, name string, write func(io.Writer) error) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// readFile lets read take the streams of a file, which must be read to its end.
func readFile(root *os.Root, name string, read func(*tensorReader) error) error {
	where := filepath.Join(root.Name(), name)
	info, err := root.Stat(name)
	if err != nil {
		return fault.File(fault.InvalidArgument, where, err)
	}
	if err := regular.Check(where, info); err != nil {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return fault.File(fault.InvalidArgument, where, err)
	}
	defer f.Close()
	r := &tensorReader{r: bufio.NewReaderSize(f, 1<<20)}
	err = read(r)
	if err == nil {
		err = r.end()
	}
	var found *fault.Fault
	if !errors.As(err, &found) {
		return fault.File(fault.Unavailable, where, err)
	}
	return found.In(where, ", ")
}
