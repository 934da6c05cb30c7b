package export

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export/onnx"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// Prepare checks, before a training, that Write can write to dir, a directory or the URL of a bucket, and CheckModel.
func Prepare(ctx context.Context, dir string, inference *program.Program, overwrite bool) error {
	if err := CheckModel(ctx, dir, inference, overwrite); err != nil {
		return err
	}
	return executor.FilesOf(ctx).PrepareSave(dir, widened(inference))
}

// CheckModel refuses a place that holds the state of a training, and, without overwrite, one that holds another exported model: one that takes or computes other
// variables, or has other parameters. Values of parameters do not count.
func CheckModel(ctx context.Context, dir string, inference *program.Program, overwrite bool) error {
	t, err := executor.FilesOf(ctx).OpenTarget(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	if t.Has(executor.ProgressFile) {
		return ofTraining(dir)
	}
	if overwrite {
		return nil
	}
	there, err := exportedIn(t)
	if err != nil || there == nil {
		return err
	}
	inference = widened(inference)
	for _, c := range []struct {
		what       string
		there, new []string
	}{{"inputs", typesOf(there, there.Feeds()), typesOf(inference, inference.Feeds())}, {"results", typesOf(there, there.Targets()), typesOf(inference, inference.Targets())},
		{"parameters", typesOf(widened(there), executor.Persistables(there)), typesOf(inference, executor.Persistables(inference))}} {
		if !slices.Equal(c.there, c.new) {
			return fault.E(fault.InvalidArgument, fault.At("cannot export to "+dir), fault.Gotf("another model, with the %s %v", c.what, short(c.there)), fault.Wantf("%v", short(c.new)),
				fault.Hint("name another place, or replace the model there with --overwrite"))
		}
	}
	return nil
}

// short lists the first of many names.
func short(names []string) []string { return names[:min(len(names), 8)] }

// typesOf describes variables of a program.
func typesOf(p *program.Program, names []string) (types []string) {
	for _, name := range names {
		if v, ok := p.Global().Var(name); ok {
			name += " " + ops.MetaOf(v).String()
		}
		types = append(types, name)
	}
	return types
}

// exportedIn returns the program of the exported model in a place; nil: there is none, or only an ONNX model, whose parameters have other names.
func exportedIn(t *executor.Target) (*program.Program, error) {
	limits := program.DefaultLimits()
	switch {
	case t.Has(ModelFile):
		data, err := t.Head(ModelFile, limits.Bytes+1)
		if err != nil {
			return nil, err
		}
		p, err := program.Decode(data, limits)
		if err != nil {
			return nil, nil // it cannot be used
		}
		return p, nil
	case t.Has(ONNXFile):
		data, err := t.Head(ONNXFile, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		m, err := onnx.Read(data)
		if err != nil {
			return nil, nil
		}
		return m.Program, nil
	}
	return nil, nil
}

// ofTraining refuses a directory that Save has written: an export of other variables would make it useless.
func ofTraining(dir string) error {
	return fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("the directory of a training, with "+executor.ProgressFile), fault.Want("another directory"))
}

func checkPlace(dir string) error {
	_, err := os.Lstat(filepath.Join(dir, executor.ProgressFile))
	if err == nil {
		return ofTraining(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.File(fault.InvalidArgument, dir, err)
}

// CheckSave refuses to save a training of p to a place that Write has written, which somebody may serve: its parameters would change, and its program would stay. A
// directory with a program that trains is no such place, and none with executor.ProgressFile is. Without overwrite it also refuses a place that holds the state of another
// model, as executor.Target says. What cannot be looked at, executor.PrepareSave reports.
func CheckSave(ctx context.Context, dir string, p *program.Program, overwrite bool) error {
	t, err := executor.FilesOf(ctx).OpenTarget(dir)
	if err != nil {
		return nil
	}
	defer t.Close()
	exported := ""
	switch {
	case t.Has(executor.ProgressFile):
	case t.Has(ONNXFile):
		exported = ONNXFile
	case t.Has(ModelFile) && !holdsTraining(t):
		exported = ModelFile
	}
	switch {
	case exported != "":
		return fault.E(fault.InvalidArgument, fault.At("cannot save to "+dir), fault.Got("the directory of an exported model, with "+exported), fault.Want("another directory"),
			fault.Hint("--export writes a trained model there"))
	case overwrite:
		return nil
	}
	return t.CheckModel(p)
}

// holdsTraining reports whether a place has a program that trains.
func holdsTraining(t *executor.Target) bool {
	p, err := exportedIn(t)
	return err == nil && p != nil && executor.Trains(p)
}
