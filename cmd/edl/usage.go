package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edl-go/edl/fault"
)

// flagFault says what the parser of flags found, and where the flags of the command are told.
func flagFault(cmd *cobra.Command, err error) error {
	f := fault.E(fault.InvalidArgument, fault.At(cmd.CommandPath()), fault.Cause(errors.New(oneLine(err.Error()))))
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		f = valueFault("--"+wrong.GetFlag().Name, wrong)
	}
	f.Hint = seeHelp(cmd)
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
	return fmt.Sprintf("%q tells its arguments and flags", cmd.CommandPath()+" --help")
}

// explainArguments makes all commands below cmd say what they take when their arguments are wrong.
func explainArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
		if check := sub.Args; check != nil {
			sub.Args = func(cmd *cobra.Command, args []string) error {
				err := check(cmd, args)
				var told *fault.Fault
				if err == nil || errors.As(err, &told) {
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
	case none:
		f.Got, f.Want = "the argument "+fault.Quote(args[0]), "none"
	case len(args) == 1:
		f.Got, f.Want = "1 argument", takes
	default:
		f.Got, f.Want = fmt.Sprintf("%d arguments", len(args)), takes
	}
	return f
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
