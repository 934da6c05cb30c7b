package executor

import (
	"os"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// DirStorage gives save and load ops the files below one directory. Names that lead out of it, through "..", an absolute path or a
// symbolic link, are refused.
type DirStorage struct {
	root *os.Root
}

var _ ops.Storage = (*DirStorage)(nil)

// NewStorage opens dir, making it if need be. The caller ends it with Close.
func NewStorage(dir string) (*DirStorage, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	return &DirStorage{root}, nil
}

// Close ends the use of the directory.
func (s *DirStorage) Close() error { return s.root.Close() }

// Save implements ops.Storage. The file appears whole or not at all.
func (s *DirStorage) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	return writeFile(s.root, name, tensors, overwrite)
}

// Load implements ops.Storage.
func (s *DirStorage) Load(name string, into []*tensor.Tensor) error {
	return readFile(s.root, name, func(r *tensorReader) error {
		for i, t := range into {
			got, err := r.next()
			if err != nil {
				return err
			}
			if got.DType() != t.DType() || !slices.Equal(got.Dims(), t.Dims()) {
				return fault.E(fault.ShapeMismatch, fault.Gotf("%v as tensor %d", got, i), fault.Want(t.String()))
			}
			if err := t.CopyFrom(got); err != nil {
				return err
			}
			t.SetLoD(got.LoD())
		}
		return nil
	})
}
