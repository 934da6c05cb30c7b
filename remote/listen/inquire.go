package listen

import (
	"context"
	"sync"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// inquiryTime bounds the wait for servers that do not answer.
const inquiryTime = time.Second

// inquire asks every pserver that lives where it is, what it waits for and how many messages it has refused, and enters that in the status. Of one that does
// not answer the status keeps what it said last.
func (j *Job) inquire(ctx context.Context) {
	j.mu.Lock()
	registry := j.registry
	var servers []*job.RoleStatus
	for _, r := range j.status.Roles {
		if r.Role == job.Role_PSERVER && r.State == job.State_RUNNING {
			servers = append(servers, r)
		}
	}
	j.mu.Unlock()
	if registry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inquiryTime)
	defer cancel()
	var group sync.WaitGroup
	for _, r := range servers {
		group.Go(func() { j.inquireOf(ctx, registry, r) })
	}
	group.Wait()
}

// inquireOf asks one pserver. What goes wrong leaves the status as it is: the job itself will tell what happened to the server.
func (j *Job) inquireOf(ctx context.Context, registry cluster.Registry, r *job.RoleStatus) {
	address, err := registry.Server(ctx, int(r.Index))
	if err != nil {
		return
	}
	conn, err := wire.Dial(address)
	if err != nil {
		return
	}
	defer conn.Close()
	answer, err := rpc.NewParameterServerClient(conn).Status(ctx, &rpc.StatusRequest{Job: j.ID})
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Address, r.Waiting = address, ""
	for _, w := range answer.Waits {
		r.Waiting = w.What
	}
	j.refused[r.Index] = 0
	for _, n := range answer.Refused {
		j.refused[r.Index] += n
	}
	j.status.Refused = 0
	for _, n := range j.refused {
		j.status.Refused += n
	}
}
