package edlcmd

import (
	"slices"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/spf13/cobra"
)

// modelIn returns the path of the program in a directory of a saved model, "" if there is none. Of several that may be meant, it asks for one.
func modelIn(dir string) (string, error) {
	return export.ProgramIn(dir, func(path string) bool {
		kind, err := kindOf(path)
		return err == nil && kind == programFile
	})
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
