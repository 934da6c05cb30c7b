package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
)

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
