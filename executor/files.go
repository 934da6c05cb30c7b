package executor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/pickle"
)

// Files opens saved states on behalf of a job whose listener bounds what it may read and write. What the listener does not allow is fault.Denied. The zero Files may do
// what the process may, as the functions of the same names.
type Files struct {
	allowed *policy.Policy
	ctx     context.Context // of what is written to buckets; nil: that of the process
	place   Place           // nil: memory of Go
}

// A Place gives the memory that a parameter is read into: a tensor of this type and dims, with any elements, or nil for memory of Go. bytes is what the parameter takes of its file. The program
// declares the type and the dims. A reader asks a Place for a parameter again if somebody replaces the files while it reads.
type Place func(name string, dtype tensor.DType, dims []int64, bytes int64) (*tensor.Tensor, error)

// FilesInto returns Files that read parameters into the memory of a place.
func FilesInto(place Place) Files { return Files{place: place} }

// FilesOf returns the Files of a job whose policy is in a context. What is written to buckets ends with the context.
func FilesOf(ctx context.Context) Files { return Files{allowed: policy.From(ctx), ctx: ctx} }

func (f Files) context() context.Context {
	if f.ctx == nil {
		return context.Background()
	}
	return f.ctx
}

// NewStateWriter is the function NewStateWriter.
func (f Files) NewStateWriter(dir string) (*StateWriter, error) {
	w := &StateWriter{dir: bucket.LocalPath(dir), opens: f}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// OpenStorage opens the directory of a saved state for reading, which must be there. It fails where CheckComplete does. The caller closes it.
func (f Files) OpenStorage(dir string) (*DirStorage, error) {
	if info, err := f.allowed.Stat(dir); errors.Is(err, fault.Denied) {
		return nil, err
	} else if err != nil || !info.IsDir() {
		return nil, fault.E(fault.NotFound, fault.At(dir), fault.Got("no directory of parameters"), fault.Want("one file per variable"), fault.Cause(err))
	}
	root, err := f.allowed.OpenRoot(dir)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	if err := finishIn(root); err != nil {
		root.Close()
		return nil, err
	}
	return &DirStorage{root}, nil
}

// finishIn is CheckComplete of the directory of a root.
func finishIn(root *os.Root) error {
	if _, err := root.Lstat(IncompleteFolder); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fault.File(fault.InvalidArgument, root.Name(), err)
	}
	return finishInterrupted(root, finishWait)
}

// ReadProgress is the function ReadProgress.
func (f Files) ReadProgress(from string) (Progress, bool, error) {
	info, err := f.allowed.Stat(from)
	if err != nil {
		return Progress{}, false, fault.File(fault.InvalidArgument, from, err)
	}
	if !info.IsDir() {
		return Progress{}, false, nil
	}
	root, err := f.allowed.OpenRoot(from)
	if err != nil {
		return Progress{}, false, fault.File(fault.InvalidArgument, from, err)
	}
	defer root.Close()
	if err := finishIn(root); err != nil {
		return Progress{}, false, err
	}
	if _, err := root.Lstat(ProgressFile); errors.Is(err, fs.ErrNotExist) {
		return Progress{}, false, nil
	}
	return readProgressIn(f, filepath.Join(from, ProgressFile))
}

// LoadParams is the function LoadParams.
func (f Files) LoadParams(s *Scope, path string, p *program.Program) error {
	info, err := os.Stat(path)
	if err != nil {
		return fault.File(fault.InvalidArgument, path, err)
	}
	if info.IsDir() {
		return loadDirectory(f, s, path, p)
	}
	return f.LoadFile(s, path, p)
}

// LoadCombined is the function LoadCombined.
func (f Files) LoadCombined(s *Scope, path string, p *program.Program) error {
	values, err := f.readCombined(path, p)
	if err != nil {
		return err
	}
	return s.setAll(values)
}

// placeOf is the place of one variable of a program, which takes at most so many bytes of a file.
func placeOf(f Files, declared *program.Var, bytes int64) tensor.Place {
	if f.place == nil {
		return nil
	}
	return func(dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
		if dtype != declared.DType || !ops.Compatible(dims, declared.Dims) {
			return nil, nil // which the caller refuses
		}
		return f.place(declared.Name, dtype, dims, min(bytes, declaredBytes(declared)))
	}
}

// LoadFile is LoadParams of one file.
func (f Files) LoadFile(s *Scope, path string, p *program.Program) error {
	read := f.readCombined
	if HoldsNames(path) {
		read = func(path string, p *program.Program) ([]namedTensor, error) { return readNamed(f, path, p, false) }
	}
	values, err := read(path, p)
	if err != nil {
		return err
	}
	return s.setAll(values)
}

// IsDir reports whether a path of parameters is a directory, and not one file.
func (f Files) IsDir(path string) (bool, error) {
	info, err := f.allowed.Stat(path)
	if err != nil {
		return false, fault.File(fault.InvalidArgument, path, err)
	}
	return info.IsDir(), nil
}

// inRoot opens dir as the border that no name from a program can cross, making it when create is set. Where it reads, the caller has asked for the file with CheckRead.
func (f Files) inRoot(dir string, create bool, do func(*os.Root) error) error {
	open := f.allowed.OpenFolder
	if create {
		open = f.allowed.MakeRoot
	}
	root, err := open(dir)
	if err != nil {
		return fault.File(fault.InvalidArgument, dir, err)
	}
	defer root.Close()
	return do(root)
}

// refusePickle returns an error for a file in Python's pickle whose name does not say so. It reads nothing.
func (r *tensorReader) refusePickle() error {
	if head, err := r.r.Peek(2); err != nil || !pickle.Is(head) {
		return nil // also of a file that is too short, which next refuses
	}
	return fault.E(fault.Unsupported, fault.Got("parameters in Python's pickle"), fault.Want("tensors of Fluid, or a file whose name says what it is"),
		fault.Hintf("rename it to NAME%s, as Paddle does", pickledParams))
}
