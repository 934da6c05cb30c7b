package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newScale(c *console) *cobra.Command {
	f := &findFlags{}
	var trainers int32
	cmd := &cobra.Command{
		Use:   "scale JOB --trainers N",
		Short: "Change the number of trainers of an elastic job",
		Long: `Change how many trainers an elastic job wants, within the bounds that it was started with (--trainers MIN:MAX). Trainers that are
missing are started. Those that are too many finish their round, give their tasks back, and end.`,
		Example: "  edl scale mnist --trainers 5",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return scaleJob(cmd.Context(), c, f, args[0], trainers) },
	}
	f.add(cmd)
	cmd.Flags().Int32Var(&trainers, "trainers", 0, "number of trainers")
	return cmd
}

func scaleJob(ctx context.Context, c *console, f *findFlags, name string, trainers int32) error {
	if trainers < 1 {
		return tooFew("--trainers", int64(trainers))
	}
	client, err := f.open(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := client.Scale(ctx, name, int(trainers)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s wants %d trainers\n", name, trainers)
	return err
}
