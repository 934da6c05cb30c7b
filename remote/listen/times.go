package listen

import (
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// Times returns what is known of the times of each pserver and trainer: with rounds, where the time of its last rounds went, and with traces, what
// it recorded of the steps that the job profiles. A role that runs has told its rounds at most a second ago, and its trace not yet. With sampled, rounds that the listener
// traces are told with the clock of the role, and the coordinator is there, too, once it has told any.
func (j *Job) Times(rounds, traces, sampled bool) (all []*rpc.RoleTimes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.status.Roles {
		m := &rpc.RoleTimes{Role: r.Role, Index: r.Index, Node: r.Node}
		h := j.reports.handles[cluster.Member{Role: r.Role, Index: int(r.Index)}]
		if h != nil && rounds {
			m.Rounds = h.Rounds()
		}
		if h != nil && sampled {
			_, ahead := h.Trace()
			m.Clock = int64(ahead)
		}
		if r.Role == job.Role_COORDINATOR {
			if sampled && m.Rounds.GetSampled() != nil {
				all = append(all, m)
			}
			continue
		}
		if traces {
			m.Trace, m.Clock, m.Missing = traceOf(r, h)
		}
		if traces && m.Missing != "" {
			m.Missing = noTrace(&j.record, m.Missing)
		}
		all = append(all, m)
	}
	return all
}

// traceOf returns the trace of a role and how much its clock is ahead, or why there is no trace.
func traceOf(r *job.RoleStatus, h launch.Handle) (trace []byte, clock int64, missing string) {
	if h != nil {
		told, ahead := h.Trace()
		trace, clock = told, int64(ahead)
	}
	switch {
	case len(trace) > 0:
		return trace, clock, ""
	case r.State == job.State_RUNNING || r.State == job.State_STARTING:
		return nil, 0, "it still runs, and tells its trace when it ends"
	}
	return nil, 0, "it ended before it had told its whole trace"
}

// noTrace is why a role has no trace, where missing is what is known of the role itself. mu is held.
func noTrace(r *record, missing string) string {
	switch {
	case !r.profiled:
		return "the job profiles no steps"
	case r.tracesDropped:
		return "the listener keeps the traces of its last jobs only"
	}
	return missing
}

// dropTraces frees the traces of a job that has ended, and with them what its roles have reported last. It takes mu.
func (r *record) dropTraces() {
	r.withLock(func() {
		r.tracesDropped = true
		clear(r.reports.handles)
	})
}

// maxTraced is how many jobs that have ended keep their traces.
const maxTraced = 4

// dropTraces frees the traces of the oldest jobs that have ended, before another job is added. jobs are in the order in which they began.
func dropTraces(jobs []*Job) {
	traced := 0
	for i := len(jobs) - 1; i >= 0; i-- {
		if j := jobs[i]; j.profiled && j.Ended() {
			if traced++; traced >= maxTraced {
				j.dropTraces()
			}
		}
	}
}
