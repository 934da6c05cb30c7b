package main

import (
	"github.com/spf13/cobra"

	"github.com/edl-go/edl/remote"
)

// newRole is the command of child processes. It is not for people: it reads what to do from its standard input. Its arguments only name the role in
// the list of processes.
func newRole(c *console) *cobra.Command {
	return &cobra.Command{
		Use:    "role [JOB ROLE]",
		Short:  "Run one role of a job; started by edl itself",
		Hidden: true,
		Args:   cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return remote.RunChild(cmd.Context(), c.in, c.err)
		},
	}
}
