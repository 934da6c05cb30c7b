package edlcmd

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/dataset/recordio"
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

// A fileKind is what a file holds.
type fileKind int

const (
	programFile fileKind = iota
	tensorFile
	recordFile
	jobFile
	queueFile
)

// String names what is in the file.
func (k fileKind) String() string {
	return [...]string{programFile: "a program", tensorFile: "parameters", recordFile: "records", jobFile: "a job file",
		queueFile: "a snapshot of task queues"}[k]
}

// kindOf tells the kind of a file from its name or its first bytes. A program is what is nothing else, so that its decoder says what is
// wrong.
func kindOf(path string) (fileKind, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return programFile, nil
	}
	f, size, err := openRegular(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if size == 0 {
		return 0, fault.E(fault.Corrupt, fault.At(path), fault.Got("an empty file"), fault.Want("a program, parameters, records or a job file"))
	}
	if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" {
		return jobFile, nil
	}
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return programFile, nil
	}
	switch {
	case recordio.IsRecordFile(head[:]):
		return recordFile, nil
	case binary.LittleEndian.Uint32(head[:]) == queueMagic:
		return queueFile, nil
	case binary.LittleEndian.Uint32(head[:]) == 0: // version of a tensor stream; no program begins with it
		return tensorFile, nil
	}
	return programFile, nil
}

// lossName returns the variable that a program minimizes, which is the one whose gradient the backward pass starts with, or "" when the
// program trains nothing.
func lossName(p *program.Program) string {
	for _, op := range p.Global().Ops {
		if !op.Role().Has(program.RoleBackward | program.RoleLoss) {
			continue
		}
		for _, out := range op.OutputNames() {
			if name, ok := strings.CutSuffix(out, program.GradSuffix); ok {
				return name
			}
		}
	}
	return ""
}

// trains reports whether a run of p changes parameters.
func trains(p *program.Program) bool {
	for _, op := range p.Global().Ops {
		if op.Role().Has(program.RoleOptimize) {
			return true
		}
	}
	return false
}

// reads reports whether p reads its own data.
func reads(p *program.Program) bool {
	for _, op := range p.Global().Ops {
		if op.Type == "read" {
			return true
		}
	}
	return false
}

// roleOp returns the first op that only a role of a job can run, nil when p is a whole program.
func roleOp(p *program.Program) *program.Op {
	for _, op := range p.Global().Ops {
		if d, ok := ops.Lookup(op.Type); ok && (d.Class == ops.Dist || d.Class == ops.Serve) {
			return op
		}
	}
	return nil
}
