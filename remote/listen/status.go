package listen

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// Status returns how far the job is.
func (j *Job) Status() *job.JobStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := proto.Clone(j.status).(*job.JobStatus)
	if !j.Ended() {
		s.Seconds = time.Since(j.started).Seconds()
		s.Paused = j.paused()
	}
	return s
}

// roleStatus returns the entry of a role, making one where it belongs: coordinator, pservers, trainers. j.mu is held.
func (j *Job) roleStatus(m cluster.Member) *job.RoleStatus {
	r := &job.RoleStatus{Role: m.Role, Index: uint32(m.Index)}
	i, ok := slices.BinarySearchFunc(j.status.Roles, r, func(a, b *job.RoleStatus) int {
		if a.Role != b.Role {
			return int(a.Role) - int(b.Role)
		}
		return int(a.Index) - int(b.Index)
	})
	if !ok {
		j.status.Roles = slices.Insert(j.status.Roles, i, r)
	}
	return j.status.Roles[i]
}

// paused says why the job does not go on now, empty when it does. The coordinator knows best, unless it is the one that is missing. j.mu is held.
func (j *Job) paused() string {
	if j.crew == nil {
		return ""
	}
	if _, cause := j.crew.machine.Restarting(); cause != nil {
		return fmt.Sprintf("the job begins again, because parameters are lost: %v", cause)
	}
	roles := j.crew.machine.Roles()
	for _, r := range roles {
		if r.Role != job.Role_TRAINER && r.Lost {
			return fmt.Sprintf("%v has lost its lease", r.Member)
		}
	}
	for _, r := range roles {
		if r.Role != job.Role_TRAINER && r.State == supervise.Down {
			return fmt.Sprintf("%v has ended and is started again: %v", r.Member, r.Last)
		}
	}
	for _, r := range roles {
		if s, silent := j.known.silent[r.Member]; silent && r.State == supervise.Running {
			return fmt.Sprintf("%v does not answer since %s", r.Member, s.since.Format(time.TimeOnly))
		}
	}
	q := j.known.queues
	if q == nil || q.Phase == "" || q.Phase == "running" || q.Phase == "ending" {
		return ""
	}
	switch {
	case len(q.Waits) == 0:
		return q.Phase
	case q.Phase == "paused":
		return sentence(q.Waits[0])
	}
	return q.Phase + ": " + sentence(q.Waits[0])
}
