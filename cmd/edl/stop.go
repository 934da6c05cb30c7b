package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// stopTime bounds the end of a job's roles.
const stopTime = time.Minute

func newStop(c *console) *cobra.Command {
	f := &findFlags{}
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "End a job before its time",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return stopJob(cmd.Context(), c, f, args[0]) },
	}
	f.add(cmd)
	return cmd
}

func stopJob(ctx context.Context, c *console, f *findFlags, name string) error {
	client, err := f.open(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := client.Stop(ctx, name); err != nil {
		return err
	}
	s, err := client.Status(ctx, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s: %s\n", name, rowOf(s).State)
	return err
}
