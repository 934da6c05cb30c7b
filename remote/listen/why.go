package listen

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// Why tells what the job waits for now, the root of the matter first: roles that are down or have lost their leases, then servers that do not answer,
// then what the servers and the trainers wait for. It takes no longer than the servers have to answer.
func (j *Job) Why(ctx context.Context) *rpc.WhyResponse {
	j.refresh(ctx)
	j.mu.Lock()
	var waits []*job.Wait
	if j.crew != nil {
		var told []*job.Wait
		if _, silent := j.known.silent[cluster.Member{Role: job.Role_COORDINATOR}]; !silent {
			told = slices.Clone(j.known.queues.GetWaits())
		}
		for _, index := range sortedKeys(j.known.servers) {
			if _, silent := j.known.silent[cluster.Member{Role: job.Role_PSERVER, Index: index}]; silent {
				continue // what it said last is not what it waits for now
			}
			told = append(told, lasting(j.known.servers[index].Waits)...)
		}
		told = append(told, j.trainersWait(told)...)
		waits = slices.Concat(j.crew.waits(), j.silences(), rootFirst(told))
		for i, w := range waits {
			waits[i] = proto.Clone(w).(*job.Wait)
		}
		j.crew.lastErrors(waits)
	}
	j.mu.Unlock()
	return &rpc.WhyResponse{Status: j.Status(), Waits: waits}
}

// heartbeat is how long a round of a job that goes on may wait for a trainer without being worth a word.
const heartbeat = 500 * time.Millisecond

// lasting leaves out the waits that every round has.
func lasting(waits []*job.Wait) []*job.Wait {
	return slices.DeleteFunc(slices.Clone(waits), func(w *job.Wait) bool { return time.Since(w.Since.AsTime()) < heartbeat })
}

// refresh asks the servers of a job that runs.
func (j *Job) refresh(ctx context.Context) {
	j.mu.Lock()
	c := j.crew
	j.mu.Unlock()
	if c != nil {
		j.probe(ctx, c.peers)
	}
}

// supervisor is who waits for roles to start and to end.
const supervisor = "listener"

// waits returns what the supervisor waits for. job.mu is held.
func (c *crew) waits() (waits []*job.Wait) {
	add := func(what string, r supervise.Role, since, until time.Duration) {
		w := &job.Wait{Who: supervisor, What: what, By: []string{r.Member.String()}, Since: timestamppb.New(c.at(since))}
		if until > 0 {
			w.Until = timestamppb.New(c.at(until))
		}
		waits = append(waits, w)
	}
	begin, cause := c.machine.Restarting()
	if cause != nil {
		waits = append(waits, &job.Wait{Who: supervisor, What: "the new beginning of the job, whose parameters are lost",
			Until: timestamppb.New(c.at(begin)), LastError: cause.Error()})
	}
	for _, r := range lostFirst(c.machine.Roles()) {
		name := r.Member.String()
		switch {
		case r.State == supervise.Down && cause == nil:
			add("the next start of "+name, r, r.Since, r.Due)
		case r.Lost:
			add("the end of "+name+", whose lease is lost", r, r.Due-supervise.LostGrace, r.Due)
		case r.State == supervise.Draining:
			add("the end of "+name+", which is not wanted any more", r, r.Since, r.Due)
		case r.State == supervise.Running && c.job.roleStatus(r.Member).State == job.State_STARTING:
			add("the launch of "+name, r, r.Since, 0)
		}
	}
	return waits
}

// lastErrors adds what the supervisor knows of those that are waited for. job.mu is held.
func (c *crew) lastErrors(waits []*job.Wait) {
	last := map[string]error{}
	for _, r := range c.machine.Roles() {
		if r.Last != nil {
			last[r.Member.String()] = r.Last
		}
	}
	for _, w := range waits {
		for _, name := range w.By {
			if w.LastError == "" && last[name] != nil {
				w.LastError = last[name].Error()
			}
		}
	}
}

// sentence writes a wait as one line.
func sentence(w *job.Wait) string {
	text := w.Who + " waits for " + w.What
	if len(w.By) > 0 {
		text += " (" + strings.Join(w.By, ", ") + ")"
	}
	if w.LastError != "" {
		text += fmt.Sprintf(" (last error: %s)", w.LastError)
	}
	return text
}
