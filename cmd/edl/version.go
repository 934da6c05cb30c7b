package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/ops"
)

// A versionReport is what "edl version --output json" prints.
type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Ops      int    `json:"ops"`
	Registry string `json:"registry"` // fingerprint of the ops: programs travel only between equal ones
}

func newVersion(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the fingerprint of the ops that this build knows",
		Args:  cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := currentVersion()
		if output.value == "json" {
			return writeJSON(c.out, v)
		}
		_, err := fmt.Fprintf(c.out, "edl %s %s %s, %d ops, registry %s\n", v.Version, v.Go, v.Platform, v.Ops, v.Registry)
		return err
	}
	return cmd
}

func currentVersion() versionReport {
	v := versionReport{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Ops: len(ops.All()), Registry: ops.Fingerprint()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}
