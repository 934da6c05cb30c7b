// Package fileio registers the ops that read and write parameter files: save, load, save_combine and load_combine, in Fluid's formats.
//
// The file_path of a program is a name and no path. The storage of the environment resolves it below the directory of the run, and refuses a name
// that leads out of it. The ops do not bind without storage.
package fileio

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

const (
	pathAttr      = "file_path"
	overwriteAttr = "overwrite"
	shortAttr     = "save_rows_in_use"
	saveHalfAttr  = "save_as_fp16"
	loadHalfAttr  = "load_as_fp16"
)

func init() {
	save("save", "Writes X to a file of its own, as Fluid's LoDTensor stream.", false)
	save("save_combine", "Writes all X to one file, as LoDTensor streams one after another in the order of X. Names are not written.", true)
	load("load", "Reads Out from a file of its own. Its type and dims must be those that the program declares.", false)
	load("load_combine", "Reads all Out from one file, in the order in which they were saved, which in Fluid is that of their names.", true)
}

// noRole is why clusters have only save, one for each variable.
var noRole = map[ops.Check]string{ops.CheckLaw: "no stage of a cluster has it: roles get values from the state that a job begins with, and save each variable to a file of its own"}

var path = ops.Attr{Name: pathAttr, Kind: "", Doc: "name of the file below the directory of the run", Check: func(op *program.Op) error {
	if name, _ := op.Str(pathAttr); name == "" {
		return errors.New("the name of a file")
	}
	return nil
}}

func save(opType, doc string, many bool) {
	exempt := noRole
	if !many {
		exempt = nil
	}
	attrs := []ops.Attr{
		path,
		{Name: overwriteAttr, Default: true, Doc: "replace a file that exists; if false, such a file is an error"},
		{Name: saveHalfAttr, Default: false, Doc: "Fluid's flag for half precision; true is not supported"},
	}
	if !many {
		attrs = append(attrs, ops.Attr{Name: shortAttr, Default: false, Doc: "X is of a table that grows: the file has the rows in use, in EDL's short form"})
	}
	ops.Register(ops.Def{
		Type:   opType,
		Class:  ops.FileIO,
		Doc:    doc,
		Inputs: []ops.Slot{{Name: "X", Doc: "what to write", Duplicable: many}},
		Attrs:  attrs,
		Infer: func(s *ops.Shapes) error {
			for i, m := range s.Ins("X") {
				if m.Kind != program.LoDTensor {
					return fault.E(fault.Unsupported, fault.Var(s.Op().Inputs["X"][i]), fault.Gotf("X %v", m), fault.Want("a dense tensor"))
				}
			}
			return refuseHalf(s, saveHalfAttr)
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			storage, err := storageOf(b)
			if err != nil {
				return nil, err
			}
			name, values, overwrite := b.Str(pathAttr), b.Ins("X"), b.Bool(overwriteAttr)
			if err := complete(b.Op().Inputs["X"], values); err != nil {
				return nil, err
			}
			if !many && b.Bool(shortAttr) {
				return func(context.Context) error { return storage.SaveShort(name, values[0], overwrite) }, nil
			}
			return func(context.Context) error { return storage.Save(name, values, overwrite) }, nil
		},
		Exempt: exempt,
	})
}

func load(opType, doc string, many bool) {
	ops.Register(ops.Def{
		Type:    opType,
		Class:   ops.FileIO,
		Doc:     doc,
		Outputs: []ops.Slot{{Name: "Out", Doc: "what to read", Duplicable: many}},
		Attrs: []ops.Attr{
			path,
			{Name: loadHalfAttr, Default: false, Doc: "Fluid's flag for half precision; true is not supported"},
		},
		// Outputs keep their zero Meta: the declarations of the program count.
		Infer: func(s *ops.Shapes) error { return refuseHalf(s, loadHalfAttr) },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			storage, err := storageOf(b)
			if err != nil {
				return nil, err
			}
			name, into := b.Str(pathAttr), b.Outs("Out")
			if err := complete(b.Op().Outputs["Out"], into); err != nil {
				return nil, err
			}
			return func(context.Context) error { return storage.Load(name, into) }, nil
		},
		Exempt: noRole,
	})
}

func refuseHalf(s *ops.Shapes, attr string) error {
	if s.Bool(attr) {
		return opkit.UnsupportedAttr(s, attr, "false: parameters are read and written in their own type")
	}
	return nil
}

// storageOf returns the files of the run, or an error if the run has none.
func storageOf(b *ops.Binding) (ops.Storage, error) {
	if b.Env == nil || b.Env.Storage == nil {
		return nil, fault.E(fault.InvalidArgument, fault.Got("no directory for parameter files"), fault.Want("one"),
			fault.Hint("give the executor storage"))
	}
	return b.Env.Storage, nil
}

// complete checks that every variable has a tensor. A file without one could not be read back.
func complete(names []string, tensors []*tensor.Tensor) error {
	for i, name := range names {
		if i >= len(tensors) || tensors[i] == nil {
			return fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a variable without a value"), fault.Want("a tensor"))
		}
	}
	return nil
}
