package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/ops"
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
	return regularfile.Open(fault.InvalidArgument, path)
}

// wantedProgram is what loadProgram wants.
const wantedProgram = "a program file, or a directory with " + modelFile

// placeOf says where files that are no programs belong.
var placeOf = map[fileKind]string{
	tensorFile: "parameters are given with --params",
	recordFile: "records are given with --data NAME=GLOB",
	jobFile:    "a job file is given with -f",
}

// loadWhole is loadProgram for programs that run: one of a role of a job runs as part of that job only.
func loadWhole(path string) (p *program.Program, params string, err error) {
	if p, params, err = loadProgram(path); err != nil {
		return nil, "", err
	}
	if op := roleOp(p); op != nil {
		return nil, "", ops.At(op, fault.E(fault.Unsupported, fault.At(path), fault.Got("a program of one role of a job"),
			fault.Want("a whole program"), fault.Hint("give the program that it was transpiled from")))
	}
	return p, params, nil
}

// loadProgram reads a program file, or the one of a saved model's directory. params is where the parameters of that model
// are, or empty when path does not say.
func loadProgram(path string) (p *program.Program, params string, err error) {
	if path == "" {
		return nil, "", fault.E(fault.InvalidArgument, fault.Got("no program"), fault.Want(wantedProgram))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		model := filepath.Join(path, modelFile)
		if _, err := os.Stat(model); errors.Is(err, fs.ErrNotExist) {
			return nil, "", fault.E(fault.NotFound, fault.At(path), fault.Got("a directory without "+modelFile), fault.Want(wantedProgram))
		}
		path = model
	}
	kind, err := kindOf(path)
	if err != nil {
		return nil, "", err
	}
	if kind != programFile {
		return nil, "", fault.E(fault.InvalidArgument, fault.At(path), fault.Got(kind.String()), fault.Want(wantedProgram),
			fault.Hint(placeOf[kind]))
	}
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
