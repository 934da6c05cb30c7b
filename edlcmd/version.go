package edlcmd

import (
	"debug/buildinfo"
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
	binary := cmd.Flags().String("binary", "", "with --sbom: print those of the binary `FILE`, which may be one for another system")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := c.currentVersion()
		if *sbom {
			info, version, err := v.builtFrom(*binary)
			if err != nil {
				return err
			}
			return writeJSON(c.out, bomOf(info, version))
		}
		if err := refuseIdle(cmd.Flags(), []string{"binary"}, "no bill of materials", "it together with --sbom"); err != nil {
			return err
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

// builtFrom is what Go has recorded in a binary, and its version; empty: in this one.
func (v versionReport) builtFrom(binary string) (info *debug.BuildInfo, version string, err error) {
	if binary == "" {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			return nil, "", fault.E(fault.Unsupported, fault.At("--sbom"), fault.Got("a binary without a list of its modules"), fault.Want("one that was built with modules"))
		}
		return info, v.Version, nil
	}
	if info, err = buildinfo.ReadFile(binary); err != nil {
		return nil, "", fault.File(fault.InvalidArgument, binary, err)
	}
	of := versionReport{Version: "devel"}
	of.describe(info)
	return info, of.Version, nil
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
