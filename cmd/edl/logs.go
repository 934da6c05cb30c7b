package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newLogs(c *console) *cobra.Command {
	f := &findFlags{}
	var follow bool
	cmd := &cobra.Command{
		Use:     "logs [JOB [ROLE]]",
		Short:   "Print what the roles of a job wrote",
		Example: "  edl logs mnist trainer-1 --follow",
		Args:    cobra.MaximumNArgs(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return printLogs(cmd.Context(), c, f, follow, args) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for more until the job has ended")
	return cmd
}

func printLogs(ctx context.Context, c *console, f *findFlags, follow bool, args []string) error {
	client, name, err := f.openJob(ctx, args)
	if err != nil {
		return err
	}
	defer client.Close()
	role := ""
	if len(args) > 1 {
		role = args[1]
	}
	return client.Logs(ctx, name, role, follow, func(from, line string) error {
		if role == "" {
			line = from + " | " + line
		}
		_, err := fmt.Fprintln(c.out, line)
		return err
	})
}
