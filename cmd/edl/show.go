package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		RunE: func(cmd *cobra.Command, args []string) error { return showFile(cmd, c, f, args[0]) },
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

func showFile(cmd *cobra.Command, c *console, f *showFlags, path string) error {
	ctx := cmd.Context()
	if err := f.refuseIdle(cmd.Flags()); err != nil {
		return err
	}
	kind, err := kindOf(path)
	if err != nil {
		return err
	}
	if kind != programFile {
		if err := refuseIdle(cmd.Flags(), []string{"full"}, "a file that holds no program", "a program"); err != nil {
			return err
		}
	}
	if kind != programFile && (f.svg != "" || f.plan || f.as.value == "prototext") {
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a file that holds no program"),
			fault.Want("a program for --svg, --plan and --output prototext"))
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

// refuseIdle refuses flags that are for another form of the output than what is asked for.
func (f *showFlags) refuseIdle(flags *pflag.FlagSet) error {
	switch {
	case f.svg != "":
		return refuseIdle(flags, []string{"plan", "rows", "workers", "full", "output"}, "a picture of the program", "no --svg beside it")
	case f.plan:
		return refuseIdle(flags, []string{"full", "output"}, "a plan, which is a table of all steps", "no --plan beside it")
	case f.as.value != "table":
		if err := refuseIdle(flags, []string{"full"}, "a form of the program that shortens nothing", "--output table"); err != nil {
			return err
		}
	}
	return refuseIdle(flags, []string{"rows", "workers"}, "no plan to show", "--plan beside it")
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
