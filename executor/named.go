package executor

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/npz"
	"github.com/edl-go/edl/tensor/pickle"
	"github.com/edl-go/edl/tensor/safetensors"
)

// Files that Paddle pickles: of parameters, and of what an optimizer keeps.
const (
	pickledParams = ".pdparams"
	pickledState  = ".pdopt"
)

// HoldsNames reports whether a file of parameters has the names of its tensors, by the end of its name. The combined files of Fluid hold none.
func HoldsNames(path string) bool {
	switch filepath.Ext(path) {
	case safetensors.Extension, npz.Extension, pickledParams, pickledState:
		return true
	}
	return false
}

// readNamed reads the persistable tensors of p from a file that holds names. Others in the file are left out. With partial it leaves out those that are missing there or have another dtype or
// other dims.
func readNamed(f Files, path string, p *program.Program, partial bool) ([]namedTensor, error) {
	if filepath.Ext(path) == safetensors.Extension {
		return f.readSafetensors(path, p, partial)
	}
	names := Persistables(p)
	wanted := func(name string) bool {
		_, ok := slices.BinarySearch(names, strings.TrimSuffix(name, RowsSuffix))
		return ok
	}
	all, err := readArrays(f, path, wanted)
	if err != nil {
		return nil, err
	}
	if beside, ok := strings.CutSuffix(path, pickledParams); ok && !holdsAll(all, p) { // fluid.save writes two files
		state, err := readArrays(f, beside+pickledState, wanted)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fault.NotFound) {
			return nil, err
		}
		for name, t := range state {
			if all[name] == nil {
				all[name] = t
			}
		}
	}
	values, err := fit(f, all, p, partial)
	var found *fault.Fault
	if errors.As(err, &found) {
		return nil, found.In(path, ", ")
	}
	return values, err
}

func holdsAll(all map[string]*tensor.Tensor, p *program.Program) bool {
	return !slices.ContainsFunc(Persistables(p), func(name string) bool { return all[name] == nil })
}

// ReadNamed reads all tensors of a file that HoldsNames. The numbers of rows of a table that grows are one of them, with RowsSuffix behind its name.
func ReadNamed(path string) (map[string]*tensor.Tensor, error) {
	return readArrays(Files{}, path, func(string) bool { return true })
}

// readArrays reads a pickled file, or the tensors of another one that are wanted.
func readArrays(f Files, path string, wanted func(name string) bool) (all map[string]*tensor.Tensor, err error) {
	file, size, err := f.allowed.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	switch filepath.Ext(path) {
	case npz.Extension:
		all, err = npz.Read(file, size, npz.Limits{Bytes: size<<4 + 1<<20}, wanted)
	case safetensors.Extension:
		all, err = readTensors(file, size, wanted)
	default:
		all, err = pickle.Read(file, size, pickle.Limits{})
	}
	var found *fault.Fault
	if errors.As(err, &found) {
		return nil, found.In(path, ", ")
	}
	return all, err
}

func readTensors(r io.Reader, size int64, wanted func(name string) bool) (map[string]*tensor.Tensor, error) {
	file, err := safetensors.Open(bufio.NewReaderSize(r, 1<<20), safetensors.Limits{Bytes: size})
	if err != nil {
		return nil, err
	}
	all := map[string]*tensor.Tensor{}
	for {
		name, t, err := file.Next()
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case wanted(name):
			all[name] = t
		}
	}
}

// fit returns the persistable tensors of p, in the order of their names. One element is one whether its dims are [] or [1].
func fit(f Files, all map[string]*tensor.Tensor, p *program.Program, partial bool) (values []namedTensor, err error) {
	for _, name := range slices.Sorted(maps.Keys(sparse.Grown(p))) {
		declared, ok := p.Global().Var(name)
		if numbers := all[name+RowsSuffix]; ok && numbers != nil && all[name] != nil && len(declared.Dims) > 0 {
			if all[name], err = tensor.FromRows(numbers, all[name], declared.Dims[0]); err != nil {
				return nil, ofVariable(name, err)
			}
		}
	}
	for _, name := range Persistables(p) {
		declared, _ := p.Global().Var(name)
		t := all[name]
		if t != nil && t.Len() == 1 && !ops.Compatible(t.Dims(), declared.Dims) {
			if one, err := t.Reshape(declared.Dims...); err == nil {
				t = one
			}
		}
		switch {
		case t == nil && partial:
			continue
		case t == nil:
			return nil, lacks(name)
		case t.DType() != declared.DType || !ops.Compatible(t.Dims(), declared.Dims):
			if partial {
				continue
			}
			return nil, misfits(name, t, declared)
		}
		if place := placeOf(f, declared, t.Bytes()); place != nil {
			at, err := place(t.DType(), t.Dims())
			if err != nil {
				return nil, err
			}
			if at != nil {
				if err := at.CopyFrom(t); err != nil {
					return nil, ofVariable(name, err)
				}
				t = at
			}
		}
		values = append(values, namedTensor{name, t})
	}
	return values, nil
}

// lacks is the error of a file without a tensor for a variable.
func lacks(name string) error {
	return fault.E(fault.NotFound, fault.Var(name), fault.Got("no tensor of this name for a variable of the program"), fault.Want("the file of this program"), fault.Hint(loadPart))
}

// misfits is the error of a tensor of another type or of other dims than its variable.
func misfits(name string, t *tensor.Tensor, declared *program.Var) error {
	return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(t.String()+" in the file"), fault.Want(ops.MetaOf(declared).String()), fault.Hint(loadPart))
}
