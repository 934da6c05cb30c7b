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

// Resume starts a job again that was stopped or has failed, from its last checkpoint, as another job. It returns the id of that job, and how many steps it
// goes on after. A listener without a data folder resumes none. Numbers of roles that are 0 are those of the job.
func Resume(ctx context.Context, c *Client, id string, trainers, trainersMax, pservers int) (started string, steps uint64, err error) {
	r, err := c.service.ResumeJob(ctx, &rpc.ResumeJobRequest{Job: id, Trainers: int32(trainers), TrainersMax: int32(trainersMax), Pservers: int32(pservers)})
	return r.GetJob(), r.GetProgress().GetSteps(), c.at(err)
}
