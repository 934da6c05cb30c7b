package edlcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/spf13/cobra"
)

// Names of the files of saved models, beside modelFile.
const (
	namedModel = "model"      // as users of Fluid called modelFile when they named files
	modelExt   = ".pdmodel"   // Paddle 2: NAME.pdmodel and
	paramsExt  = ".pdiparams" // NAME.pdiparams
	textExt    = ".pbtxt"     // a program as text
)

// modelIn returns the path of the program in a directory of a saved model, "" if there is none. Of several that may be meant, it asks for one.
func modelIn(dir string) (string, error) {
	for _, name := range []string{modelFile, namedModel} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if kind, err := kindOf(path); name == modelFile || err == nil && kind == programFile {
			return path, nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fileFault(dir, err)
	}
	for _, ext := range []string{modelExt, textExt} {
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
	return "", nil
}

// paramsOf returns where the parameters of the program at path are: a file with all of them, or the directory of a saved model. It returns "" if the
// name of the program does not say.
func paramsOf(path string) string {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	isFile := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	var files []string
	switch {
	case name == modelFile:
		files = []string{combinedFile, "params", export.SafetensorsFile}
	case name == namedModel:
		files = []string{combinedFile, "params"}
	case filepath.Ext(name) == modelExt:
		files = []string{strings.TrimSuffix(name, modelExt) + paramsExt}
	}
	for _, file := range files {
		if isFile(filepath.Join(dir, file)) {
			return filepath.Join(dir, file)
		}
	}
	if name == modelFile {
		return dir
	}
	return ""
}

// startupFlag is the startup program of a program whose file holds none, as Fluid saves them.
type startupFlag struct{ path string }

func (f *startupFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "startup", "", "the startup program is in `FILE`, as Fluid saves it, and not in that of the program")
}

// give loads the startup program and gives it to p, which must have none.
func (f *startupFlag) give(p *program.Program) error {
	if f.path == "" {
		return nil
	}
	if p.Startup != nil && slices.ContainsFunc(p.Startup.Blocks, func(b *program.Block) bool { return len(b.Ops) > 0 }) {
		return fault.E(fault.InvalidArgument, fault.At("--startup"), fault.Got("a program with a startup program of its own"), fault.Want("no --startup"))
	}
	s, _, err := loadWhole(f.path)
	if err != nil {
		return err
	}
	if s.Startup != nil && len(s.Startup.Global().Ops) > 0 {
		return fault.E(fault.InvalidArgument, fault.At(f.path), fault.Got("a program that has a startup program"), fault.Want("a startup program"))
	}
	s.Startup, p.Startup = nil, s
	return nil
}
