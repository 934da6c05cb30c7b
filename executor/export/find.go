package export

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export/onnx"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// Names of the files of saved models, beside ModelFile.
const (
	namedModel = "model"      // as users of Fluid called ModelFile when they named files
	PairedExt  = ".pdmodel"   // Paddle 2: NAME.pdmodel and
	paramsExt  = ".pdiparams" // NAME.pdiparams, as it saves for inference, or
	pickledExt = ".pdparams"  // NAME.pdparams, as it saves to go on
	TextExt    = ".pbtxt"     // a program as text
)

// ProgramIn returns the path of the program in a directory of a saved model, "" if there is none. Of several that may be meant, it asks for one, and it refuses
// an ONNX model without a program. isProgram tells whether a file that may be a program or parameters is a program.
func ProgramIn(dir string, isProgram func(path string) bool) (string, error) {
	for _, name := range []string{ModelFile, namedModel} {
		path := filepath.Join(dir, name)
		if isFile(path) && (name == ModelFile || isProgram(path)) {
			return path, nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fault.File(fault.InvalidArgument, dir, err)
	}
	for _, ext := range []string{PairedExt, TextExt} {
		var found []string
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ext && e.Type().IsRegular() {
				found = append(found, e.Name())
			}
		}
		switch {
		case len(found) > 1:
			return "", fault.E(fault.InvalidArgument, fault.At(dir), fault.Gotf("%d programs: %s", len(found), strings.Join(found[:min(len(found), 8)], ", ")),
				fault.Want("the path of one of them"))
		case len(found) == 1:
			return filepath.Join(dir, found[0]), nil
		}
	}
	if path := filepath.Join(dir, ONNXFile); isFile(path) {
		return "", RefuseONNX(path)
	}
	return "", nil
}

// RefuseONNX returns an error if the name of a file is that of an ONNX model, for those who read programs: package onnx makes a program of it.
func RefuseONNX(path string) error {
	if filepath.Ext(path) != onnx.Extension {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("an ONNX model"), fault.Want("a program"),
		fault.Hintf("\"edl export %s -o DIR\" makes a program of it, with its parameters", path))
}

// ParamsOf returns where the parameters of the program at path are: a file with all of them, or the directory of a saved model. It returns "" if the
// name of the program does not say.
func ParamsOf(path string) string {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	var files []string
	switch {
	case name == ModelFile:
		files = []string{CombinedFile, "params", SafetensorsFile}
	case name == namedModel:
		files = []string{CombinedFile, "params"}
	case filepath.Ext(name) == PairedExt:
		paired := strings.TrimSuffix(name, PairedExt)
		files = []string{paired + paramsExt, paired + pickledExt}
	}
	for _, file := range files {
		if isFile(filepath.Join(dir, file)) {
			return filepath.Join(dir, file)
		}
	}
	if name == ModelFile {
		return dir
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// LoadParams reads the parameters of an inference program into a scope: a directory, or a file. A combined file has no names, so it is read in the order of
// trained, the program whose parameters it has.
func LoadParams(path string, trained, inference *program.Program) (scope *executor.Scope, err error) {
	return LoadParamsInto(nil, path, trained, inference)
}

// LoadParamsInto is LoadParams into the memory of a place; nil: memory of Go.
func LoadParamsInto(place executor.Place, path string, trained, inference *program.Program) (scope *executor.Scope, err error) {
	scope = executor.NewScope()
	files := executor.FilesInto(place)
	if isFile(path) && !executor.HoldsNames(path) {
		err = files.LoadCombined(scope, path, trained)
	} else {
		err = files.LoadParams(scope, path, inference)
	}
	if err != nil {
		return nil, err
	}
	return scope, nil
}
