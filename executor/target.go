package executor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Target is what lies where a model is to be written: in a directory, or at the URL of a bucket. It has no files where nothing is. It is used by one goroutine.
type Target struct {
	where string
	files Files
	root  *os.Root      // of a directory; nil: none is there, or it is a bucket
	whole *bucketWriter // of a bucket; nil: a directory
	index *bucket.Index // of the bucket; nil: it has no model
}

// OpenTarget looks at a directory or a URL. The caller closes it.
func OpenTarget(where string) (*Target, error) { return Files{}.OpenTarget(where) }

// OpenTarget is the function OpenTarget.
func (f Files) OpenTarget(where string) (t *Target, err error) {
	if err := bucket.CheckPlace(where); err != nil {
		return nil, err
	}
	t = &Target{where: bucket.LocalPath(where), files: f}
	if !bucket.IsURL(t.where) {
		t.root, err = f.allowed.OpenRoot(t.where)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.Denied) { // who writes reports the latter
			return t, nil
		}
		if err != nil {
			return nil, fault.File(fault.InvalidArgument, t.where, err)
		}
		return t, nil
	}
	if t.whole, err = f.openBucket(t.where); err != nil {
		return nil, err
	}
	if t.index, err = t.whole.files.Index(f.context()); err != nil && !errors.Is(err, fault.NotFound) {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close ends the use of the target.
func (t *Target) Close() error {
	switch {
	case t.whole != nil:
		return t.whole.files.Close(t.files.context())
	case t.root != nil:
		return t.root.Close()
	}
	return nil
}

// Has reports whether a file of the name is there.
func (t *Target) Has(name string) bool {
	switch {
	case t.index != nil:
		return slices.Contains(t.index.Names(), filepath.ToSlash(name))
	case t.root != nil:
		_, err := t.root.Lstat(name)
		return err == nil
	}
	return false
}

// Head returns the first bytes of a file that is there, and so many at most.
func (t *Target) Head(name string, most int64) ([]byte, error) {
	if t.index != nil {
		return t.whole.files.Read(t.files.context(), t.index, filepath.ToSlash(name), most)
	}
	where := filepath.Join(t.where, name)
	if t.root == nil {
		return nil, fault.File(fault.NotFound, where, fs.ErrNotExist)
	}
	info, err := t.root.Stat(name)
	if err == nil {
		err = regularfile.Check(where, info)
	}
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, where, err)
	}
	file, err := t.root.Open(name)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, where, err)
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, most))
	return head, fault.File(fault.Unavailable, where, err)
}

// headBytes is how much of a file is read for the type of its tensor.
const headBytes = 64 << 10

// CheckModel refuses a target that holds the state of another model than p: one that lacks a parameter of p, or has it with another type or other dims. What optimizers
// remember does not count, and files that are no parameters of p may lie beside it.
func (t *Target) CheckModel(p *program.Program) error {
	state := t.Has(ProgressFile)
	var missing string
	for _, v := range p.Global().Vars() {
		if !v.IsParameter || !v.Persistable || v.Kind != program.LoDTensor {
			continue
		}
		if !t.Has(v.Name) {
			if missing == "" {
				missing = v.Name
			}
			continue
		}
		head, err := t.Head(v.Name, headBytes)
		if err != nil {
			return err
		}
		dtype, dims, err := tensor.Head(head)
		if err != nil {
			continue // a file of something else
		}
		if state = true; dtype != v.DType || !ops.Compatible(dims, v.Dims) {
			return t.otherModel(v.Name, ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: dims}.String(), ops.MetaOf(v).String())
		}
	}
	if state && missing != "" {
		return t.otherModel(missing, "no such parameter in it", "the parameters of this program")
	}
	return nil
}

// otherModel is the error of CheckModel.
func (t *Target) otherModel(variable, got, want string) error {
	return fault.E(fault.InvalidArgument, fault.At("cannot save to "+t.where), fault.Var(variable), fault.Got("another model: "+got), fault.Want(want),
		fault.Hint("name another place, or replace the model there with --overwrite"))
}
