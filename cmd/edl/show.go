package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
)

// showFlags are the flags of "edl show".
type showFlags struct {
	as   *choice
	svg  string
	full bool

	plan    bool
	rows    int64
	workers int
}

func newShow(c *console) *cobra.Command {
	f := &showFlags{}
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show a program, parameters, records, a job file or task queues",
		Long: `Show what is in a file: a program, saved parameters, training records, a job file, or a snapshot of task queues. The kind of the file follows
from its content; a job file is one whose name ends in .yaml or .yml.`,
		Example: `  edl show program.pb
  edl show program.pb --svg program.svg
  edl show model/fc_0.w_0
  edl show ops conv2d`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return showFile(cmd.Context(), c, f, args[0]) },
	}
	f.as = choiceFlag(cmd, "output", "form of the output; prototext is for programs", "table", "json", "prototext")
	cmd.Flags().StringVar(&f.svg, "svg", "", "draw the program to this `FILE`; - is standard output")
	cmd.Flags().BoolVar(&f.full, "full", false, "do not shorten long lists and texts of a program")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "show how this machine would run the program: each step with its shapes, arithmetic, memory and time")
	cmd.Flags().Int64Var(&f.rows, "rows", 0, "with --plan: rows of the batch (default: as the program reads)")
	cmd.Flags().IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "with --plan: goroutines that run the ops of a step")
	cmd.AddCommand(newShowOps(c))
	return cmd
}

func showFile(ctx context.Context, c *console, f *showFlags, path string) error {
	kind, err := kindOf(path)
	if err != nil {
		return err
	}
	if kind != programFile && (f.svg != "" || f.plan || f.as.value == "prototext") {
		return &fault.Fault{
			Kind: fault.InvalidArgument, Where: path,
			Got: "a file that holds no program", Want: "a program for --svg, --plan and --output prototext",
		}
	}
	switch kind {
	case tensorFile:
		return showTensors(c, path, f.as.value)
	case recordFile:
		return showRecords(ctx, c, path, f.as.value)
	case jobFile:
		return showJob(c, path, f.as.value)
	case queueFile:
		return showQueues(c, path, f.as.value)
	}
	return showProgram(ctx, c, f, path)
}

// humanBytes writes a size for people.
func humanBytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 10<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
