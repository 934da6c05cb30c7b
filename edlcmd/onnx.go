package edlcmd

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/executor/export/onnx"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/tensor"
)

// mostONNX is how long the file of an ONNX model may be: as long as a message of protobuf.
const mostONNX = math.MaxInt32

// onnxOf returns the file of the ONNX model at a path: the path itself, or the file in a directory that has no program. Empty: there is none.
func onnxOf(path string) string {
	if filepath.Ext(path) == onnx.Extension {
		return path
	}
	file := filepath.Join(path, export.ONNXFile)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if model, _ := modelIn(path); model != "" {
		return ""
	}
	return file
}

// readONNX reads an ONNX model: its inference program, and its parameters.
func readONNX(path string) (*onnx.Model, error) {
	f, size, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > mostONNX {
		return nil, fault.E(fault.TooLarge, fault.At(path), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", mostONNX))
	}
	file := make([]byte, size)
	if _, err := io.ReadFull(f, file); err != nil {
		return nil, fault.File(fault.InvalidArgument, path, err)
	}
	m, err := onnx.Read(file)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.At(path), fault.Cause(err))
	}
	return m, nil
}

// exportONNX exports the ONNX model in a file, which another system has trained. from is what the user has named. The schema beside the file is that of the
// model if it makes the inputs of the model.
func exportONNX(ctx context.Context, c *console, f *exportFlags, format export.Format, from, file string) error {
	if f.program != "" {
		return fault.E(fault.InvalidArgument, fault.At("--program"), fault.Got("an ONNX model, which has its own program"), fault.Want("no --program"))
	}
	if sameFile(from, f.dir) {
		return fault.E(fault.InvalidArgument, fault.At("-o "+f.dir), fault.Got("the directory that is exported"), fault.Want("another one"))
	}
	m, err := readONNX(file)
	if err != nil {
		return err
	}
	inference := m.Program
	if len(f.feed) > 0 || len(f.fetch) > 0 {
		if inference, err = export.Program(m.Program, f.feed, f.fetch); err != nil {
			return err
		}
	}
	if !f.fold {
		if err := export.CheckModel(ctx, f.dir, inference, f.overwrite); err != nil {
			return err
		}
	}
	var more []export.File
	if f.schema != "" {
		more, err = schemaGiven(f.schema, inference)
	} else if more, err = schemaBeside([]string{file}, inference); len(more) > 0 {
		f.schema = filepath.Join(filepath.Dir(file), schemaFile) // of sample rows, too
	}
	if err != nil {
		return err
	}
	return f.write(ctx, c, export.Model{Program: inference, Value: func(name string) (*tensor.Tensor, error) { return m.Values[name], nil }}, format, more)
}
