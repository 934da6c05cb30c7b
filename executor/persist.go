package executor

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Persistables returns the names of the persistable tensors that p declares in its global block, sorted. Feeds, fetches and readers
// are declared persistable too, but hold nothing to save.
func Persistables(p *program.Program) []string {
	var names []string
	for _, v := range p.Global().Vars() {
		if v.Persistable && v.Kind == program.LoDTensor {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckNames refuses a program with a variable that cannot be saved, because its name is no name of a file below a directory.
func CheckNames(p *program.Program) error {
	for _, name := range Persistables(p) {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// SavePersistables writes every persistable tensor of p into a file of its name in dir, which is made if need be: parameters, and what
// the optimizer needs to go on. Each file is a LoDTensor stream as Fluid writes it; those of a table that grows are in short form. All files appear or none, as StateWriter says. The Progress of an
// earlier Save to dir is removed.
func SavePersistables(s *Scope, dir string, p *program.Program) error {
	return SaveState(s, dir, p, nil)
}

// SaveCombined writes the persistable tensors of p into one file, one stream after another in the order of names, as Fluid's
// save_combine does, but for those of a table that grows, which are in short form. The file does not hold the names.
func SaveCombined(s *Scope, path string, p *program.Program) error {
	values, err := valuesOf(s, Persistables(p))
	if err != nil {
		return err
	}
	grown := sparse.Grown(p)
	return Files{}.inRoot(filepath.Dir(path), true, func(root *os.Root) error {
		return writeWhole(root, filepath.Base(path), true, func(to io.Writer) error {
			for _, v := range values {
				if err := fileOf(v.value, grown[v.name])(to); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// LoadPersistables reads what SavePersistables wrote for p into s. Every persistable tensor of p must be there, with its dtype and
// dims. When it fails, s is as it was.
func LoadPersistables(s *Scope, dir string, p *program.Program) error {
	return loadDirectory(Files{}, s, dir, p)
}

func loadDirectory(f Files, s *Scope, dir string, p *program.Program) error {
	var values []namedTensor
	err := readUnchanged(dir, p, func() (err error) {
		values, err = f.readDirectory(dir, p, false)
		return err
	})
	if err != nil {
		return err
	}
	return s.setAll(values)
}

// readUnchanged calls read, which reads the state of p in a directory, again if a Save has replaced the state meanwhile.
func readUnchanged(dir string, p *program.Program, read func() error) error {
	names := append(Persistables(p), ProgressFile)
	files := func() (found []fs.FileInfo, err error) {
		if err := CheckComplete(dir); err != nil {
			return nil, err
		}
		for _, name := range names {
			info, _ := os.Stat(filepath.Join(dir, name))
			found = append(found, info)
		}
		return found, nil
	}
	same := func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	}
	for range 10 {
		before, err := files()
		if err != nil {
			return err
		}
		failed := read()
		after, err := files()
		if err != nil {
			return err
		}
		if slices.EqualFunc(before, after, same) {
			return failed
		}
	}
	return fault.E(fault.Unavailable, fault.At(dir), fault.Got("a directory whose state is replaced again and again"), fault.Want("a state that stays while it is read"))
}

// LoadCombined reads what SaveCombined wrote for p into s. When it fails, s is as it was.
func LoadCombined(s *Scope, path string, p *program.Program) error {
	return Files{}.LoadCombined(s, path, p)
}

// readDirectory reads the persistable tensors of p from their files in dir. With partial it leaves out those that are missing there or have another
// dtype or other dims.
func (f Files) readDirectory(dir string, p *program.Program, partial bool) (values []namedTensor, err error) {
	err = f.inRoot(dir, false, func(root *os.Root) error {
		for _, name := range Persistables(p) {
			var value *tensor.Tensor
			err := readFile(root, name, func(r *tensorReader) (err error) {
				value, err = r.variable(f, p, name)
				return err
			})
			switch {
			case err == nil:
				values = append(values, namedTensor{name, value})
			case !partial || !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.ShapeMismatch):
				return ofOtherProgram(dir, name, err)
			}
		}
		return nil
	})
	return values, err
}

// ofOtherProgram says what to do when a directory does not have a variable of the program, or has it with another type.
func ofOtherProgram(dir, name string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	switch c := *f; f.Kind {
	case fault.NotFound:
		return fault.E(fault.NotFound, fault.At(dir), fault.Var(name), fault.Got("no file of this name for a variable of the program"),
			fault.Want("the directory of this program"), fault.Hint(loadPart))
	case fault.ShapeMismatch:
		c.Hint = loadPart
		return &c
	}
	return err
}

const loadPart = "to load the variables that fit and initialise the others: --partial, in Go LoadOptions.Partial"

// readCombined reads the persistable tensors of p from one file.
func (f Files) readCombined(path string, p *program.Program) (values []namedTensor, err error) {
	if err := f.allowed.CheckRead(path); err != nil {
		return nil, err
	}
	err = f.inRoot(filepath.Dir(path), false, func(root *os.Root) error {
		return readFile(root, filepath.Base(path), func(r *tensorReader) error {
			if err := r.refusePickle(); err != nil {
				return err
			}
			for _, name := range Persistables(p) {
				value, err := r.variable(f, p, name)
				if err != nil {
					return err
				}
				values = append(values, namedTensor{name, value})
			}
			return nil
		})
	})
	return values, err
}

// LoadParams is LoadPersistables for a directory, and LoadCombined for a file. A file that HoldsNames has the tensors in any
// order: .safetensors, .npz, and what Paddle pickles, .pdparams with the .pdopt beside it.
func LoadParams(s *Scope, path string, p *program.Program) error {
	return Files{}.LoadParams(s, path, p)
}

type namedTensor struct {
	name  string
	value *tensor.Tensor
}

func valuesOf(s *Scope, names []string) ([]namedTensor, error) {
	values := make([]namedTensor, 0, len(names))
	for _, name := range names {
		if err := checkName(name); err != nil {
			return nil, fault.E(fault.InvalidProgram, fault.Var(name), fault.Cause(err))
		}
		t, ok := s.Find(name)
		if !ok {
			return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value to save"), fault.Want("a program that was run or loaded"))
		}
		values = append(values, namedTensor{name, t})
	}
	return values, nil
}

// writeFile writes the streams of tensors to a file, as writeWhole does.
func writeFile(root *os.Root, name string, tensors []*tensor.Tensor, overwrite bool) error {
	return writeWhole(root, name, overwrite, streams(tensors))
}

// streams writes tensors one after another.
func streams(tensors []*tensor.Tensor) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, t := range tensors {
			if _, err := t.WriteTo(w); err != nil {
				return err
			}
		}
		return nil
	}
}

// fileOf writes a tensor, in short form or as a stream.
func fileOf(t *tensor.Tensor, short bool) func(io.Writer) error {
	if short {
		return func(to io.Writer) error { return tensor.WriteShort(to, t) }
	}
	return streams([]*tensor.Tensor{t})
}

func existing(where string) error {
	return fault.E(fault.InvalidArgument, fault.At(where), fault.Got("a file that exists"), fault.Want("a new name, or overwrite"))
}

// writeWhole writes a file that appears under its name when it is whole. Directories in name are made. Without overwrite a file that exists is an
// error.
func writeWhole(root *os.Root, name string, overwrite bool, write func(io.Writer) error) error {
	where := filepath.Join(root.Name(), name)
	if _, err := root.Lstat(name); err == nil && !overwrite {
		return existing(where)
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, policy.FolderMode); err != nil {
			return fault.File(fault.InvalidArgument, where, err)
		}
	}
	part := name + partMark + rand.Text()
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
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, policy.FileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_ = filelock.Try(f) // so that no Save takes it for one of a writer that is gone
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
	if err := regularfile.Check(where, info); err != nil {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return fault.File(fault.InvalidArgument, where, err)
	}
	defer f.Close()
	r := &tensorReader{r: bufio.NewReaderSize(f, 1<<20), size: info.Size()}
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

// variable reads the next stream as variable name of p.
func (r *tensorReader) variable(f Files, p *program.Program, name string) (*tensor.Tensor, error) {
	declared, _ := p.Global().Var(name)
	t, err := r.next(declaredBytes(declared), placeOf(f, declared, r.size))
	if err != nil {
		return nil, ofVariable(name, err)
	}
	if t.DType() != declared.DType || !ops.Compatible(t.Dims(), declared.Dims) {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(t.String()+" in the file"), fault.Want(ops.MetaOf(declared).String()))
	}
	return t, nil
}

// ofVariable adds the variable to a fault.
func ofVariable(name string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return fault.E(fault.Internal, fault.Var(name), fault.Cause(err))
	}
	c := *f
	c.Variable = name
	return &c
}

// A tensorReader reads the streams of one file in order.
type tensorReader struct {
	r     *bufio.Reader
	size  int64 // of the file
	count int
}

// next reads a tensor to a place. One in short form may have so many bytes, and any other as many as the file.
func (r *tensorReader) next(short int64, place tensor.Place) (*tensor.Tensor, error) {
	if _, err := r.r.Peek(1); err == io.EOF {
		return nil, fault.E(fault.Corrupt, fault.Gotf("a file of %d tensors", r.count), fault.Want("more"))
	}
	r.count++
	return tensor.ReadInto(r.r, tensor.Limits{Bytes: r.size, OfFile: true, Short: short}, place)
}

// end fails when bytes remain: then the file belongs to another program.
func (r *tensorReader) end() error {
	if _, err := r.r.Peek(1); err != io.EOF {
		return fault.E(fault.Corrupt, fault.Gotf("bytes behind %d tensors", r.count), fault.Want("the end of the file"),
			fault.Hint("the file belongs to a program with other variables"))
	}
	return nil
}

// DirStorage gives save and load ops the files below one directory. Names that lead out of it, through "..", an absolute path or a
// symbolic link, are refused.
type DirStorage struct {
	root *os.Root
}

var _ ops.Storage = (*DirStorage)(nil)

// NewStorage opens dir, making it if need be. The caller ends it with Close.
func NewStorage(dir string) (*DirStorage, error) {
	root, err := (*policy.Policy)(nil).MakeRoot(dir)
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

// SaveShort implements ops.Storage. The file appears whole or not at all.
func (s *DirStorage) SaveShort(name string, t *tensor.Tensor, overwrite bool) error {
	return writeWhole(s.root, name, overwrite, fileOf(t, true))
}

// Load implements ops.Storage.
func (s *DirStorage) Load(name string, into []*tensor.Tensor) error {
	return readFile(s.root, name, func(r *tensorReader) error {
		for i, t := range into {
			got, err := r.next(t.Bytes(), nil)
			if err != nil {
				return err
			}
			if got.DType() != t.DType() || !slices.Equal(got.Dims(), t.Dims()) {
				return fault.E(fault.ShapeMismatch, fault.Gotf("%s as tensor %d", got, i), fault.Want(t.String()))
			}
			if err := t.CopyFrom(got); err != nil {
				return err
			}
			t.SetLoD(got.LoD())
		}
		return nil
	})
}
