package executor

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/fault"
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

// PrepareSave makes dir, and fails where no file can be created in it: what trains for hours should not learn that when it saves.
func PrepareSave(dir string) error {
	return inRoot(dir, true, func(root *os.Root) error {
		name := ".part-" + rand.Text()
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			err = errors.Join(f.Close(), root.Remove(name))
		}
		return fault.File(fault.InvalidArgument, dir, err)
	})
}

// SavePersistables writes every persistable tensor of p into a file of its name in dir, which is made if need be: parameters, and what
// the optimizer needs to go on. Each file is a LoDTensor stream as Fluid writes it. A file appears whole or not at all.
func SavePersistables(s *Scope, dir string, p *program.Program) error {
	values, err := valuesOf(s, Persistables(p))
	if err != nil {
		return err
	}
	return inRoot(dir, true, func(root *os.Root) error {
		for _, v := range values {
			if err := writeFile(root, v.name, []*tensor.Tensor{v.value}, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// SaveCombined writes the persistable tensors of p into one file, one stream after another in the order of names, as Fluid's
// save_combine does. The file does not hold the names.
func SaveCombined(s *Scope, path string, p *program.Program) error {
	values, err := valuesOf(s, Persistables(p))
	if err != nil {
		return err
	}
	tensors := make([]*tensor.Tensor, len(values))
	for i, v := range values {
		tensors[i] = v.value
	}
	return inRoot(filepath.Dir(path), true, func(root *os.Root) error { return writeFile(root, filepath.Base(path), tensors, true) })
}

// LoadPersistables reads what SavePersistables wrote for p into s. Every persistable tensor of p must be there, with its dtype and
// dims.
func LoadPersistables(s *Scope, dir string, p *program.Program) error {
	return inRoot(dir, false, func(root *os.Root) error {
		for _, name := range Persistables(p) {
			if err := readFile(root, name, func(r *tensorReader) error { return r.load(s, p, name) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// LoadCombined reads what SaveCombined wrote for p into s.
func LoadCombined(s *Scope, path string, p *program.Program) error {
	return inRoot(filepath.Dir(path), false, func(root *os.Root) error {
		return readFile(root, filepath.Base(path), func(r *tensorReader) error {
			for _, name := range Persistables(p) {
				if err := r.load(s, p, name); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// LoadParams is LoadPersistables for a directory and LoadCombined for a file.
func LoadParams(s *Scope, path string, p *program.Program) error {
	info, err := os.Stat(path)
	if err != nil {
		return fault.File(fault.InvalidArgument, path, err)
	}
	if info.IsDir() {
		return LoadPersistables(s, path, p)
	}
	return LoadCombined(s, path, p)
}

type namedTensor struct {
	name  string
	value *tensor.Tensor
}

func valuesOf(s *Scope, names []string) ([]namedTensor, error) {
	values := make([]namedTensor, 0, len(names))
	for _, name := range names {
		t, ok := s.Find(name)
		if !ok {
			return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value to save"), fault.Want("a program that was run or loaded"))
		}
		values = append(values, namedTensor{name, t})
	}
	return values, nil
}
