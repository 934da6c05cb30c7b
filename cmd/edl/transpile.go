package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/transpiler"
)

// transpileFlags are the flags of "edl transpile".
type transpileFlags struct {
	jobFlags
	dir    string
	dump   bool
	output *choice
}

func newTranspile(c *console) *cobra.Command {
	f := &transpileFlags{}
	cmd := &cobra.Command{
		Use:   "transpile [PROGRAM] -o DIR",
		Short: "Write the programs that trainers and parameter servers run",
		Long: `Write the role programs that a job runs: trainer.pb for every trainer, pserver-0.pb and so on for each server, and
save.pb, which collects the model when training is over. "edl show" shows them.`,
		Example: "  edl transpile program.pb -o roles --trainers 2 --pservers 4 --dump",
		Args:    cobra.MaximumNArgs(1),
	}
	f.addCluster(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.dir, "out", "o", "", "directory to write to")
	flags.StringSliceVar(&f.fetch, "fetch", nil, "variables that trainers must be able to report")
	flags.BoolVar(&f.dump, "dump", false, "also write all programs as text after each pass, to DIR/dump")
	f.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return transpileProgram(cmd, c, f, args) }
	return cmd
}

func transpileProgram(cmd *cobra.Command, c *console, f *transpileFlags, args []string) error {
	if f.dir == "" {
		return &fault.Fault{Kind: fault.InvalidArgument, Got: "no directory to write to", Want: "-o DIR"}
	}
	spec, path, err := f.spec(cmd, args)
	if err != nil {
		return err
	}
	p, _, err := loadProgram(path)
	if err != nil {
		return err
	}
	config := transpilerConfig(spec)
	config.Dump = f.dump
	result, err := transpiler.Transpile(cmd.Context(), p, config)
	if err != nil {
		return err
	}
	if err := saveRoles(cmd.Context(), f.dir, result); err != nil {
		return err
	}
	if f.dump {
		if err := dumpStages(filepath.Join(f.dir, "dump"), result.Stages); err != nil {
			return err
		}
	}
	return reportPlacement(c, f, result)
}

// transpilerConfig is what a job says about its role programs.
func transpilerConfig(spec *job.JobSpec) transpiler.Config {
	mode := transpiler.Sync
	if spec.Mode == job.Mode_ASYNC {
		mode = transpiler.Async
	}
	return transpiler.Config{Trainers: int(spec.Trainers), PServers: int(spec.Pservers), Mode: mode, MinBlockSize: spec.MinBlockSize,
		NoSlice: spec.NoSlice, SplitMethod: spec.SplitMethod, Fetch: spec.Fetch}
}

func saveRoles(ctx context.Context, dir string, result *transpiler.Result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fileFault(dir, err)
	}
	for _, role := range result.Programs() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := role.Program.Save(filepath.Join(dir, roleFile(role.Name))); err != nil {
			return err
		}
	}
	return nil
}

// roleFile is the file of a role program, such as pserver-0.pb.
func roleFile(role string) string { return strings.ReplaceAll(role, "_", "-") + ".pb" }

// dumpStages writes what each pass left behind as text: dir/01-verify-input/trainer.txt and so on.
func dumpStages(dir string, stages []transpiler.Stage) error {
	for i, stage := range stages {
		folder := filepath.Join(dir, fmt.Sprintf("%02d-%s", i+1, strings.ReplaceAll(stage.Pass, " ", "-")))
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return fileFault(folder, err)
		}
		for _, p := range stage.Programs {
			if err := writeText(filepath.Join(folder, p.Name+".txt"), p.Program); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeText(path string, p *program.Program) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fileFault(path, err)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = fileFault(path, closed)
		}
	}()
	return p.Text(f, program.TextOptions{Full: true})
}

// A placementReport is what "edl transpile --output json" prints.
type placementReport struct {
	Files   []string     `json:"files"`
	Servers []loadReport `json:"servers"`
}

type loadReport struct {
	Server int     `json:"server"`
	Slices int     `json:"slices"`
	Bytes  int64   `json:"bytes"`
	Share  float64 `json:"share"` // of all bytes
}

// reportPlacement prints which files were written, and how evenly the servers are loaded.
func reportPlacement(c *console, f *transpileFlags, result *transpiler.Result) error {
	var report placementReport
	for _, role := range result.Programs() {
		report.Files = append(report.Files, filepath.Join(f.dir, roleFile(role.Name)))
	}
	total := int64(0)
	for _, load := range result.Placement.Loads {
		total += load.Bytes
	}
	for _, load := range result.Placement.Loads {
		report.Servers = append(report.Servers, loadReport{load.Server, load.Slices, load.Bytes, float64(load.Bytes) / float64(max(total, 1))})
	}
	if f.output.value == "json" {
		return writeJSON(c.out, report)
	}
	for _, file := range report.Files {
		fmt.Fprintln(c.out, file)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tSLICES\tBYTES\tSHARE")
	for _, s := range report.Servers {
		fmt.Fprintf(t, "%d\t%d\t%d\t%.1f %%\n", s.Server, s.Slices, s.Bytes, 100*s.Share)
	}
	return t.Flush()
}
