package edlcmd

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/executor/export/onnx"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// modelFile is the name that Fluid gives to a program in the directory of its parameters, and combinedFile the usual name of all
// parameters in one file.
const (
	modelFile    = export.ModelFile
	combinedFile = export.CombinedFile
)

// fileFault gives an error of the file system its kind, and names the file once. A full disk may have room later, whatever is written to it.
func fileFault(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fault.File(fault.Unavailable, path, err)
	}
	return fault.File(fault.InvalidArgument, path, err)
}

// openRegular opens a file that has bytes of its own, and returns its size.
func openRegular(path string) (*os.File, int64, error) {
	return regularfile.Open(fault.InvalidArgument, path)
}

// wantedProgram is what loadProgram wants.
const wantedProgram = "a program file, or a directory with " + modelFile + ", model or *" + export.PairedExt

// placeOf says where files that are no programs belong.
var placeOf = map[fileKind]string{
	tensorFile: "parameters are given with --params",
	namedFile:  "parameters are given with --params",
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
	path = withExtension(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := executor.CheckComplete(path); err != nil {
			return nil, "", err
		}
		model, err := modelIn(path)
		if err != nil {
			return nil, "", err
		}
		if model == "" {
			return nil, "", fault.E(fault.NotFound, fault.At(path), fault.Got("a directory without "+modelFile), fault.Want(wantedProgram))
		}
		path = model
	}
	kind, err := kindOf(path)
	if err != nil {
		return nil, "", err
	}
	if kind == onnxFile {
		return nil, "", export.RefuseONNX(path)
	}
	if kind != programFile {
		return nil, "", fault.E(fault.InvalidArgument, fault.At(path), fault.Got(kind.String()), fault.Want(wantedProgram),
			fault.Hint(placeOf[kind]))
	}
	p, err = program.Load(path, program.DefaultLimits())
	if err != nil {
		return nil, "", err
	}
	return p, export.ParamsOf(path), nil
}

// withExtension returns the path of the program NAME.pdmodel for the path NAME that Paddle's functions give the files of a model, and other paths as they are.
func withExtension(path string) string {
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if info, err := os.Stat(path + export.PairedExt); err == nil && info.Mode().IsRegular() {
		return path + export.PairedExt
	}
	return path
}

// A fileKind is what a file holds.
type fileKind int

const (
	programFile fileKind = iota
	tensorFile
	namedFile // tensors with their names
	recordFile
	jobFile
	queueFile
	progressFile
	onnxFile
	directory   // without a program
	unknownFile // none of these
)

// String names what is in the file.
func (k fileKind) String() string {
	return [...]string{programFile: "a program", tensorFile: "parameters", namedFile: "parameters with names", recordFile: "records", jobFile: "a job file",
		queueFile: "a snapshot of task queues", progressFile: "the progress of training", onnxFile: "an ONNX model", directory: "a directory without " + modelFile,
		unknownFile: "a file of a kind that edl does not know"}[k]
}

// wantedKinds is what edl shows.
const wantedKinds = "a program, an ONNX model (.onnx), parameters, records, a snapshot of task queues, or a job file (.yaml or .yml)"

// kindOf tells the kind of a file from its name or its first bytes.
func kindOf(path string) (fileKind, error) {
	path = withExtension(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := executor.CheckComplete(path); err != nil {
			return 0, err
		}
		if model, err := modelIn(path); err == nil && model != "" {
			return programFile, nil
		}
		return directory, nil
	}
	f, size, err := openRegular(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if size == 0 {
		return 0, fault.E(fault.Corrupt, fault.At(path), fault.Got("an empty file"), fault.Want(wantedKinds))
	}
	if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" {
		return jobFile, nil
	}
	if filepath.Base(path) == executor.ProgressFile {
		return progressFile, nil
	}
	switch ext := filepath.Ext(path); {
	case ext == export.TextExt:
		return programFile, nil
	case ext == onnx.Extension:
		return onnxFile, nil
	case executor.HoldsNames(path):
		return namedFile, nil
	}
	head := make([]byte, min(size, 512))
	if _, err := io.ReadFull(f, head); err != nil {
		return 0, fileFault(path, err)
	}
	return kindOfBytes(head), nil
}

// kindOfBytes tells the kind of a file from its first bytes. What may be a program is called one, so that its decoder says what is wrong.
func kindOfBytes(head []byte) fileKind {
	if len(head) >= 4 {
		switch magic := binary.LittleEndian.Uint32(head); {
		case recordio.IsRecordFile(head):
			return recordFile
		case magic == queueMagic:
			return queueFile
		case magic == 0, tensor.IsShort(head): // version of a tensor stream; no program begins with it
			return tensorFile
		}
	}
	isText := !slices.ContainsFunc(head, func(b byte) bool { return b < ' ' && b != '\n' && b != '\r' && b != '\t' })
	switch {
	case program.IsText(head):
		return programFile
	case isText: // every block of a program begins with byte 8
		return unknownFile
	case slices.Contains(firstBytes, head[0]):
		return programFile
	}
	return unknownFile
}

// firstBytes are the bytes that a program can begin with: the tag of one of its fields 1 to 5, or the first byte of Python's pickle, which is how the
// oldest Fluid wrote programs. The decoder of programs refuses these with advice.
var firstBytes = []byte{0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x80}

// lossName returns the variable that a program minimizes: the one whose gradient the backward pass starts with. A clone for test has no backward
// pass; its loss is the only output of the op with the mark of the loss. The result is "" when the program shows neither. Of a loss that mixed precision
// scales it is the one without the scale.
func lossName(p *program.Program) string { return unscaled(p, minimized(p)) }

// unscaled returns the variable that p multiplies by the scale of a loss to get name, and name itself if it is no such product.
func unscaled(p *program.Program, name string) string {
	scales := map[string]bool{}
	for _, op := range p.Global().Ops {
		switch op.Type {
		case "check_finite_and_unscale":
			scales[op.In("Scale")] = true
		case "update_loss_scaling":
			scales[op.In("PrevLossScaling")] = true
		case "elementwise_div": // of each gradient, before Paddle 1.8
			if strings.Contains(op.In("X"), program.GradSuffix) && !op.Role().Has(program.RoleBackward) {
				scales[op.In("Y")] = true
			}
		}
	}
	for _, op := range p.Global().Ops {
		if op.Type != "elementwise_mul" || op.Out("Out") != name || name == "" {
			continue
		}
		for _, slots := range [][2]string{{"Y", "X"}, {"X", "Y"}} {
			if scales[op.In(slots[0])] {
				return op.In(slots[1])
			}
		}
	}
	return name
}

// minimized is lossName with the scale.
func minimized(p *program.Program) string {
	marked := ""
	for _, op := range p.Global().Ops {
		role, outputs := op.Role(), op.OutputNames()
		switch {
		case role.Has(program.RoleBackward | program.RoleLoss):
			for _, out := range outputs {
				if name, ok := strings.CutSuffix(out, program.GradSuffix); ok {
					return name
				}
			}
		case role.Has(program.RoleLoss) && role.Has(program.RoleForward) && len(outputs) == 1:
			marked = outputs[0]
		}
	}
	return marked
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

// folderHere refuses a URL where a command writes to a folder: it would become a folder of the name s3: here.
func folderHere(flag, dir string) error {
	if !bucket.IsURL(dir) {
		return nil
	}
	return fault.E(fault.Unsupported, fault.At(flag), fault.Got("the URL "+dir), fault.Want("a folder of this machine"), fault.Hint("write to a folder, and copy its files to the bucket"))
}
