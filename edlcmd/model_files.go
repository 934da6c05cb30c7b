package edlcmd

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor/pickle"
	"github.com/spf13/cobra"
)

// modelIn returns the path of the program in a directory of a saved model, "" if there is none. Of several that may be meant, it asks for one.
func modelIn(dir string) (string, error) {
	isProgram := func(path string) bool {
		kind, err := kindOf(path)
		return err == nil && kind == programFile
	}
	path, err := export.ProgramIn(dir, isProgram)
	if err == nil && path != "" {
		return path, nil
	}
	return "", cmp.Or(severalIn(dir, isProgram), err)
}

// maxLooked bounds the files of a directory whose first bytes are read to find programs.
const maxLooked = 256

// severalIn returns how to run programs of a directory none of whose names says that it is the one of a model, in binary or as text; nil: there are not several.
func severalIn(dir string, isProgram func(path string) bool) error {
	entries, _ := os.ReadDir(dir) // the caller has read it
	var programs, mains, startups []string
	for _, e := range entries[:min(len(entries), maxLooked)] {
		path := filepath.Join(dir, e.Name())
		if !e.Type().IsRegular() || !isProgram(path) {
			continue
		}
		programs = append(programs, e.Name())
		if strings.Contains(e.Name(), "startup") {
			startups = append(startups, path)
		} else {
			mains = append(mains, path)
		}
	}
	if len(programs) < 2 {
		return nil
	}
	hint := ""
	if len(startups) > 0 && len(mains) > 0 {
		hint = fmt.Sprintf("a program whose startup program is in a file of its own: %s --startup %s", mains[0], startups[0])
	}
	return fault.E(fault.InvalidArgument, fault.At(dir), fault.Gotf("%d programs: %s", len(programs), strings.Join(programs[:min(len(programs), 8)], ", ")), fault.Want("the path of one of them"), fault.Hint(hint))
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
	if needed := needs(s); needed != "" {
		return fault.E(fault.InvalidArgument, fault.At("--startup "+f.path), fault.Got("a program that computes from "+needed), fault.Want("a startup program, which only gives variables their initial values"),
			fault.Hint("the program itself is the argument of the command"))
	}
	s.Startup, p.Startup = nil, s
	return nil
}

// needs names what a program is fed or reads: the first variable that its ops read, none of them writes before, and that is no parameter. "" is that of a startup program.
func needs(p *program.Program) string {
	b, written := p.Global(), map[string]bool{}
	for _, op := range b.Ops {
		if op.Type == "feed" || op.Type == "read" {
			return fmt.Sprintf("what the op %s gives", op.Type)
		}
		for _, name := range op.InputNames() {
			if v, ok := b.Var(name); ok && !v.Persistable && !written[name] {
				return name
			}
		}
		for _, name := range op.OutputNames() {
			written[name] = true
		}
	}
	return ""
}

// checkParams refuses a file of something else where parameters are wanted. What is not here, or cannot be told, whoever reads it reports.
func checkParams(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	kind, err := kindOf(path)
	if err != nil || kind == tensorFile || kind == namedFile || kind == unknownFile || kind == programFile && isPickle(path) {
		return nil
	}
	hint := placeOf[kind]
	switch kind {
	case programFile:
		hint = "the program is the argument of the command"
	case progressFile:
		hint = "give the directory of it"
	}
	return fault.E(fault.InvalidArgument, fault.At(path), fault.Got(kind.String()), fault.Want("parameters: a directory, or one file with all of them"), fault.Hint(hint))
}

// isPickle reports whether a file begins as Python's pickle does: so do parameters whose name does not say what they are.
func isPickle(path string) bool {
	f, _, err := openRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 2)
	_, err = io.ReadFull(f, head)
	return err == nil && pickle.Is(head)
}
