package edlcmd

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// schemaBeside returns the schema of the records that a model is trained on, for its export: the file beside them that "edl data table" has made. There is none
// if the folders of the data have none, have different ones, or are in a bucket, or if the model is fed what is no field of it: then it is that of other records.
func schemaBeside(globs []string, inference *program.Program) ([]export.File, error) {
	var found []byte
	for _, glob := range globs {
		if strings.Contains(glob, "://") || strings.ContainsAny(filepath.Dir(glob), "*?[") {
			return nil, nil
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(glob), schemaFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, fileFault(filepath.Dir(glob), err)
		case found != nil && !bytes.Equal(found, b):
			return nil, nil
		}
		found = b
	}
	if found == nil {
		return nil, nil
	}
	if s, err := schema.Read(bytes.NewReader(found)); err != nil || misfit(s, inference) != "" {
		return nil, nil
	}
	return []export.File{{Name: schemaFile, Bytes: found}}, nil
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

// schemaIn is the schema in the directory of a model; empty: there is none.
func schemaIn(model string) string {
	path := filepath.Join(model, schemaFile)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}
