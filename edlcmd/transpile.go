package edlcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/transpiler"
	"github.com/edl-go/edl/transpiler/report"
)

// transpileFlags are the flags of "edl transpile".
type transpileFlags struct {
	jobFlags
	startup startupFlag
	dir     string
	dump    bool
	html    string
	output  *choice
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
	flags.StringVarP(&f.dir, "out", "o", "", "write to the directory `DIR`")
	f.startup.add(cmd)
	flags.StringSliceVar(&f.fetch, "fetch", nil, "let trainers report the variables `NAME,...`")
	flags.BoolVar(&f.dump, "dump", false, "also write the programs after each pass that changed one, to DIR/dump")
	flags.StringVar(&f.html, "html", "", "also write a page to `FILE` that shows programs before and after each pass side by side")
	f.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return transpileProgram(cmd, c, f, args) }
	return cmd
}

func transpileProgram(cmd *cobra.Command, c *console, f *transpileFlags, args []string) error {
	if f.dir == "" {
		return fault.E(fault.InvalidArgument, fault.Got("no directory to write to"), fault.Want("-o DIR"))
	}
	spec, path, err := f.spec(cmd, args)
	if err != nil {
		return err
	}
	p, _, err := loadWhole(path)
	if err != nil {
		return err
	}
	if err := f.startup.give(p); err != nil {
		return err
	}
	config := jobspec.Transpiler(spec)
	config.Dump = f.dump || f.html != ""
	result, err := transpiler.Transpile(cmd.Context(), p, config)
	if err != nil {
		return err
	}
	held, err := executor.HoldDirectory(f.dir) // two would leave programs of both, and one that writes nothing leaves nothing
	if err != nil {
		return err
	}
	defer held.Release()
	if err := saveRoles(cmd.Context(), f.dir, result); err != nil {
		return err
	}
	if f.dump {
		if err := result.WriteDump(filepath.Join(f.dir, "dump")); err != nil {
			return err
		}
	}
	if f.html != "" {
		if err := writePage(f.html, path, result); err != nil {
			return err
		}
	}
	return reportPlacement(c, f, result)
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

// writePage writes the page of --html.
func writePage(path, title string, result *transpiler.Result) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fileFault(path, err)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = fileFault(path, closed)
		}
	}()
	return report.Write(f, title, result)
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
	var r placementReport
	for _, role := range result.Programs() {
		r.Files = append(r.Files, filepath.Join(f.dir, roleFile(role.Name)))
	}
	total := int64(0)
	for _, load := range result.Placement.Loads {
		total += load.Bytes
	}
	for _, load := range result.Placement.Loads {
		r.Servers = append(r.Servers, loadReport{load.Server, load.Slices, load.Bytes, float64(load.Bytes) / float64(max(total, 1))})
	}
	if f.output.value == "json" {
		return writeJSON(c.out, r)
	}
	for _, file := range r.Files {
		fmt.Fprintln(c.out, file)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tSLICES\tBYTES\tSHARE")
	for _, s := range r.Servers {
		fmt.Fprintf(t, "%d\t%d\t%d\t%.1f %%\n", s.Server, s.Slices, s.Bytes, 100*s.Share)
	}
	return t.Flush()
}
