package edlcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// schemaBeside returns the schema of the records that a model is trained on, for its export: the file beside them that "edl data table" has made. There is none
// if the folders of the data have none, have different ones, or are in a bucket, or if the model is fed what is no field of it: then it is that of other records.
func schemaBeside(globs []string, inference *program.Program) ([]export.File, error) {
	_, found, err := besideRecords(globs)
	if err != nil || found == nil {
		return nil, err
	}
	if s, err := schema.Read(bytes.NewReader(found)); err != nil || misfit(s, inference) != "" {
		return nil, nil
	}
	return []export.File{{Name: schemaFile, Bytes: found}}, nil
}

// besideRecords returns the schema that lies in all folders of record files; nil: there is none, or they have different ones.
func besideRecords(globs []string) (path string, found []byte, err error) {
	for _, glob := range globs {
		if strings.Contains(glob, "://") || strings.ContainsAny(filepath.Dir(glob), "*?[") {
			return "", nil, nil
		}
		path = filepath.Join(filepath.Dir(glob), schemaFile)
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil, nil
		case err != nil:
			return "", nil, fileFault(path, err)
		case found != nil && !bytes.Equal(found, b):
			return "", nil, nil
		}
		found = b
	}
	return path, found, nil
}

// fitRecords refuses record files in which two fields that a program reads stand in each other's place, by the schema beside them. Their types may be the same, as those of two
// categories are, and then training would go on with the wrong columns. A program may read fields under names of its own.
func fitRecords(data []*job.DataBinding, model string, p *program.Program) error {
	if !reads(p) {
		return nil
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return err
	}
	wanted := read.Outputs["Out"]
	for _, d := range data {
		path, b, err := besideRecords(d.Globs)
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		s, err := schema.Read(bytes.NewReader(b))
		if err != nil {
			return nil // a file of that name that is no schema
		}
		made := namesOf(s.Fields())
		for i, name := range wanted[:min(len(wanted), len(made))] {
			if at := slices.Index(made, name); at >= 0 && at != i && slices.Contains(wanted, made[i]) {
				return otherFields(path, made, model, wanted, made[i]+" as field "+strconv.Itoa(i), name)
			}
		}
	}
	return nil
}

func namesOf(fields []schema.Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// otherFields is the error of a schema that does not make what a program reads.
func otherFields(path string, made []string, model string, wanted []string, got, want string) error {
	return fault.E(fault.InvalidArgument, fault.At(path), fault.Got(got), fault.Wantf("%s, as %s reads records", want, model),
		fault.Hintf("the schema makes %s; the program reads %s", shortList(made), shortList(wanted)))
}

// schemaGiven returns the schema in a file that a user has named. It must have the inputs of the model as fields.
func schemaGiven(path string, inference *program.Program) ([]export.File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fileFault(path, err)
	}
	s, err := schema.Read(bytes.NewReader(b))
	if err != nil {
		return nil, inFile(path, err)
	}
	if name := misfit(s, inference); name != "" {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Var(name), fault.Got("an input of the model that the schema does not make"), fault.Want("the schema that the model was trained with"))
	}
	return []export.File{{Name: schemaFile, Bytes: b}}, nil
}

// misfit names an input of the model that is no field of a schema, or of another type; empty: there is none.
func misfit(s *schema.Schema, inference *program.Program) string {
	fields := s.Fields()
	for _, name := range inference.Feeds() {
		v, ok := inference.Global().Var(name)
		at := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Name == name })
		if !ok || at < 0 || fields[at].DType != v.DType || fields[at].LoDLevel != v.LoDLevel {
			return name
		}
	}
	return ""
}

// fitReader checks that the program in a file reads what the schema in another makes of rows: as many fields, each of its type and at its place. Where a program shares names
// with the schema, these must agree, too: two categories in another order have the same types. Names that Fluid has made share none.
func fitReader(path string, s *schema.Schema, model string, p *program.Program) error {
	if !reads(p) {
		return nil
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return err
	}
	made := s.Fields()
	of := namesOf(made)
	wanted := read.Outputs["Out"]
	named := slices.ContainsFunc(wanted, func(name string) bool { return slices.Contains(of, name) })
	wrong := func(got, want string) error { return otherFields(path, of, model, wanted, got, want) }
	if len(made) != len(pipeline.Fields) {
		return wrong(fmt.Sprintf("a schema of %d fields", len(made)), strconv.Itoa(len(pipeline.Fields)))
	}
	for i, want := range pipeline.Fields {
		got := made[i]
		declared := dataset.Field{DType: want.DType, Dims: want.Dims, LoDLevel: want.LoDLevel}
		fits := got.DType == want.DType && got.LoDLevel == want.LoDLevel && (want.LoDLevel > 0 || slices.Equal(got.Dims, want.Dims))
		if !fits || named && got.Name != want.Name {
			unnamed := got.Field
			unnamed.Name = ""
			return wrong(fmt.Sprintf("%s %v as field %d", got.Name, unnamed, i), fmt.Sprintf("%s %v", want.Name, declared))
		}
	}
	return nil
}

// schemaIn is the schema in the directory of a model; empty: there is none.
func schemaIn(model string) string {
	path := filepath.Join(model, schemaFile)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}
