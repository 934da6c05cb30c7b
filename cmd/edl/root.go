package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "edl",
		Short: "Train programs on one machine or many",
		Long: `EDL runs programs: models that are data. A program is written with the Go DSL, or saved by Fluid; the
same file trains on one machine with "edl run" and on many with "edl run --remote".

Every flag can be set by the environment as EDL_<FLAG>, such as EDL_PASSES=3. A flag on the command line
comes first, then the environment, then the job file given with -f, then the default.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), c.env); err != nil {
				return err
			}
			c.parsed = true
			return nil
		},
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagFault)
	root.AddCommand(newRun(c), newData(c), newShow(c), newTranspile(c), newVerify(c), newDemo(c), newVersion(c), newRole(c))
	root.AddCommand(newListen(c), newJobs(c), newWhy(c), newLogs(c), newStop(c), newScale(c))
	strictBuiltins(root)
	explainArguments(root)
	return root
}

// fromEnvironment sets every flag that the command line left out and the environment names.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		value, ok := lookup(name)
		if err != nil || f.Changed || !ok || value == "" || f.Name == "help" {
			return
		}
		var wrong *pflag.InvalidValueError
		if errors.As(flags.Set(f.Name, value), &wrong) {
			err = valueFault("environment variable "+name, wrong)
		}
		f.Annotations = map[string][]string{environmental: nil}
	})
	return err
}

// environmental marks a flag that the environment has set.
const environmental = "environment"

// onCommandLine reports whether a flag was given, and not by the environment, which speaks to every command.
func onCommandLine(f *pflag.Flag) bool {
	_, set := f.Annotations[environmental]
	return f.Changed && !set
}

// environmentName is the environment variable of a flag.
func environmentName(flag string) string {
	return "EDL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
