// Package feedfile reads the values that are fed to a program from files that people have: NumPy's .npy and .npz, tables in .csv, and lines of JSON.
//
// Reading order: feedfile (what a file is and whom it feeds), npy, npz, jsonlines, csv, convert.
//
// Files are not trusted: the size of a file is compared with what it declares before anything is allocated for it.
package feedfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// MaxBytes bounds a file, and what the arrays of a .npz file hold when they are unpacked.
const MaxBytes = 1 << 30

// Declared returns the variable of a name, and whether the program has it.
type Declared func(name string) (*program.Var, bool)

// Keys reports whether a variable of int64 has keys of tables that grow. Then texts of .csv and .jsonl files become keys (convert.Key). nil: no variable has.
type Keys func(name string) bool

func (k Keys) has(v *program.Var) bool { return k != nil && v.DType == tensor.Int64 && k(v.Name) }

// Many reports whether a file has values with names, so that it can feed several variables.
func Many(path string) bool {
	extension := filepath.Ext(path)
	return extension == ".npz" || extension == ".jsonl"
}

// Read returns the value in a file as it is declared by the variable that it is fed to: the array or field of its name where a file has several. Numbers are
// converted to the declared dtype where every value fits: whole numbers to any type that holds them exactly, and float64 and text to float32 by rounding.
// Extents are those of the file; an array whose rows have as many numbers as one declared record takes the dims of records.
func Read(path string, declared *program.Var, keys Keys) (*tensor.Tensor, error) {
	var t *tensor.Tensor
	err := open(path, func(f *os.File, size int64) (err error) {
		switch filepath.Ext(path) {
		case ".npy":
			t, err = readNPY(f, size, size, declared.DType)
		case ".csv":
			t, err = readCSV(f, declared.DType, keys.has(declared))
		case ".npz":
			t, err = readArchived(f, size, declared)
		case ".jsonl":
			t, err = readField(f, declared, keys)
		default:
			err = fault.E(fault.InvalidArgument, fault.Got("a file of unknown form"), fault.Want("a name that ends in .npy, .npz, .csv or .jsonl"))
		}
		if err == nil {
			t, err = shapeRecords(t, declared.Dims)
		}
		return named(err, declared.Name)
	})
	return t, err
}

// ReadAll returns the values of a file with names that are names of declared variables, and leaves out the others. If no name is one, it returns an error.
func ReadAll(path string, declared Declared, keys Keys) (map[string]*tensor.Tensor, error) {
	var all map[string]*tensor.Tensor
	err := open(path, func(f *os.File, size int64) (err error) {
		var names []string
		if filepath.Ext(path) == ".npz" {
			all, names, err = readArchive(f, size, declared)
		} else {
			all, names, err = readLines(f, declared, keys)
		}
		if err == nil && len(all) == 0 {
			err = fault.E(fault.NotFound, fault.Gotf("values for %s", listed(names)), fault.Want("at least one name that the program declares"))
		}
		return err
	})
	return all, err
}

// open opens a file for read, and names it in errors.
func open(path string, read func(f *os.File, size int64) error) error {
	f, size, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > MaxBytes {
		return fault.E(fault.TooLarge, fault.At(path), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", MaxBytes))
	}
	if err := read(f, size); err != nil {
		var known *fault.Fault
		if !errors.As(err, &known) {
			return fault.Wrap(fault.Corrupt, path, err)
		}
		c := *known
		c.Where = path
		return &c
	}
	return nil
}

// named names the variable that an error is about, unless it names one.
func named(err error, variable string) error {
	if err == nil {
		return nil
	}
	var known *fault.Fault
	if !errors.As(err, &known) {
		return fault.E(fault.Corrupt, fault.Var(variable), fault.Cause(err))
	}
	c := *known
	if c.Variable == "" {
		c.Variable = variable
	}
	return &c
}

// listed is names for a message.
func listed(names []string) string {
	const most = 8
	switch {
	case len(names) == 0:
		return "nothing"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// shapeRecords gives an array the declared dims of its records, where it is a matrix whose rows have as many numbers as a record, or a vector and a
// record is one number.
func shapeRecords(t *tensor.Tensor, declared []int64) (*tensor.Tensor, error) {
	rank := len(t.Dims())
	if rank != 1 && rank != 2 || len(declared) < 2 || declared[0] != program.Unknown {
		return t, nil
	}
	width := int64(1)
	if rank == 2 {
		width = t.Dims()[1]
	}
	if n, ok := tensor.Count(declared[1:]); !ok || int64(n) != width {
		return t, nil
	}
	shaped, err := t.Reshape(append([]int64{t.Dims()[0]}, declared[1:]...)...)
	if err == nil {
		shaped.SetLoD(t.LoD())
	}
	return shaped, err
}
