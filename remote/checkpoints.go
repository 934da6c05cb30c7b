package remote

import (
	"context"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// Checkpoint makes a checkpoint of a job that runs, and returns it when it has all steps that were trained before the call. The job goes on.
func Checkpoint(ctx context.Context, c *Client, id string) (*job.CheckpointStatus, error) {
	last, err := c.service.Checkpoint(ctx, &rpc.JobRequest{Job: id})
	return last, c.at(err)
}
