package edlcmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// A versionReport is what "edl version --output json" prints.
type versionReport struct {
	Version     string `json:"version"`
	EDL         string `json:"edl,omitempty"` // version of EDL in a command that another module has built
	Revision    string `json:"revision,omitempty"`
	Go          string `json:"go"`
	Platform    string `json:"platform"`
	Ops         int    `json:"ops"`
	Fingerprint string `json:"fingerprint"` // of the ops: programs travel only between equal ones
}

func newVersion(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the fingerprint of the ops that this build knows",
		Args:  cobra.NoArgs,
	}
	output := outputFlag(cmd)
	sbom := cmd.Flags().Bool("sbom", false, "print the modules of this build as a bill of materials, as JSON of CycloneDX")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := c.currentVersion()
		if *sbom {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fault.E(fault.Unsupported, fault.At("--sbom"), fault.Got("a binary without a list of its modules"), fault.Want("one that was built with modules"))
			}
			return writeJSON(c.out, bomOf(info, v.Version))
		}
		if output.value == "json" {
			return writeJSON(c.out, v)
		}
		_, err := fmt.Fprintf(c.out, "edl %s %s %s, %d ops, fingerprint %s\n", v.Version, v.Go, v.Platform, v.Ops, v.Fingerprint)
		return err
	}
	return cmd
}

// currentVersion says what this build is. A version control system or a module proxy gives it its version; a build of changed files is a devel.
func (s *settings) currentVersion() versionReport {
	v := versionReport{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Ops: len(ops.All()), Fingerprint: ops.Fingerprint()}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.describe(info)
	}
	if s.version != "" {
		v.Version = s.version
	}
	return v
}

// describe takes over what Go has recorded in the binary: the version of its main module, that of EDL when it is another one, and the commit.
func (v *versionReport) describe(info *debug.BuildInfo) {
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	if info.Main.Path != module {
		for _, d := range info.Deps {
			if d.Path == module {
				v.EDL = d.Version
			}
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
}

// module is the path of EDL.
const module = "github.com/edl-go/edl"
