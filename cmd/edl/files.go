package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// modelFile is the name that Fluid gives to a program in the directory of its parameters, and combinedFile the usual name of all
// parameters in one file.
const (
	modelFile    = "__model__"
	combinedFile = "__params__"
)

// fileFault gives an error of the file system its kind, and names the file once.
func fileFault(path string, err error) error {
	if err == nil {
		return nil
	}
	kind := fault.InvalidArgument
	if errors.Is(err, fs.ErrNotExist) {
		kind = fault.NotFound
	}
	var detailed *fs.PathError
	if errors.As(err, &detailed) {
		err = detailed.Err
	}
	return fault.Wrap(kind, path, err)
}

// openRegular opens a file that has bytes of its own: not a directory, and not a pipe or device, which may block or never end.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fileFault(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &fault.Fault{Kind: fault.InvalidArgument, Where: path, Got: info.Mode().Type().String(), Want: "a regular file"}
	}
	f, err := os.Open(path)
	return f, info.Size(), fileFault(path, err)
}

// loadProgram reads a program file, or the one of a saved model's directory. params is where the parameters of that model
// are, or empty when path does not say.
func loadProgram(path string) (p *program.Program, params string, err error) {
	if path == "" {
		return nil, "", &fault.Fault{Kind: fault.InvalidArgument, Got: "no program", Want: "a program file, or a directory with " + modelFile}
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, modelFile)
	}
	f, _, err := openRegular(path)
	if err != nil {
		return nil, "", err
	}
	f.Close()
	p, err = program.Load(path, program.DefaultLimits())
	if err != nil {
		return nil, "", err
	}
	if filepath.Base(path) == modelFile {
		params = filepath.Dir(path)
		combined := filepath.Join(params, combinedFile)
		if info, err := os.Stat(combined); err == nil && info.Mode().IsRegular() {
			params = combined
		}
	}
	return p, params, nil
}
