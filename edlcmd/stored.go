package edlcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/tensor"
)

// A stored is what a path has of a model: a program, values by name, or both. A directory, a checkpoint, a program, a file of parameters and an ONNX model are all of this kind.
type stored struct {
	path       string
	program    *program.Program       // nil: none
	checkpoint *checkpoint.Checkpoint // nil: none
	names      []string               // of values, in order
	value      func(ctx context.Context, name string) (*tensor.Tensor, error)
}

// openStored finds out what a path has. Values are read when they are asked for, but for those of a file that holds all.
func openStored(ctx context.Context, path string) (s *stored, err error) {
	s = &stored{path: path}
	if checkpoint.IsAddress(path) {
		if s.checkpoint, err = checkpoint.Find(ctx, path); err != nil {
			return nil, err
		}
		s.names, s.value = s.checkpoint.Variables(), s.checkpoint.Value
		return s, nil
	}
	if model := onnxOf(path); model != "" {
		m, err := readONNX(model)
		if err != nil {
			return nil, err
		}
		s.program, s.names = m.Program, slices.Sorted(maps.Keys(m.Values))
		s.value = func(_ context.Context, name string) (*tensor.Tensor, error) { return m.Values[name], nil }
		return s, nil
	}
	kind, err := kindOf(path)
	if err != nil {
		return nil, err
	}
	params := path
	switch kind {
	case programFile:
		if s.program, params, err = loadProgram(path); err != nil {
			return nil, err
		}
	case namedFile:
		values, err := executor.ReadNamed(path)
		if err != nil {
			return nil, err
		}
		s.names = slices.Sorted(maps.Keys(values))
		s.value = func(_ context.Context, name string) (*tensor.Tensor, error) { return values[name], nil }
		return s, nil
	case tensorFile, directory:
	default:
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Got(kind.String()), fault.Want("a model, a program, parameters, or a checkpoint STORE[@STEPS]"))
	}
	if params == "" {
		return s, nil
	}
	info, err := os.Stat(params)
	if err != nil {
		return nil, fileFault(params, err)
	}
	if s.program != nil && !info.IsDir() {
		return s, s.ofOneFile(params)
	}
	return s, s.ofFiles(params)
}

// ofOneFile loads the parameters of the program, which are in one file in the order of their names.
func (s *stored) ofOneFile(path string) error {
	scope, err := export.LoadParams(path, s.program, s.program)
	if err != nil {
		return err
	}
	s.names = executor.Persistables(s.program)
	values := valuesOfScope(scope)
	s.value = func(_ context.Context, name string) (*tensor.Tensor, error) { return values(name) }
	return nil
}

// ofFiles lists the tensors of a file, or of each file of a directory, which has the name of its variable.
func (s *stored) ofFiles(from string) error {
	places := map[string]string{}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fileFault(path, err)
		}
		if entry.IsDir() || executor.IsTemporary(path) {
			return nil
		}
		if kind, err := kindOf(path); err != nil || kind != tensorFile {
			return nil // a program, progress and the like
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			name = filepath.Base(path)
		}
		places[filepath.ToSlash(name)] = path
		s.names = append(s.names, filepath.ToSlash(name))
		return nil
	})
	slices.Sort(s.names)
	s.value = func(_ context.Context, name string) (*tensor.Tensor, error) { return readTensor(places[name]) }
	return err
}

// readTensor reads a file that has one tensor.
func readTensor(path string) (*tensor.Tensor, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	t, err := tensor.Read(r, tensor.Limits{Bytes: size, Short: mostShown})
	if err != nil {
		return nil, inFile(path, asCorrupt(err))
	}
	if _, err := r.Peek(1); !errors.Is(err, io.EOF) {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a file of several tensors without names"), fault.Want("the model whose program names them"))
	}
	return t, nil
}

// find returns the value of a name, or says which name was probably meant.
func (s *stored) find(ctx context.Context, name string) (*tensor.Tensor, error) {
	if slices.Contains(s.names, name) {
		return s.value(ctx, name)
	}
	want := "one of " + strings.Join(s.names, ", ")
	switch {
	case len(s.names) == 0:
		want = "a model with parameters, or a directory of --save"
	case len(s.names) > maxShown:
		want = fmt.Sprintf("one of %d variables", len(s.names))
	}
	return nil, fault.E(fault.NotFound, fault.At(s.path), fault.Got("no value of "+fault.Quote(name)), fault.Want(want), fault.DidYouMean(name, s.names))
}

// close ends what openStored has begun.
func (s *stored) close() {
	if s.checkpoint != nil {
		s.checkpoint.Close()
	}
}
