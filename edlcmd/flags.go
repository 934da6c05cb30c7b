package edlcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherNames are what other systems call flags of edl.
var otherNames = map[string]string{"epochs": "passes", "epoch": "passes", "num-epochs": "passes", "remote": "listener"}

// flagFault says what the parser of flags found, and how to list the flags of the command. If a word before the flag is no command below cmd, that is
// what is wrong: the flags are of the command that was meant.
func flagFault(cmd *cobra.Command, err error) error {
	if before := cmd.Flags().Args(); len(before) > 0 && cmd.HasAvailableSubCommands() && cmd.Args != nil {
		if wrong := cmd.Args(cmd, before); wrong != nil {
			return wrong
		}
	}
	f := fault.E(fault.InvalidArgument, fault.At(cmd.CommandPath()), fault.Cause(errors.New(oneLine(err.Error()))))
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		f = valueFault("--"+wrong.GetFlag().Name, wrong)
	}
	f.Hint = seeHelp(cmd)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedShortnames()) == 0 {
		var names []string
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		name := unknown.GetSpecifiedName()
		if other := otherNames[name]; slices.Contains(names, "--"+other) {
			name = other
		}
		meant := fault.E(f.Kind, fault.DidYouMean("--"+name, names)).Hint
		if cmd.Name() == "submit" && slices.Contains([]string{"stop-when", "keep-best"}, name) {
			meant = `only "edl run" decides by evaluations while a program trains;`
		}
		f.Hint = strings.TrimSpace(meant + " " + f.Hint)
	}
	return f
}

// valueFault is the fault of a value that a flag does not take. where is what gave it.
func valueFault(where string, wrong *pflag.InvalidValueError) *fault.Fault {
	f := fault.E(fault.InvalidArgument, fault.At(where), fault.Got(fault.Quote(wrong.GetValue())))
	var known *fault.Fault
	switch kind := wrong.GetFlag().Value.Type(); {
	case errors.As(wrong, &known):
		f.Want = known.Want
	case errors.Is(wrong, strconv.ErrRange):
		f.Want = "a number that fits into " + kind
	case kind == "bool":
		f.Want = "true or false"
	case strings.Contains(wrong.GetFlag().Usage, "MiB") && strings.HasPrefix(kind, "int"):
		f.Want = "a whole number of MiB, without a unit"
	case strings.HasPrefix(kind, "uint"):
		f.Want = "a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"):
		f.Want = "a whole number"
	default:
		f.Err = errors.New(oneLine(wrong.Unwrap().Error()))
	}
	return f
}

// seeHelp points to the help of a command.
func seeHelp(cmd *cobra.Command) string {
	return fmt.Sprintf("%q lists its arguments and flags", cmd.CommandPath()+" --help")
}

// addressAfter is the fault of an address that is an argument because it follows a flag that takes its address after "=". alone: the flag has no address.
func addressAfter(flag string, alone bool, args []string) error {
	if !alone || len(args) == 0 || checkAddress("", args[len(args)-1]) != nil {
		return nil
	}
	address := args[len(args)-1]
	return fault.E(fault.InvalidArgument, fault.At(flag), fault.Gotf("no address, and the argument %s", fault.Quote(address)), fault.Want(flag+"="+address))
}

// explainArguments makes all commands below cmd say what they take when their arguments are wrong.
func explainArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
		if check := sub.Args; check != nil {
			sub.Args = func(cmd *cobra.Command, args []string) error {
				err := check(cmd, args)
				var known *fault.Fault
				if err == nil || errors.As(err, &known) {
					return err
				}
				return argumentsFault(cmd, args, check(cmd, nil) == nil && check(cmd, []string{""}) != nil)
			}
		}
	}
}

// argumentsFault is the fault of arguments that cmd does not take. none: it takes no arguments at all.
func argumentsFault(cmd *cobra.Command, args []string, none bool) error {
	f := fault.E(fault.InvalidArgument, fault.At(cmd.CommandPath()), fault.Hint(seeHelp(cmd)))
	_, takes, _ := strings.Cut(cmd.Use, " ")
	switch {
	case none && cmd.HasAvailableSubCommands():
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		f.Got, f.Want = "unknown command "+fault.Quote(args[0]), "one of "+strings.Join(names, ", ")
		f.Hint = strings.TrimSpace(meantCommand(cmd, args[0]) + " " + f.Hint)
	case none:
		f.Got, f.Want = "the argument "+fault.Quote(args[0]), "none"
	case len(args) == 1:
		f.Got, f.Want = "1 argument", takes
	default:
		f.Got, f.Want = fmt.Sprintf("%d arguments", len(args)), takes
	}
	return f
}

// meantCommand is the hint that names the command below cmd that was probably meant by a name, or by what others call it; empty: none is close.
func meantCommand(cmd *cobra.Command, name string) string {
	names, others := []string{}, map[string]string{}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
		for _, other := range sub.SuggestFor {
			others[other] = sub.Name()
		}
	}
	if meant := deeperCommand(cmd, name); meant != "" {
		return meant
	}
	meant := fault.E(fault.InvalidArgument, fault.DidYouMean(name, names)).Hint
	for _, other := range slices.Sorted(maps.Keys(others)) {
		if meant == "" && fault.E(fault.InvalidArgument, fault.DidYouMean(name, []string{other})).Hint != "" {
			meant = fault.E(fault.InvalidArgument, fault.DidYouMean(others[other], names)).Hint
		}
	}
	return meant
}

// deeperCommand is the hint that names the commands two words below cmd whose last word is name.
func deeperCommand(cmd *cobra.Command, name string) string {
	var paths []string
	for _, sub := range cmd.Commands() {
		for _, deeper := range sub.Commands() {
			if deeper.IsAvailableCommand() && deeper.Name() == name {
				paths = append(paths, fault.Quote(deeper.CommandPath()))
			}
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(paths, " or ") + "?"
}

// commandFault adds to the error of a command line whose first word is no command of root which one was probably meant. It returns other errors as they are.
func commandFault(root *cobra.Command, args []string, err error) error {
	found, _, unknown := root.Find(args)
	if err == nil || unknown == nil || found != root {
		return err
	}
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 {
		return err
	}
	return fault.E(fault.InvalidArgument, fault.At("edl"), fault.Got("unknown command "+fault.Quote(args[at])), fault.Hint(strings.TrimSpace(meantCommand(root, args[at])+" "+seeHelp(root))))
}

// strictBuiltins makes the commands that the library adds refuse what they do not know, as the others do.
func strictBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil {
					found, rest = root, args
				}
				if len(rest) > 0 {
					return argumentsFault(found, rest, true)
				}
				return nil
			}
		}
	}
}

// A choice is a flag that takes one of a few words.
type choice struct {
	value string
	among []string
}

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.among, s) {
		return fault.E(fault.InvalidArgument, fault.Got(fault.Quote(s)), fault.Want(strings.Join(c.among, " or ")))
	}
	c.value = s
	return nil
}

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Type implements pflag.Value.
func (c *choice) Type() string { return strings.Join(c.among, "|") }

// choiceFlag adds a flag of a few words, the first of which is the default.
func choiceFlag(cmd *cobra.Command, name, usage string, among ...string) *choice {
	c := &choice{among[0], among}
	cmd.Flags().Var(c, name, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(among, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// outputFlag adds --output.
func outputFlag(cmd *cobra.Command) *choice {
	return choiceFlag(cmd, "output", "form of the output", "table", "json")
}

// writeJSON writes a value as one line.
func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// Flags by what they need to be of any use. A new flag belongs into one of these lists, or is of use to every run.
var (
	clusterFlags = []string{"trainers", "pservers", "mode", "min-block-size", "no-slice", "split-method", "transport", "devices", "merge-hosts", "push-every", "pull-every", "staleness", "standby", "backup-trainers", "compress-gradients",
		"compress-parameters", "max-restarts", "max-task-failures", "follow", "checkpoint", "checkpoint-every", "keep", "resume", "name", "label", "namespace",
		"priority", "trainer-cores", "trainer-mib", "pserver-cores", "pserver-mib", "max-time"}
	etcdTLSFlags = []string{"etcd-ca", "etcd-cert", "etcd-key"}
	// readingFlags are for programs that read their own data. A role of any other job is not started again.
	readingFlags = []string{"data", "schema", "passes", "every", "follow", "max-restarts", "max-task-failures", "metric", "eval-data", "eval", "eval-every", "stop-when", "keep-best",
		"learning-rate", "batch-size", "seed", "tensorboard", "plot"}
)

// refuseIdle refuses the first of these flags that is on the command line, because it would have no effect. got says why, and want when it has an
// effect. Flags that the environment sets are not refused: the environment speaks to every command.
func refuseIdle(flags *pflag.FlagSet, names []string, got, want string, hint ...string) error {
	for _, name := range names {
		if given := flags.Lookup(name); given != nil && onCommandLine(given) {
			return fault.E(fault.InvalidArgument, fault.At("--"+name), fault.Got(got), fault.Want(want), fault.Hint(strings.Join(hint, "; ")))
		}
	}
	return nil
}
