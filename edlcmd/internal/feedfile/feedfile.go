// Package feedfile reads the values that are fed to a program from files that people have: NumPy's .npy and tables in .csv.
//
// Files are not trusted: the size of a file is compared with what it declares before anything is allocated for it.
package feedfile

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// MaxBytes bounds a file.
const MaxBytes = 1 << 30

// Read returns the value in a file as it is declared by the variable that it is fed to. Numbers are converted to the declared dtype where
// every value fits: whole numbers to any type that holds them exactly, and float64 to float32 by rounding. Extents are those of the
// file; a table whose rows have as many numbers as one declared record takes the dims of records.
func Read(path string, declared *program.Var) (*tensor.Tensor, error) {
	read := map[string]func(*os.File, int64) (*tensor.Tensor, error){".npy": readNPY, ".csv": readCSV}[filepath.Ext(path)]
	if read == nil {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a file of unknown form"),
			fault.Want("a name that ends in .npy or .csv"))
	}
	t, err := readFile(path, read)
	if err != nil {
		return nil, err
	}
	if t, err = convert(t, declared.DType); err != nil {
		return nil, at(path, declared.Name, err)
	}
	return shapeRecords(t, declared.Dims)
}

func readFile(path string, read func(*os.File, int64) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	f, size, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > MaxBytes {
		return nil, fault.E(fault.TooLarge, fault.At(path), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", MaxBytes))
	}
	t, err := read(f, size)
	if err != nil {
		return nil, at(path, "", err)
	}
	return t, nil
}

// at names the file, and the variable, that an error is about.
func at(path, variable string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return fault.Wrap(fault.Corrupt, path, err)
	}
	c := *f
	c.Where, c.Variable = path, variable
	return &c
}

// shapeRecords gives a matrix the declared dims of its records, where the numbers of a row are as many as those of a record.
func shapeRecords(t *tensor.Tensor, declared []int64) (*tensor.Tensor, error) {
	if len(t.Dims()) != 2 || len(declared) < 2 || declared[0] != program.Unknown {
		return t, nil
	}
	if n, ok := tensor.Count(declared[1:]); !ok || int64(n) != t.Dims()[1] {
		return t, nil
	}
	return t.Reshape(append([]int64{t.Dims()[0]}, declared[1:]...)...)
}
