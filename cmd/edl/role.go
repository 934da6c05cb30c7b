package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
)

// orphanGrace is how long a role whose parent is gone may take to end in order.
const orphanGrace = 5 * time.Second

// newRole is the command of child processes. It is not for people: it reads what to do from its standard input.
func newRole(c *console) *cobra.Command {
	return &cobra.Command{
		Use:    "role",
		Short:  "Run one role of a job; started by edl itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, lost, err := launch.ChildSpec(c.in)
			if err != nil {
				return err
			}
			return runRole(cmd.Context(), c, spec, lost)
		},
	}
}

// runRole runs a role to its end, or until its parent is gone. Then it removes what an embedded cluster leaves behind.
func runRole(parent context.Context, c *console, spec *job.RoleSpec, lost <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	log := slog.New(slog.NewTextHandler(c.err, nil)).With("role", role.Name(spec))
	ended := make(chan error, 1)
	go func() { ended <- role.Run(ctx, spec, role.Options{Log: log}) }()
	select {
	case err := <-ended:
		return err
	case <-lost:
	}
	orphaned := &fault.Fault{Kind: fault.LostMember, Where: role.Name(spec), Got: "no parent process any more"}
	cancel(orphaned)
	select {
	case <-ended:
	case <-time.After(orphanGrace):
	}
	if spec.RunDir == "" {
		return orphaned
	}
	return errors.Join(orphaned, launch.RemoveRunDir(spec.RunDir))
}
