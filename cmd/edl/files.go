package main

import (
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regular"
	"github.com/edl-go/edl/program"
)

// modelFile is the name that Fluid gives to a program in the directory of its parameters, and combinedFile the usual name of all
// parameters in one file.
const (
	modelFile    = "__model__"
	combinedFile = "__params__"
)

// fileFault gives an error of the file system its kind, and names the file once.
func fileFault(path string, err error) error { return fault.File(fault.InvalidArgument, path, err) }

// openRegular opens a file that has bytes of its own, and returns its size.
func openRegular(path string) (*os.File, int64, error) {
	return regular.Open(fault.InvalidArgument, path)
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
