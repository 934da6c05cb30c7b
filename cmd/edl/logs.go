package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
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
	if role != "" {
		if err := checkRole(ctx, client, name, role); err != nil {
			return err
		}
	}
	err = client.Logs(ctx, name, role, follow, func(from, line string) error {
		if role == "" {
			line = from + " | " + line
		}
		_, err := fmt.Fprintln(c.out, line)
		return err
	})
	return fellSilent(err)
}

// checkRole refuses the name of a role that a job does not have, which would have written nothing.
func checkRole(ctx context.Context, client *remote.Client, name, role string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	s, err := client.Status(ctx, name)
	if err != nil {
		return err
	}
	var roles []string
	for _, r := range s.Roles {
		roles = append(roles, roleName(r))
	}
	if slices.Contains(roles, role) || s.State != job.State_RUNNING && !ended(s) { // not all may be there yet
		return nil
	}
	return fault.E(fault.NotFound, fault.At("job "+name), fault.Got("role "+fault.Quote(role)),
		fault.Want("one of "+strings.Join(roles, ", ")))
}
