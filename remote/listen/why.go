package listen

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/waits"
)

// Why tells what the job waits for now, the cause of the other waits first: roles that are down or have lost their leases, then servers that do not
// answer, then what the servers and the trainers wait for. It takes no longer than limits.Probe.
func (j *Job) Why(ctx context.Context) *rpc.WhyResponse {
	j.refresh(ctx)
	all := waitsOf(j)
	return &rpc.WhyResponse{Status: j.Status(), Waits: all}
}

// waitsOf returns the waits of a job as last known, in the order of Why.
func waitsOf(j *Job) (all []*job.Wait) {
	all = j.manager.queue.waits(j)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.roles != nil && j.status.State != job.State_WAITING { // what roles said last is not what a job waits for that is suspended
		var told []*job.Wait
		if _, silent := j.reports.silent[cluster.Member{Role: job.Role_COORDINATOR}]; !silent {
			told = slices.Clone(j.reports.queues.GetWaits())
		}
		for _, index := range sortedKeys(j.reports.servers) {
			if _, silent := j.reports.silent[cluster.Member{Role: job.Role_PSERVER, Index: index}]; silent {
				continue // what it said last is not what it waits for now
			}
			told = append(told, lasting(j.reports.servers[index].Waits)...)
		}
		told = append(told, j.trainersWait(told)...)
		all = slices.Concat(j.roles.waits(), j.followers.waits(), j.silences(), waits.RootFirst(told))
		for i, w := range all {
			all[i] = proto.Clone(w).(*job.Wait)
		}
		addLastErrors(j.roles, all)
	}
	return all
}

// heartbeat is how old a wait must be to be told: each round of a job that goes on waits for its trainers for a moment.
const heartbeat = 500 * time.Millisecond

// lasting leaves out waits that are younger than heartbeat.
func lasting(waits []*job.Wait) []*job.Wait {
	return slices.DeleteFunc(slices.Clone(waits), func(w *job.Wait) bool { return time.Since(w.Since.AsTime()) < heartbeat })
}

// refresh asks the servers of a job that runs.
func (j *Job) refresh(ctx context.Context) {
	j.mu.Lock()
	c := j.roles
	j.mu.Unlock()
	if c != nil {
		probe(ctx, j, c.peers)
	}
}

// supervisor is who waits for roles to start and to end.
const supervisor = "listener"

// waits returns what the supervisor waits for. job.mu is held.
func (c *jobRun) waits() (waits []*job.Wait) {
	add := func(what string, r supervise.Role, since, until time.Duration) {
		w := &job.Wait{Who: supervisor, What: what, By: []string{r.Member.String()}, Since: timestamppb.New(c.at(since))}
		if until > 0 {
			w.Until = timestamppb.New(c.at(until))
		}
		waits = append(waits, w)
	}
	if away, reason := c.registry.Silent(); !away.IsZero() {
		waits = append(waits, &job.Wait{Who: supervisor, What: "an answer of etcd; training goes on until a role ends, or the coordinator has to write down what is done", By: []string{"etcd"},
			Since: timestamppb.New(away), LastError: reason.Error()})
	}
	begin, cause := c.machine.Restarting()
	if suspended, _ := supervise.IsSuspended(c.machine); cause != nil && !suspended {
		why := "because parameters are lost"
		if supervise.Resizes(cause) {
			why = "with another number of pservers"
		}
		waits = append(waits, &job.Wait{Who: supervisor, What: "the next attempt of the job, " + why,
			Until: timestamppb.New(c.at(begin)), LastError: cause.Error()})
	}
	if lost := c.machine.GoesBack(); lost != nil {
		waits = append(waits, &job.Wait{Who: supervisor, What: "the job to go back to its last checkpoint, because parameters are lost",
			By: []string{"coordinator"}, LastError: lost.Error()})
	}
	if w := wishWaits(c); w != nil {
		waits = append(waits, w)
	}
	for _, r := range lostFirst(c.machine.Roles()) {
		name := r.Member.String()
		switch {
		case r.State == supervise.Absent:
			add("its standby to take the place of "+name, r, r.Since, r.Since+c.job.limits.Start)
			waits[len(waits)-1].By = []string{standby(r.Index).String()}
		case r.State == supervise.Down && cause == nil:
			add("the next start of "+name, r, r.Since, r.Due)
		case r.Lost:
			add("the end of "+name+", because its lease is lost", r, r.Due-c.job.limits.LostLease, r.Due)
		case r.State == supervise.Draining:
			of := "trainers"
			if r.Role != job.Role_TRAINER {
				of = "pservers"
			}
			add("the end of "+name+", because the job wants fewer "+of, r, r.Since, r.Due)
		case r.State == supervise.Running && c.job.role(r.Member).State == job.State_STARTING:
			add("the launch of "+name, r, r.Since, 0)
		}
	}
	return waits
}

// addLastErrors adds how those that are waited for have ended last. job.mu is held.
func addLastErrors(c *jobRun, waits []*job.Wait) {
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

// lostFirst puts the roles that have lost their leases before the others, which may have ended because of them.
func lostFirst(roles []supervise.Role) []supervise.Role {
	isLost := func(r supervise.Role) bool { return r.Lost }
	lost := slices.DeleteFunc(slices.Clone(roles), func(r supervise.Role) bool { return !isLost(r) })
	return append(lost, slices.DeleteFunc(roles, isLost)...)
}

// lineWriter enters the lines that a launcher passes on, one a call, into a job's log.
type lineWriter struct {
	log   *eventlog.Log[*rpc.LogLine]
	role  string
	start uint32
}

func (w lineWriter) Write(line []byte) (int, error) {
	w.log.Add(&rpc.LogLine{Role: w.role, Start: w.start, Line: string(bytes.TrimRight(line, "\n"))})
	return len(line), nil
}
