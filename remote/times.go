package remote

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
)

// ShowTimes is Client.Show with where the time of the last rounds of each pserver and trainer went.
func ShowTimes(ctx context.Context, c *Client, id string) (*rpc.JobDetails, error) {
	return wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id, Rounds: true})
}

// WriteTrace writes what the roles of a job recorded of the steps that the job profiles as one file in the trace event format of Chrome (JSON), which
// about:tracing and ui.perfetto.dev show: a process for each role, on the clock of the listener. It returns which roles are not in it, and why.
func WriteTrace(ctx context.Context, w io.Writer, c *Client, id string) (missing []string, err error) {
	d, err := wire.Show(ctx, c.address, c.service, &rpc.JobRequest{Job: id, Traces: true})
	if err != nil {
		return nil, err
	}
	name := func(role job.Role, index uint32) string {
		return cluster.Member{Role: role, Index: int(index)}.String()
	}
	var parts []timing.Part
	for _, t := range d.Times {
		parts = append(parts, timing.Part{Role: name(t.Role, t.Index), Node: t.Node, Trace: t.Trace, Ahead: time.Duration(t.Clock), Missing: t.Missing})
	}
	for _, r := range d.Status.Roles {
		if r.Role != job.Role_COORDINATOR && r.Starts > 1 {
			parts = append(parts, timing.Part{Role: name(r.Role, r.Index),
				Missing: fmt.Sprintf("it was started %d times, and only its last process can have told its trace", r.Starts)})
		}
	}
	return timing.Write(w, id, parts)
}
