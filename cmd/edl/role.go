package main

import (
	"github.com/spf13/cobra"

	"github.com/edl-go/edl/remote"
)

// newRole is the command of child processes. It is not for people: it reads what to do from its standard input.
func newRole(c *console) *cobra.Command {
	return &cobra.Command{
		Use:    "role",
		Short:  "Run one role of a job; started by edl itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return remote.RunChild(cmd.Context(), c.in, c.err)
		},
	}
}
