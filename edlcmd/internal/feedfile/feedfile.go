// Package feedfile reads the values that are fed to a program from files that people have: NumPy's .npy and .npz, tables in .csv, and lines of JSON.
//
// Reading order: feedfile (what a file is and whom it feeds), npy, npz, jsonlines, csv, convert.
//
// Files are not trusted: the size of a file is compared with what it declares before anything is allocated for it, and what values take is taken from a budget
// first.
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

// textGrowth bounds the bytes of a value that come of a byte of text: two, a digit and what divides numbers, make an element of eight, in memory that doubles.
const textGrowth = 8

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
// budget may be nil.
func Read(path string, declared *program.Var, keys Keys, budget *tensor.Budget) (*tensor.Tensor, error) {
	var t *tensor.Tensor
	err := open(path, func(f *os.File, size int64) (err error) {
		switch filepath.Ext(path) {
		case ".npy":
			t, err = readNPY(f, size, size, declared.DType, budget)
		case ".csv":
			if err = budget.Take(declared.Name, size*textGrowth); err == nil {
				t, err = readCSV(f, declared.DType, keys.has(declared))
			}
		case ".npz":
			t, err = readArchived(f, size, declared, budget)
		case ".jsonl":
			if err = budget.Take(declared.Name, size*textGrowth); err == nil {
				t, err = readField(f, declared, keys)
			}
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
// budget may be nil.
func ReadAll(path string, declared Declared, keys Keys, budget *tensor.Budget) (map[string]*tensor.Tensor, error) {
	var all map[string]*tensor.Tensor
	err := open(path, func(f *os.File, size int64) (err error) {
		var names []string
		if filepath.Ext(path) == ".npz" {
			all, names, err = readArchive(f, size, declared, budget)
		} else if err = budget.Take("", size*textGrowth); err == nil {
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

// shapeRecords gives an array the declared dims of its records, where it has another rank and a row of it has as many numbers as a record: a matrix of pixels becomes pictures,
// pictures without a channel get one, and so does each number of a vector become a record of one number. An array of the declared rank keeps its extents: others than declared are a mistake.
func shapeRecords(t *tensor.Tensor, declared []int64) (*tensor.Tensor, error) {
	dims := t.Dims()
	if len(dims) == 0 || len(dims) == len(declared) || len(declared) < 2 || declared[0] != program.Unknown {
		return t, nil
	}
	width, ok := tensor.Count(dims[1:])
	if n, known := tensor.Count(declared[1:]); !ok || !known || n != width {
		return t, nil
	}
	shaped, err := t.Reshape(append([]int64{dims[0]}, declared[1:]...)...)
	if err == nil {
		shaped.SetLoD(t.LoD())
	}
	return shaped, err
}
