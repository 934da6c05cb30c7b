// Package export writes a trained model for use: the program that computes predictions, and its parameters, in formats that other programs read.
//
// It owns what lies in the directory of an exported model:
//
//	__model__            but for ONNX: the program of Fluid's inference layout, with feed ops at its head and fetch ops at its end
//	fc_0.w_0, ...        Fluid: each parameter in a file of its name, as a LoDTensor stream; what is of a table that grows, in short form
//	__params__           Combined: all of them in one file, in the order of their names
//	model.safetensors    Safetensors
//	params.npz           NPZ
//	schema.yaml          of a model of tables: what becomes of their columns (dataset/schema), if whoever writes the model gives it
//	model.onnx           ONNX: program and parameters, without __model__
//
// In Safetensors and NPZ, a table that grows has the rows in use, and beside them an array of their numbers, whose name ends with executor.RowsSuffix.
//
// Files in reading order: export.go, place.go (what may be replaced), stored.go (tables of bfloat16), fold.go (fewer ops, to rounding), compare.go (whether two models compute the same). The formats of parameters are in executor, tensor/safetensors and tensor/npz.
package export

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export/onnx"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/npz"
	"github.com/edl-go/edl/tensor/safetensors"
)

// Names of files in the directory of a model.
const (
	ModelFile       = "__model__"
	CombinedFile    = "__params__"
	SafetensorsFile = "model" + safetensors.Extension
	NPZFile         = "params" + npz.Extension
	SchemaFile      = "schema.yaml"
	ONNXFile        = "model" + onnx.Extension
)

// A File lies beside a model, as it is.
type File struct {
	Name  string
	Bytes []byte
}

// A Format says how parameters are written.
type Format string

// The formats.
const (
	Fluid       Format = "fluid"       // a file for each parameter
	Combined    Format = "combined"    // Fluid's form of one file for all
	Safetensors Format = "safetensors" // one file
	NPZ         Format = "npz"         // one file, for NumPy
	ONNX        Format = "onnx"        // one file with the program, for other engines
)

// Program returns the program that computes targets from feeds as it is after training: without the ops of training, data readers and what the targets do
// not need, with dropout and batch norm in their form for inference. No targets: those of the program's fetch ops. No feeds: what the targets need and
// nothing in the program computes, in the order of the program's feed ops and readers. p does not change.
func Program(p *program.Program, feeds, targets []string) (*program.Program, error) {
	if len(targets) == 0 {
		targets = p.Targets()
	}
	if len(targets) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a program without fetch ops, and no target"), fault.Want("the variables to compute"))
	}
	if len(feeds) == 0 {
		var err error
		if feeds, err = neededFeeds(p, targets); err != nil {
			return nil, err
		}
	}
	c := p.Clone()
	c.Global().Ops = slices.DeleteFunc(c.Global().Ops, func(op *program.Op) bool { return op.Type == "read" }) // what it read is fed
	inference, err := c.InferenceProgram(feeds, targets)
	if err != nil {
		return nil, err
	}
	inference.Startup = nil
	return inference, nil
}

// neededFeeds returns what targets need and nothing but feed ops and readers computes.
func neededFeeds(p *program.Program, targets []string) ([]string, error) {
	c := p.CloneForTest()
	block := c.Global()
	order := c.Feeds()
	block.Ops = slices.DeleteFunc(block.Ops, func(op *program.Op) bool {
		if op.Type == "read" {
			order = append(order, op.OutputNames()...)
		}
		return op.Type == "feed" || op.Type == "fetch" || op.Type == "read"
	})
	c, err := c.Prune(targets...)
	if err != nil {
		return nil, err
	}
	for _, v := range c.Global().Vars() {
		order = append(order, v.Name)
	}
	uses := c.Global().Uses()
	var feeds []string
	for _, name := range order {
		v, ok := c.Global().Var(name)
		if ok && !v.Persistable && v.Kind == program.LoDTensor && len(uses[name].Readers) > 0 && len(uses[name].Writers) == 0 && !slices.Contains(feeds, name) {
			feeds = append(feeds, name)
		}
	}
	return feeds, nil
}

// Write writes a program that Program has made, and its parameters, to dir, which is made if need be. It replaces an exported model there as a whole or not at
// all, as executor.StateWriter says. value returns the parameters by name, each once. It returns how many bytes it has written.
//
// A table that is stored as bfloat16 and looked up by lookup_table is written as float32, with the same numbers, for Fluid and NumPy, which do not know that type.
// Safetensors has it, and a table that grows stays what it is: keys without a row read as initial values that are rounded, too.
//
// The files of more belong to the model. Without a SchemaFile among them, the one of an earlier export is removed: it may be that of another table.
func Write(dir string, inference *program.Program, format Format, value func(name string) (*tensor.Tensor, error), more ...File) (bytes int64, err error) {
	if dir = bucket.LocalPath(dir); !bucket.IsURL(dir) {
		if err := checkPlace(dir); err != nil {
			return 0, err
		}
	}
	if err := executor.CheckNames(inference); err != nil {
		return 0, err
	}
	if format != Safetensors {
		inference = widened(inference)
	}
	_, missing := os.Lstat(dir)
	w, err := executor.NewStateWriter(dir)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, w.Close()); err != nil && errors.Is(missing, fs.ErrNotExist) {
			_ = os.Remove(dir) // which was made for the model; what is not empty stays
		}
	}()
	if err := w.Begin(); err != nil {
		return 0, err
	}
	if err := write(w, inference, format, value); err != nil {
		return 0, err
	}
	if err := writeMore(w, more); err != nil {
		return 0, err
	}
	return w.Bytes(), w.Commit(nil)
}

// write writes the files of a model.
func write(w *executor.StateWriter, inference *program.Program, format Format, value func(name string) (*tensor.Tensor, error)) error {
	e := &exporter{program: inference, value: value}
	if format == ONNX {
		if err := w.SaveFile(ONNXFile, func(to io.Writer) error { return onnx.Write(to, inference, e.find) }, true); err != nil {
			return err
		}
		return removeOthers(w, ONNXFile)
	}
	model, err := inference.Encode()
	if err != nil {
		return err
	}
	if err := w.SaveFile(ModelFile, func(to io.Writer) error { _, err := to.Write(model); return err }, true); err != nil {
		return err
	}
	one := map[Format]string{Combined: CombinedFile, Safetensors: SafetensorsFile, NPZ: NPZFile}[format]
	switch {
	case one != "":
		err = w.SaveFile(one, func(to io.Writer) error { return e.writeOne(to, format) }, true)
	case format == Fluid:
		err = e.writeEach(w)
	default:
		err = fault.E(fault.InvalidArgument, fault.At("the format of an export"), fault.Got(fault.Quote(string(format))), fault.Want("fluid, combined, safetensors, npz or onnx"))
	}
	if err != nil {
		return err
	}
	return removeOthers(w, ModelFile, one)
}

// removeOthers removes the files of an earlier export that are not among kept: a reader would take them.
func removeOthers(w *executor.StateWriter, kept ...string) error {
	for _, other := range []string{ModelFile, CombinedFile, SafetensorsFile, NPZFile, ONNXFile} {
		if !slices.Contains(kept, other) {
			if err := w.Remove(other); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeMore(w *executor.StateWriter, more []File) error {
	for _, f := range more {
		if err := w.SaveFile(f.Name, func(to io.Writer) error { _, err := to.Write(f.Bytes); return err }, true); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(more, func(f File) bool { return f.Name == SchemaFile }) {
		return nil
	}
	return w.Remove(SchemaFile)
}

// An exporter writes the parameters of one program.
type exporter struct {
	program *program.Program
	value   func(name string) (*tensor.Tensor, error)
}

// find returns a parameter, with the type that the program declares.
func (e *exporter) find(name string) (*tensor.Tensor, error) {
	t, err := e.value(name)
	if err != nil {
		return nil, err
	}
	v, _ := e.program.Global().Var(name)
	if t.DType() == tensor.BFloat16 && v.DType == tensor.Float32 {
		if t, err = wide(t); err != nil {
			return nil, err
		}
	}
	fits := t.DType() == v.DType && len(t.Dims()) == len(v.Dims)
	for i := 0; fits && i < len(v.Dims); i++ {
		fits = v.Dims[i] < 0 || v.Dims[i] == t.Dims()[i]
	}
	if !fits {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(t.String()), fault.Wantf("%s%v, as the program declares", v.DType, v.Dims))
	}
	return t, nil
}

func (e *exporter) writeEach(w *executor.StateWriter) error {
	grown := sparse.Grown(e.program)
	for _, name := range executor.Persistables(e.program) {
		if name == CombinedFile || name == SafetensorsFile || name == NPZFile || name == ModelFile || name == ONNXFile {
			return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("the name of a file of an exported model"), fault.Want("another name"))
		}
		t, err := e.find(name)
		if err != nil {
			return err
		}
		save := func() error { return w.Save(name, []*tensor.Tensor{t}, true) }
		if grown[name] {
			save = func() error { return w.SaveShort(name, t, true) }
		}
		if err := save(); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) writeOne(to io.Writer, format Format) error {
	names := executor.Persistables(e.program)
	grown := sparse.Grown(e.program)
	if format == Combined {
		for _, name := range names {
			t, err := e.find(name)
			switch {
			case err != nil:
			case grown[name]:
				err = tensor.WriteShort(to, t)
			default:
				_, err = t.WriteTo(to)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var list []safetensors.Tensor
	inUse := map[string]*tensor.Tensor{} // what stands for a table that grows
	for _, name := range names {
		v, _ := e.program.Global().Var(name)
		entry := safetensors.Tensor{Name: name, DType: v.DType, Dims: v.Dims}
		if grown[name] {
			numbers, rows, err := e.rowsInUse(name)
			if err != nil {
				return err
			}
			beside := name + executor.RowsSuffix
			if _, taken := slices.BinarySearch(names, beside); taken {
				return fault.E(fault.InvalidArgument, fault.Var(beside), fault.Gotf("the name of the numbers of the rows of %s", fault.Quote(name)), fault.Want("another name, or --format fluid"))
			}
			inUse[name], inUse[beside], entry.Dims = rows, numbers, rows.Dims()
			list = append(list, safetensors.Tensor{Name: beside, DType: tensor.Int64, Dims: numbers.Dims()})
		}
		list = append(list, entry)
	}
	value := func(name string) (*tensor.Tensor, error) {
		if t := inUse[name]; t != nil {
			return t, nil
		}
		return e.find(name)
	}
	if format == Safetensors {
		return safetensors.Write(to, list, map[string]string{"producer": "edl"}, value)
	}
	names = names[:0]
	for _, entry := range list {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	return npz.Write(to, names, value)
}

// rowsInUse returns the rows of a table that grows which are in use, and their numbers.
func (e *exporter) rowsInUse(name string) (numbers, rows *tensor.Tensor, err error) {
	t, err := e.find(name)
	if err != nil {
		return nil, nil, err
	}
	return tensor.RowsInUse(t)
}
