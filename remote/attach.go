package remote

import (
	"context"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A JobFilter says which jobs of a listener are wanted: those that fit all that is said. The zero value wants all jobs.
type JobFilter struct {
	States []job.State
	Name   string            // a name, or a pattern with * for any letters
	Labels map[string]string // with all of them
	Owner  string
	// Namespace is that of the jobs; empty: each that the user may see.
	Namespace string
	Limit     int // at most so many, those that were submitted last; 0: all
}

// FindJobs returns the jobs that a filter wants and the listener remembers, those that were submitted first before the others.
func FindJobs(ctx context.Context, c *Client, f JobFilter) ([]*job.JobStatus, error) {
	r, err := c.service.List(ctx, &rpc.ListRequest{States: f.States, Name: f.Name, Labels: f.Labels, Owner: f.Owner, Namespace: f.Namespace, Limit: int32(f.Limit)})
	return r.GetJobs(), c.at(err)
}

// AttachJob returns a job that somebody has submitted, to follow its steps, and what it fetches with each. The job does not need this follower: when each returns
// an error, or the context of Follow ends, it goes on.
func AttachJob(ctx context.Context, c *Client, id string) (*Job, []string, error) {
	d, err := c.Show(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	fetch := d.GetSpec().GetFetch()
	return &Job{ID: d.GetStatus().GetJob(), client: c, fetch: fetch, sync: d.GetSpec().GetMode() == job.Mode_SYNC, detached: true}, fetch, nil
}
