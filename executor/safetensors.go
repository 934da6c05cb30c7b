package executor

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/safetensors"
)

// RowsSuffix ends the name of the numbers of rows in a file of named tensors, which has only the rows in use of a table that grows: "w" are rows of the table, and
// "w.rows" (int64, ascending) says which. The rows between them are zeros.
const RowsSuffix = ".rows"

// readSafetensors reads the persistable tensors of p from a file of named tensors. Others in the file are left out. With partial it leaves out those that
// are missing there or have another dtype or other dims.
func (f Files) readSafetensors(path string, p *program.Program, partial bool) ([]namedTensor, error) {
	file, info, err := f.allowed.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	values, err := namedIn(f, bufio.NewReaderSize(file, 1<<20), info, p, partial)
	var found *fault.Fault
	if errors.As(err, &found) {
		return nil, found.In(path, ", ")
	}
	return values, err
}

// namedIn reads a file of so many bytes.
func namedIn(f Files, r io.Reader, size int64, p *program.Program, partial bool) (values []namedTensor, err error) {
	file, err := safetensors.Open(r, safetensors.Limits{Bytes: size})
	if err != nil {
		return nil, err
	}
	missing, grown, parts := Persistables(p), sparse.Grown(p), map[string]*tensor.Tensor{}
	file.Place = func(t safetensors.Tensor) (*tensor.Tensor, error) {
		if _, ok := slices.BinarySearch(missing, t.Name); !ok || f.place == nil || grown[t.Name] {
			return nil, nil // left out, or rows that become a table
		}
		declared, _ := p.Global().Var(t.Name)
		return placeOf(f, declared, size)(t.DType, t.Dims)
	}
	placed := map[string]bool{}
	file.Rows = func(t safetensors.Tensor) (into, numbers *tensor.Tensor, err error) {
		numbers = parts[t.Name+RowsSuffix] // which this package writes before the rows
		declared, ok := p.Global().Var(t.Name)
		if f.place == nil || !grown[t.Name] || numbers == nil || !ok || len(t.Dims) == 0 || len(declared.Dims) == 0 || !slices.Equal(numbers.Dims(), t.Dims[:1]) {
			return nil, nil, nil
		}
		dims := slices.Clone(t.Dims)
		dims[0] = declared.Dims[0]
		rows, _ := tensor.Count(t.Dims)
		if into, err = placeOf(f, declared, int64(rows)*int64(t.DType.Size()))(t.DType, dims); into != nil {
			placed[t.Name] = true
		}
		return into, numbers, err
	}
	take := func(name string, t *tensor.Tensor) error {
		at, ok := slices.BinarySearch(missing, name)
		if !ok {
			return nil
		}
		declared, _ := p.Global().Var(name)
		if t.DType() != declared.DType || !ops.Compatible(t.Dims(), declared.Dims) {
			if partial {
				return nil
			}
			return misfits(name, t, declared)
		}
		missing = slices.Delete(missing, at, at+1)
		values = append(values, namedTensor{name, t})
		return nil
	}
	for {
		name, t, err := file.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if grown[strings.TrimSuffix(name, RowsSuffix)] {
			parts[name] = t
		} else if err := take(name, t); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(grown)) {
		t, numbers := parts[name], parts[name+RowsSuffix]
		if t == nil {
			continue
		}
		if declared, ok := p.Global().Var(name); ok && numbers != nil && len(declared.Dims) > 0 && !placed[name] {
			if t, err = tensor.FromRows(numbers, t, declared.Dims[0]); err != nil {
				return nil, ofVariable(name, err)
			}
		}
		if err := take(name, t); err != nil {
			return nil, err
		}
	}
	if len(missing) > 0 && !partial {
		return nil, lacks(missing[0])
	}
	slices.SortFunc(values, func(a, b namedTensor) int { return strings.Compare(a.name, b.name) })
	return values, nil
}
